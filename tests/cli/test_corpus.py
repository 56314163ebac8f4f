"""Bad safetensors files (reliability.md 3.2, rows S): each has one clean error."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import zipfile

import pytest

from tests.check_store import snapshot
from tests.cli.runner import environment, run, spawn
from tests.importer.builders import framed, safetensors, write

DATA = bytes(range(16))


def one(name="a", dtype="F32", shape=(2,), offsets=(0, 8), data=DATA[:8], **more):
    """A file of one tensor, any of whose fields may be wrong."""
    entry = {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}
    return framed({name: entry}, data)


def two(first, second, nbytes=16):
    """A file of two F32 tensors at these offsets."""
    entries = {
        name: {"dtype": "U8", "shape": [max(end - begin, 0)], "data_offsets": [begin, end]}
        for name, (begin, end) in (("first", first), ("second", second))
    }
    return framed(entries, DATA[:nbytes])


def parts(weight="w.weight", scale=".scales", bias=".biases", **shapes):
    """A weight of 64 columns in 4 bits, with companions of these shapes."""
    stem = weight.removesuffix(".weight")
    named = {"scales": stem + scale, "biases": stem + bias}
    companions = {named[part]: ("F16", shape) for part, shape in shapes.items()}
    return safetensors({weight: ("U32", (4, 8)), **companions})


def text(tensor='"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}', before="", after=""):
    """A file whose header is text."""
    header = "{" + before + tensor + after + "}"
    return framed(header, DATA[:8])


def number(value):
    """A file with a number of any spelling as an offset."""
    return text(f'"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,{value}]}}')


def zipped():
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("payload", "x" * 100)
    return archive.getvalue()


ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
ENTRY_OF_NAN = '"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,8]}'
METADATA = '"__metadata__":{"k":"v"},'

REFUSED = {
    "S01": (b"", "E_ST_SHORT", "0 bytes, expected at least 8"),
    "S02": (DATA[:7], "E_ST_SHORT", "7 bytes"),
    "S03": (framed("", length=0), "E_ST_HEADER_JSON", "empty header"),
    "S04": (framed("{}", length=1 << 63), "E_ST_HEADER_SIZE", "9223372036854775808"),
    "S05": (framed("{}", length=(1 << 64) - 1), "E_ST_HEADER_SIZE", "100000000"),
    "S06": (framed("{}", length=1000), "E_ST_TRUNCATED", "file has 10 bytes, expected 1008"),
    "S07": (framed("{}", length=100_000_001), "E_ST_HEADER_SIZE", "100000001"),
    "S08": (framed("[]"), "E_ST_HEADER_TYPE", "not a JSON object"),
    "S09": (framed("null"), "E_ST_HEADER_TYPE", "not a JSON object"),
    "S10": (framed(b'{"\xff":' + ENTRY.encode() + b"}", DATA[:8]), "E_ST_UTF8", "at byte 2"),
    "S11": (framed("\ufeff{}"), "E_ST_HEADER_JSON", "BOM"),
    "S12": (framed("{" + f'"a":{ENTRY}' + "}x", DATA[:8]), "E_ST_HEADER_JSON", "extra data"),
    "S13": (framed("{" + f'"a":{ENTRY}' + "}\0\0", DATA[:8]), "E_ST_HEADER_JSON", "extra data"),
    "S14": (one(data=DATA[:5]), "E_ST_TRUNCATED", "promises 8 bytes of data, file has 5"),
    "S15": (one(data=DATA[:9]), "E_ST_TRAILING", "1 bytes after the last tensor"),
    "S16": (two((0, 4), (8, 16)), "E_ST_HOLE", "hole of 4 bytes before tensor `second`"),
    "S17": (one(offsets=(4, 12), data=DATA[:12]), "E_ST_HOLE", "hole of 4 bytes"),
    "S18": (two((0, 10), (8, 16)), "E_ST_OVERLAP", ("`first`", "`second`")),
    "S19": (two((0, 16), (0, 16)), "E_ST_OVERLAP", ("`first`", "`second`")),
    "S20": (two((0, 8), (8, 0)), "E_ST_OFFSETS", "[8, 0]"),
    "S21": (one(offsets=(-16, -8)), "E_ST_OFFSETS", "[-16, -8]"),
    "S22": (one(offsets=(1 << 64, (1 << 64) + 8)), "E_ST_OFFSETS", "18446744073709551616"),
    "S23": (number("8e0"), "E_ST_OFFSETS", "8.0"),
    "S24": (number("8.0"), "E_ST_OFFSETS", "expected integers"),
    "S25": (number("true"), "E_ST_OFFSETS", "True"),
    "S26": (number('"8"'), "E_ST_OFFSETS", "'8'"),
    "S27": (one(offsets=(0, 4, 8)), "E_ST_OFFSETS", "[0, 4, 8]"),
    "S28": (one(shape=(1 << 40, 1 << 40), offsets=(0, 8)), "E_ST_SHAPE", "2^63"),
    "S29": (one(shape=(1 << 32, 1 << 32), offsets=(0, 0), data=b""), "E_ST_SHAPE", "2^63"),
    "S31": (one(shape=(-2,)), "E_ST_SHAPE", "dimension -2"),
    "S31-true": (one(shape=(2, True)), "E_ST_SHAPE", "dimension True"),
    "S31-float": (one(shape=(2.0,)), "E_ST_SHAPE", "dimension 2.0"),
    "S32": (one(shape=(1_234_567,)), "E_ST_SIZE", "offsets give 8 bytes, expected 4938268"),
    "S33": (one(shape=[1] * 1000), "E_ST_RANK", "1000 dimensions, the limit is 16"),
    "S36": (one(dtype="F4", shape=(3,), offsets=(0, 1), data=b"x"), "E_ST_SIZE", "1+4/8"),
    "S37": (
        text(after=',"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}'),
        "E_ST_DUPLICATE",
        "`a`",
    ),
    "S38": (text(after=f',"\\u0061":{ENTRY}'), "E_ST_DUPLICATE", "`a`"),
    "S39": (text(f'"a":{ENTRY[:-1]},"dtype":"U8"}}'), "E_ST_DUPLICATE", "`dtype`"),
    "S40": (text(before=METADATA * 2), "E_ST_DUPLICATE", "`__metadata__`"),
    "S41": (text(before='"__metadata__":{"k":"v","k":"w"},'), "E_ST_DUPLICATE", "`k`"),
    "S42": (text(before='"__metadata__":{"k":1},'), "E_ST_METADATA", "`k`"),
    "S43": (text(before='"__metadata__":[],'), "E_ST_METADATA", "not an object"),
    "S43-tensor": (text(before=f'"__metadata__":{ENTRY},'), "E_ST_METADATA", "`shape`"),
    "S44": (text('"a":{"dtype":"F32","data_offsets":[0,8]}'), "E_ST_FIELDS", "`shape`"),
    "S44-null": (text('"a":null'), "E_ST_FIELDS", "`a`"),
    "S45": (one(extra=1), "E_ST_FIELDS", "exactly the fields"),
    "S46": (one(""), "E_NAME", "empty"),
    "S48": (one("\x1b]0;owned\x07"), "E_NAME", "\\x1b]0;owned\\x07"),
    "S49": (one("\x1b[2J\x1b]52;c;eA==\x07"), "E_NAME", "\\x1b[2J"),
    "S50": (one("a\u202eb"), "E_NAME", "\\u202e"),
    "S50-zero-width": (one("a\u200bb"), "E_NAME", "\\u200b"),
    "S51": (text(f'"\\ud800":{ENTRY}'), "E_ST_UTF8", "surrogate"),
    "S52": (text(f'"a\\u0000b":{ENTRY}'), "E_NAME", "\\x00"),
    "S53": (one("n" * 1_000_000), "E_NAME", "longer than 1024 bytes"),
    "S54": (framed('{"a":' + "[" * 100_000 + "]" * 100_000 + "}"), "E_JSON_DEPTH", "nested"),
    "S54-65": (framed('{"a":' + "[" * 65 + "]" * 65 + "}"), "E_JSON_DEPTH", "deeper than 64"),
    "S55": (number("9" * 5000), "E_JSON_NUMBER", "digits"),
    "S56": (text(ENTRY_OF_NAN), "E_JSON_NUMBER", "NaN"),
    "S56-inf": (number("1e999"), "E_JSON_NUMBER", "1e999"),
    "S61": (parts(scales=(4, 3), biases=(4, 3)), "E_QUANT_PAIR", "do not fit each other"),
    "S61-rows": (parts(scales=(3, 2), biases=(3, 2)), "E_QUANT_PAIR", "do not fit each other"),
    "S61-biases": (parts(scales=(4, 2), biases=(4, 1)), "E_QUANT_PAIR", "differ in shape"),
    "S61-ollama": (parts("w", ".scale", ".bias", scales=(4, 3)), "E_QUANT_PAIR", "do not fit"),
    "S62-biases": (parts(scales=(4, 2)), "E_QUANT_PAIR", "and no `w.biases`"),
    "S62-scales": (parts(biases=(4, 2)), "E_QUANT_PAIR", "and no `w.scales`"),
    "S59": (one() + zipped(), "E_ST_TRAILING", "bytes after the last tensor"),
}  # fmt: skip
UNSUPPORTED = {
    "S34": (one(dtype="Q4"), "E_ST_DTYPE", "`Q4`"),
    "S35": (one(dtype="f32"), "E_ST_DTYPE", "`f32`"),
    "S35-escaped": (one(dtype="\x1b[2J"), "E_ST_DTYPE", "\\x1b[2J"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_a_malformed_file_is_refused(judge, tmp_path, row):
    content, code, say = REFUSED[row]
    source = write(tmp_path / "m", {"model.safetensors": content})

    error = judge.refused("create", "x", source, code=code, say=say)

    assert error["message"].startswith("`model.safetensors`: ")
    assert error["hint"]


@pytest.mark.parametrize("row", UNSUPPORTED)
def test_an_unknown_dtype_is_unsupported(judge, tmp_path, row):
    content, code, say = UNSUPPORTED[row]
    source = write(tmp_path / "m", {"model.safetensors": content})

    judge.refused("create", "x", source, code=code, exit_code=4, say=say)


@pytest.mark.parametrize("row", ["S01", "S14", "S37", "S48"])
def test_a_single_file_is_judged_alike(judge, tmp_path, row):
    content, code, say = REFUSED[row]
    write(tmp_path, {"x.safetensors": content})

    judge.refused("create", "x", tmp_path / "x.safetensors", code=code, say=say)


@pytest.mark.parametrize("row", ["S06", "S15", "S38", "S51"])
def test_a_bad_shard_of_a_component_is_judged_alike(judge, tmp_path, row):
    content, code, say = REFUSED[row]
    shard = "vae/model-00001-of-00001.safetensors"
    source = write(tmp_path / "m", {"model_index.json": {}, shard: content})

    error = judge.refused("create", "x", source, code=code, say=say)

    assert error["message"].startswith(f"`{shard}`: ")


ACCEPTED = {
    "S30": one(shape=(0, 1 << 60), offsets=(0, 0), data=b""),
    "S47": safetensors({"../../x": ("U8", (1,)), "/etc/ingot-x": ("U8", (1,))}),
    "S60": safetensors(dict.fromkeys(("w", "W", "é", "é"), ("U8", (1,)))),
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_an_odd_file_is_accepted(judge, tmp_path, row):
    outcome = judge.accepted(write(tmp_path / "m", {"model.safetensors": ACCEPTED[row]}))

    assert bool(outcome.document["warnings"]) == (row == "S30")


OPENED = """
import os, sys
paths = []
def hook(event, arguments):
    if event in {"open", "os.rename", "os.mkdir", "os.link", "os.symlink"}:
        paths.append((event, *arguments))
sys.addaudithook(hook)
sys.argv = ["ingot", *sys.argv[1:]]
from cli.main import run
try:
    run()
finally:
    for event, *arguments in paths:
        flags = arguments[2] if event == "open" else os.O_CREAT
        if isinstance(flags, int) and flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
            print(*arguments[:1], file=sys.stderr)
"""


def test_s47_a_tensor_name_is_never_a_path(store, tmp_path):
    source = write(tmp_path / "m", {"model.safetensors": ACCEPTED["S47"]})
    before = snapshot(tmp_path)
    command = [sys.executable, "-c", OPENED, "create", "x", str(source), "--store", str(store)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, check=True, text=True
    )

    written = [line for line in done.stderr.splitlines() if line.startswith("/")]
    assert len(written) > 10
    assert [p for p in written if not p.startswith(f"{store}/") and p != str(store)] == []
    now = {path: facts for path, facts in snapshot(tmp_path).items() if path != "store"}
    assert {p: f for p, f in now.items() if not p.startswith("store/")} == before
    assert not os.path.exists("/etc/ingot-x")


def test_s57_too_many_tensors_in_a_file(judge, tmp_path, monkeypatch):
    monkeypatch.setattr("store.limits.TENSORS_PER_FILE", 99)
    tensors = {f"t{index}": ("U8", (1,)) for index in range(100)}
    source = write(tmp_path / "m", {"model.safetensors": safetensors(tensors)})

    judge.refused("create", "x", source, code="E_LIMIT", say="100 tensors, the limit is 99")


@pytest.mark.slow
@pytest.mark.parametrize(("count", "exit_code"), [(250_000, 4), (250_001, 3), (1_000_001, 3)])
def test_s57_a_million_tensors(judge, tmp_path, count, exit_code):
    source = write(tmp_path / "m", {"model.safetensors": tensors_of_a_byte(count)})

    outcome = spawn("create", "x", source, "--json", store=judge.store, preexec_fn=limited)

    assert outcome.clean().error["code"] == "E_LIMIT"
    assert outcome.code == exit_code
    assert not judge.store.exists()


def tensors_of_a_byte(count):
    entries = ",".join(
        f'"t{n}":{{"dtype":"U8","shape":[1],"data_offsets":[{n},{n + 1}]}}'
        for n in range(count)
    )
    return framed("{" + entries + "}", bytes(count))


def test_s57_more_tensor_layers_than_a_manifest_holds(store, tmp_path):
    entries = ",".join(
        f'"t{n}":{{"dtype":"U8","shape":[1],"data_offsets":[{n},{n + 1}]}}'
        for n in range(100_001)
    )
    content = framed("{" + entries + "}", bytes(100_001))
    source = write(tmp_path / "m", {"model.safetensors": content})

    outcome = run("create", "x", source, "--json", store=store)

    assert outcome.clean().error["code"] == "E_LIMIT"
    assert outcome.code == 4
    assert not store.exists()


def limited():
    """Allow a child 1 GiB of memory and 30 s of work."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (30, 30))


@pytest.mark.parametrize("row", ["S04", "S05", "S53", "S54", "S55"])
def test_a_bad_file_is_refused_in_a_gigabyte(store, tmp_path, row):
    content, code, _ = REFUSED[row]
    source = write(tmp_path / "m", {"model.safetensors": content})

    outcome = spawn("create", "x", source, "--json", store=store, preexec_fn=limited)

    assert outcome.clean().error["code"] == code
    assert not store.exists()


@pytest.mark.parametrize("what", ["metadata", "name", "names"])
def test_s58_a_header_of_99_megabytes(store, tmp_path, what):
    if what == "metadata":
        header = '{"__metadata__":{"x":"' + "a" * 99_000_000 + f'"}},"a":{ENTRY}' + "}"
    else:
        letter = "é" if what == "names" else "a"
        header = '{"' + letter * (99_000_000 // len(letter.encode())) + f'":{ENTRY}' + "}"
    source = write(tmp_path / "m", {"model.safetensors": framed(header, DATA[:8])})

    outcome = spawn("create", "x", source, "--json", store=store, preexec_fn=limited)

    if what == "metadata":
        outcome.succeeded()
    else:
        assert outcome.clean().error["code"] == "E_NAME"
        assert not store.exists()


def test_s65_a_sparse_file_of_8_tebibytes(judge, tmp_path):
    nbytes = 8 << 40
    header = {"a": {"dtype": "U8", "shape": [nbytes], "data_offsets": [0, nbytes]}}
    source = write(tmp_path / "m", {"model.safetensors": framed(header)})
    try:
        os.truncate(source / "model.safetensors", nbytes + len(framed(header)))
    except OSError as error:
        pytest.skip(f"the file system refuses such a file: {error}")

    said = ("needs up to 8.8 TB (8,796,0", "nothing was written")
    judge.refused("create", "x", source, code="E_NOSPACE", exit_code=7, say=said)

    run("create", "x", source, "--dry-run", store=judge.store).succeeded()
    assert not judge.store.exists()
