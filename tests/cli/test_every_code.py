"""Every code of an error is provoked through the command, and its message is judged.

A code that is raised anywhere has a scenario here, or is named with what stands in the way.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct

import pytest

from tests.cli.codes import test_exports, test_machines, test_registries, test_sources
from tests.cli.codes.judge import judged
from tests.cli.runner import run
from tests.cli.test_corpus import REFUSED, UNSUPPORTED
from tests.cli.test_corpus_directories import FILES as DIRECTORIES
from tests.hub import test_codes as hub
from tests.importer.builders import MODELS, REPOSITORY, model, safetensors, write
from tests.importer.engine.cluster import test_codes as cluster
from tests.importer.formats.gguf.test_hostile import ROWS as GGUF
from tests.importer.formats.onnx.test_hostile_files import ROWS as ONNX
from tests.importer.formats.pytorch import test_hostile_files as pytorch
from tests.importer.formats.pytorch import test_hostile_pickles as pickles
from tests.importer.sources.schemes import test_uqff_hostile as uqff
from tests.importer.sources.schemes.test_uqff_hostile import uqff as made

LLAMA = MODELS / "tiny-llama"


def weights(row, of=REFUSED):
    return {"model.safetensors": of[row][0]}


def packed(row):
    return {"x.bin": pickles.checkpoint(pickles.PICKLES[row][0])}


def _uqff(layer):
    return {
        "q4k-0.uqff": safetensors(made.version() | layer),
        "residual.safetensors": safetensors({}),
    }


FILES = {
    "E_CONFIG": DIRECTORIES["D18-empty"][0],
    "E_GGUF": {"x.gguf": GGUF["an empty key"][0]},
    "E_GGUF_ALIGNMENT": {"x.gguf": GGUF["an alignment of 0"][0]},
    "E_GGUF_CONTENT": {"x.gguf": GGUF["empty"][0]},
    "E_GGUF_DUPLICATE": {"x.gguf": GGUF["a key twice"][0]},
    "E_GGUF_KIND": {"x.gguf": GGUF["5 dimensions"][0]},
    "E_GGUF_NAME": {"x.gguf": GGUF["an empty name"][0]},
    "E_GGUF_OVERLAP": {"x.gguf": GGUF["two tensors at one place"][0]},
    "E_GGUF_SHAPE": {"x.gguf": GGUF["a side of 4611686018427387904"][0]},
    "E_GGUF_TRUNCATED": {"x.gguf": GGUF["a magic alone"][0]},
    "E_GGUF_TYPE": {"x.gguf": GGUF["the type 4"][0]},
    "E_GGUF_UTF8": {"x.gguf": GGUF["a key that is not UTF-8"][0]},
    "E_GGUF_VERSION": {"x.gguf": GGUF["version 0"][0]},
    "E_JSON_DEPTH": weights("S54"),
    "E_JSON_NUMBER": weights("S55"),
    "E_LIMIT": {"x.gguf": GGUF["counts in another byte order"][0]},
    "E_NAME": {"x.onnx": ONNX["no name"][0]},
    "E_ONNX_CONTENT": {"x.onnx": ONNX["nothing"][0]},
    "E_ONNX_DATA": {"x.onnx": ONNX["no location"][0]},
    "E_ONNX_KIND": {"x.onnx": ONNX["type 29"][0]},
    "E_ONNX_NAME": {"x.onnx": ONNX["two tensors of a name"][0]},
    "E_ONNX_TENSOR": {"x.onnx": ONNX["type 0"][0]},
    "E_ONNX_TRUNCATED": {"x.onnx": ONNX["a number that does not end"][0]},
    "E_ONNX_WIRE": {"x.onnx": ONNX["two graphs"][0]},
    "E_PATH": DIRECTORIES["D06"][0],
    "E_PT_CONTENT": {"x.bin": b"version https://git-lfs.github.com/spec/v1\n"},
    "E_PT_GLOBAL": {"x.bin": pickles.checkpoint(b"cos\nsystem\n")},
    "E_PT_KIND": {"x.bin": pytorch.ARCHIVES["compressed pickle"][0]},
    "E_PT_OPCODE": packed("build of a dict"),
    "E_PT_PICKLE": {"x.bin": pytorch.ARCHIVES["no byte order"][0]},
    "E_PT_STORAGE": {"x.bin": pytorch.ARCHIVES["a size of less"][0]},
    "E_PT_TENSOR": packed("a tensor without storage"),
    "E_PT_TRUNCATED": {"x.bin": pytorch.ARCHIVES["a pickle that ends early"][0]},
    "E_PT_ZIP": {"x.bin": pytorch.ARCHIVES["two entries of a name"][0]},
    "E_QUANT_PAIR": weights("S61"),
    "E_SRC_AMBIGUOUS": DIRECTORIES["D15"][0],
    "E_SRC_DUPLICATE": DIRECTORIES["D14"][0],
    "E_SRC_EMPTY": DIRECTORIES["D02-documents"][0],
    "E_SRC_INDEX": DIRECTORIES["D04"][0],
    "E_SRC_SHARD_MISSING": DIRECTORIES["D03"][0],
    "E_ST_CONTENT": {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\n"},
    "E_ST_DTYPE": weights("S34", UNSUPPORTED),
    "E_ST_DUPLICATE": weights("S37"),
    "E_ST_FIELDS": weights("S44"),
    "E_ST_HEADER_JSON": weights("S03"),
    "E_ST_HEADER_SIZE": weights("S04"),
    "E_ST_HEADER_TYPE": weights("S08"),
    "E_ST_HOLE": weights("S16"),
    "E_ST_METADATA": weights("S42"),
    "E_ST_OFFSETS": weights("S20"),
    "E_ST_OVERLAP": weights("S18"),
    "E_ST_RANK": weights("S33"),
    "E_ST_SHAPE": weights("S28"),
    "E_ST_SHORT": weights("S01"),
    "E_ST_SIZE": weights("S32"),
    "E_ST_TRAILING": weights("S15"),
    "E_ST_TRUNCATED": weights("S06"),
    "E_ST_UTF8": weights("S10"),
    "E_FORMAT": {"model.h5": b"x"},
    "E_QUANT_FORMAT": {
        "config.json": {"quantization_config": {"quant_method": "hqq"}},
        "model.safetensors": safetensors({"a.W_q": ("U8", (4, 4)), "a.weight": ("F32", (4,))}),
    },
    "E_UQFF_KIND": _uqff(uqff.UNREAD["family 7"][0]),
    "E_UQFF_LAYER": _uqff(uqff.MALFORMED["no data"][0]),
    "E_UQFF_VERSION": {
        "q4k-0.uqff": safetensors(uqff.entries("plain")),
        "residual.safetensors": safetensors({}),
    },
}
"""Code -> files of a source whose import it ends."""

CALLS = {
    "E_USAGE": "create x {llama} --jobs 0",
    "E_ID": "cp kept@xyz other",
    "E_HISTORY": "show kept@0000",
    "E_NOT_FOUND": "show nothing",
    "E_NO_PART": "show kept --system",
    "E_NO_TENSOR": "show kept --tensor nope",
    "E_NO_REPORT": "show quantized --quality",
    "E_NOT_ROUNDED": "show kept --quality",
    "E_NAME_TAKEN": "create kept {llama} --no-clobber",
    "E_NAME_COLLISION": "create KEPT {llama}",
    "E_MODELFILE": "create x -f {place}/Modelfile",
    "E_MODELFILE_MISSING": "create x -f {place}/nowhere",
    "E_REQUIRES": "create x -f {place}/Requires",
    "E_ADAPTER": "create x -f {place}/Adapter",
    "E_DRAFT": "create x -f {place}/Draft",
    "E_RECIPE": "create x {llama} --recipe {place}/bad.toml",
    "E_RECIPE_TYPE": "create x {llama} --recipe uniform",
    "E_RECIPE_TYPED": "create x {llama} -q int4 --recipe {place}/typed.toml",
    "E_BUDGET_BITS": "create x {llama} --target-bpw many",
    "E_BUDGET_RECIPE": "create x {llama} --target-bpw 5 --recipe mixed_3_6",
    "E_BUDGET_SIZE": "create x {llama} --target-size 1KB",
    "E_BUDGET_TWICE": "create x {llama} --target-size 1GB --target-bpw 5",
    "E_BUDGET_TYPE": "create x {llama} --target-bpw 5 -q int4",
    "E_BUDGET_UNUSED": "create x {llama} --allow int4",
    "E_SENSITIVITY": "create x {llama} --target-bpw 5 --sensitivity {place}/bad.toml",
    "E_RULE": "create x {llama} --rule nonsense",
    "E_RULE_UNUSED": "create x {llama} --rule *.nope=int4",
    "E_IMATRIX_TYPE": "create x {llama} --imatrix x.safetensors",
    "E_QUANT_RECIPE": "create x {llama} -q mixed_4_6",
    "E_QUANT_TYPE": "create x {llama} -q int9",
    "E_QUANT_GROUP": "create x {llama} -q int4 --group-size 7",
    "E_QUANT_KEEP": "create x {llama} -q keep",
    "E_GROUP_FIXED": "create x {llama} -q nvfp4 --group-size 32",
    "E_GROUP_TWICE": "create x {llama} -q int4/64 --group-size 32",
    "E_GROUP_UNUSED": "create x {llama} --group-size 32",
    "E_CALIBRATE_UNUSED": "create x {llama} --calibrate mse",
    "E_STRICT": "create x {place}/odd --rule *=int4 --strict",
    "E_QUANT_NONFINITE": "create x {place}/nan -q int4",
    "E_MEMORY_LIMIT": "create x {llama} -q int4 --max-memory 1M",
    "E_SRC_MISSING": "create x {place}/nowhere",
    "E_SRC_TYPE": "create x {place}/pipe",
    "E_SRC_VARIANT": "create x {llama} --variant fp99",
    "E_SRC_VARIANTS": "create x {place}/variants",
    "E_STORE_OVERLAP": "create x {place}/inside --store {place}/inside/store",
    "E_STORE_PATH": "list --store {place}/bad.toml",
    "E_STORE_FOREIGN": "create x {llama} --store {place}/odd",
    "E_NO_STORE": "list --store {place}/nowhere",
    "E_SYNC": "sync {place}/list.toml",
    "E_SYNC_MISSING": "sync {place}/nowhere.toml",
    "E_SYNC_LOCK": "sync {place}/locked.toml",
    "E_SYNC_LOCKED": "sync {place}/models.toml --locked",
    "E_EXPORT_PLACE": "export kept {llama} --to hf",
    "E_EXPORT_TYPE": "export kept {place}/out --to uqff -q nope",
    "E_EXPORT_FORMAT": "export pipeline {place}/out --to mlx",
    "E_IMATRIX_CONTENT": "export kept {place}/x.gguf --to gguf -q q4_k --imatrix {place}/zip",
    "E_EXPORT_TENSOR": "export odd {place}/odd-out.gguf --to gguf",
}
"""Code -> the command that it ends, on a store with some models."""


def _manifest(store):
    return store / "manifests/registry.ollama.ai/library/kept/latest"


def _blob(store, name="lm_head.weight"):
    layers = json.loads(_manifest(store).read_bytes())["layers"]
    (digest,) = [one["digest"] for one in layers if one.get("name") == name]
    return store / "blobs" / digest.replace(":", "-")


def _torn(store):
    _manifest(store).write_bytes(b"{")


def _other_digest(store):
    text = _manifest(store).read_text("utf-8")
    _manifest(store).write_text(text.replace("sha256:", "sha512:"), encoding="utf-8")


def _gone(store):
    _blob(store).unlink()


def _short(store):
    os.truncate(_blob(store, "config.json"), 3)


def _link(store):
    path = _blob(store, "config.json")
    path.unlink()
    path.symlink_to("/dev/null")


def _rotten(store):
    path = _blob(store)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)


def _unsafe(store):
    store.chmod(0o777)


def _version(store):
    (store / "VERSION").write_text("999", encoding="utf-8")


def _history_gone(store):
    run("cp", "moe:v1", "kept", store=store).succeeded()
    (one,) = (store / "history").rglob("sha256-*")
    digest = json.loads(one.read_bytes())["layers"][0]["digest"]
    (store / "blobs" / digest.replace(":", "-")).unlink()
    return one.name.removeprefix("sha256-")


DAMAGES = {
    "E_MANIFEST": (_torn, "show kept"),
    "E_DIGEST": (_other_digest, "show kept"),
    "E_BLOB_MISSING": (_gone, "export kept {place}/out --to hf"),
    "E_BLOB_DIGEST": (_rotten, "export kept {place}/out --to hf"),
    "E_BLOB_SIZE": (_short, "show kept --config"),
    "E_BLOB_KIND": (_link, "show kept --config"),
    "E_GC_REFUSED": (_torn, "gc --yes"),
    "E_STORE_UNSAFE": (_unsafe, "create x {llama}"),
    "E_VERSION": (_version, "list"),
    "E_HISTORY_GONE": (_history_gone, "cp kept@{found} kept"),
}
"""Code -> what happened to the store, and a command that meets it."""


def _fails(target, number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number), "/a/file", None, "/another/file")

    return target, fail


def _memory(*_, **__):
    raise MemoryError


def _bug(*_, **__):
    raise ZeroDivisionError("by nothing")


def _hub(status, word="", **headers):
    """What the Hub answers, as if it were asked now."""
    import httpx2

    from importer.hub.errors import refused

    asked = httpx2.Request("GET", "https://hub/x", headers=headers)
    answer = {"X-Error-Code": word, "Retry-After": "7"}

    def fail(*_, **__):
        raise refused(httpx2.Response(status, headers=answer, request=asked), "org/model")

    return "importer.pipeline.plan_import", fail


def _proxy(*_, **__):
    from importer.hub.errors import odd_answer

    raise odd_answer("<html>`login`</html>")


FAULTS = {
    "E_HUB_ANSWER": ("importer.pipeline.plan_import", _proxy),
    "E_HUB_FILE": _hub(404, "EntryNotFound"),
    "E_HUB_FORBIDDEN": _hub(403),
    "E_HUB_GATED": _hub(403, "GatedRepo"),
    "E_HUB_LIMIT": _hub(429),
    "E_HUB_REPOSITORY": _hub(404),
    "E_HUB_REVISION": _hub(404, "RevisionNotFound"),
    "E_HUB_STATUS": _hub(400),
    "E_HUB_TOKEN": _hub(401, authorization="x"),
    "E_HUB_UNAUTHORIZED": _hub(401),
    "E_HUB_UNREACHABLE": _hub(503),
    "E_ACCESS": _fails("store.fs.FileSystem.mkdir", errno.EACCES),
    "E_READ_ONLY": _fails("store.fs.FileSystem.mkdir", errno.EROFS),
    "E_NOSPACE": _fails("store.fs.FileSystem.mkdir", errno.ENOSPC),
    "E_EXHAUSTED": _fails("store.fs.FileSystem.mkdir", errno.EMFILE),
    "E_IO": _fails("store.fs.FileSystem.mkdir", errno.EIO),
    "E_XDEV": _fails("store.fs.FileSystem.rename", errno.EXDEV),
    "E_MEMORY": ("importer.pipeline.plan_import", _memory),
    "E_BUG": ("importer.pipeline.plan_import", _bug),
}
"""Code -> what fails of the machine while a model is imported."""

NOT_YET = {
    "E_CALIBRATE": "a flag has its own message, and a list says it with its own code",
    "E_PIN": "what tore the pins ends the command first",
    "E_QUANT_DTYPE": "the plan keeps what cannot be quantized, and says so",
    "E_SRC_CHANGED": "`show --tensor` says it in a line",
}
"""Codes that tests of their rooms raise, and why no command ends with them; a new code comes
with a scenario."""


def test_every_code_that_is_raised_has_a_scenario():
    told = {*FILES, *CALLS, *DAMAGES, *FAULTS, *test_machines.SCENES, *test_machines.RUNNING}
    told |= {*test_registries.SCENES, *test_sources.SCENES, *test_exports.SCENES}
    told |= {*hub.SCENES, *cluster.SCENES}

    assert told & NOT_YET.keys() == set()
    assert sorted(codes() - told - NOT_YET.keys()) == []
    assert sorted((told | NOT_YET.keys()) - codes()) == []


def codes():
    """Each code that the rooms can raise, wherever it is spelled."""
    found = set()
    for room in ("cli", "importer", "store"):
        for path in (REPOSITORY / room).rglob("*.py"):
            if path.name != "hints.py":
                found |= set(re.findall(r'"(E_[A-Z0-9_]+)"', path.read_text(encoding="utf-8")))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Things that are wrong, each in its own way, and a store with models."""
    place = tmp_path_factory.mktemp("codes")
    store = place / "store"
    run("create", "kept", LLAMA, store=store).succeeded()
    run("create", "moe:v1", MODELS / "tiny-moe", store=store).succeeded()
    run("create", "quantized", LLAMA, "-q", "int4", store=store).succeeded()
    run("create", "pipeline", MODELS / "tiny-pipeline", store=store).succeeded()
    model(place / "odd", {"a.weight": ("BF16", (4, 7))})
    run("create", "odd", place / "odd", store=store).succeeded()
    model(place / "inside")
    model(place / "integers", {"a.weight": ("I32", (4, 64))})
    nan = struct.pack("<f", float("nan")) * 64 * 32
    model(place / "nan", {"a.weight": ("F32", (32, 64), nan)})
    both = {f"model.{kind}.safetensors": safetensors({"a": ("F32", (4,))}) for kind in "xy"}
    write(place / "variants", both)
    os.mkfifo(place / "pipe")
    write(
        place,
        {
            "bad.toml": b"[[rule]]\n",
            "typed.toml": b'[[rule]]\nmatch = "*"\ntype = "int8"\n',
            "list.toml": b"[[model]]\n",
            "models.toml": f'[[model]]\nname = "m"\nsource = "{LLAMA}"\n'.encode(),
            "locked.toml": f'[[model]]\nname = "m"\nsource = "{LLAMA}"\n'.encode(),
            "locked.toml.lock": b"nonsense",
            "Modelfile": b"SYSTEM hello\n",
            "Requires": f"FROM {LLAMA}\nREQUIRES 0.1.0\n".encode(),
            "Adapter": f"FROM {LLAMA}\nADAPTER {LLAMA}\n".encode(),
            "Draft": f"FROM {LLAMA}\nDRAFT {MODELS / 'tiny-pipeline'}\n".encode(),
            "empty": b"",
            "zip": b"PK\3\4" + bytes(99),
        },
    )
    return place


@pytest.mark.parametrize("code", FILES)
def test_a_source(code, place, tmp_path):
    source = write(tmp_path / "source", FILES[code])
    only = list(FILES[code])
    is_file = only[0].startswith("x.")

    judged(code, "create", "x", source / only[0] if is_file else source, store=place / "store")


@pytest.mark.parametrize("code", CALLS)
def test_a_call(code, place, tmp_path):
    store = shutil.copytree(place / "store", tmp_path / "store")
    words = [word.format(llama=LLAMA, place=place, store=store) for word in CALLS[code].split()]

    judged(code, *words, store=store)


@pytest.mark.parametrize("code", DAMAGES)
def test_a_damage(code, place, tmp_path):
    store = shutil.copytree(place / "store", tmp_path / "store")
    damage, call = DAMAGES[code]
    found = damage(store)
    words = [w.format(llama=LLAMA, place=tmp_path, found=found) for w in call.split()]

    judged(code, *words, store=store)


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault(code, place, tmp_path, monkeypatch):
    store = shutil.copytree(place / "store", tmp_path / "store")
    monkeypatch.setattr(*FAULTS[code])

    judged(code, "create", "x", MODELS / "tiny-moe", "-q", "int8", store=store)
