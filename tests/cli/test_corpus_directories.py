"""Bad model directories (reliability.md 3.2, rows D): each has one clean error."""

from __future__ import annotations

import contextlib
import json
import os
import socket

import pytest

from tests.cli.runner import run
from tests.importer.builders import MODELS, safetensors, shards, write

A, B = {"a.weight": ("F32", (2,))}, {"b.weight": ("F32", (2,))}
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
WEIGHTS = {"model.safetensors": safetensors(A)}


def mapped(**weight_map):
    return {INDEX: {"weight_map": weight_map}}


def without(files, name):
    return {path: content for path, content in files.items() if path != name}


def config(content):
    return {**WEIGHTS, "config.json": content}


# Row -> files, code, words of the message.
FILES = {
    "D02": ({}, "E_SRC_EMPTY", "no weights"),
    "D02-documents": ({"config.json": {}}, "E_SRC_EMPTY", "no weights"),
    "D03": (without(shards(A, B), SECOND), "E_SRC_SHARD_MISSING", (f"`{SECOND}`", INDEX)),
    "D03-numbered": (
        without(shards(A, B, indexed=False), FIRST),
        "E_SRC_SHARD_MISSING",
        ("1 of 2", "number 1"),
    ),
    "D04": (
        {**shards({**A, "c": ("U8", (1,))}, B), **mapped(**{"a.weight": SECOND, "c": FIRST})},
        "E_SRC_INDEX",
        ("`a.weight`", f"`{FIRST}`", f"`{SECOND}`"),
    ),
    "D05": (
        {**shards(A, {**B, "c": ("U8", (1,))}), **mapped(**{"a.weight": FIRST, "c": SECOND})},
        "E_SRC_INDEX",
        ("`b.weight`", f"`{SECOND}`"),
    ),
    "D06": (mapped(a="../../../etc/passwd"), "E_PATH", "part `..`"),
    "D07-absolute": (mapped(a="/etc/passwd"), "E_PATH", "absolute"),
    "D07-drive": (mapped(a="C:\\x"), "E_PATH", "has `:`"),
    "D07-unc": (mapped(a="\\\\host\\share"), "E_PATH", "has `\\`"),
    "D14": (
        shards({**A, "c": ("U8", (1,))}, {**A, **B}),
        "E_SRC_DUPLICATE",
        (f"`{FIRST}`", f"`{SECOND}`"),
    ),
    "D14-numbered": (
        shards(A, A, indexed=False),
        "E_SRC_DUPLICATE",
        (f"`{FIRST}`", f"`{SECOND}`"),
    ),
    "D15": (
        {**shards(A, B, indexed=False), **WEIGHTS},
        "E_SRC_AMBIGUOUS",
        ("`model.safetensors`", f"`{FIRST}`"),
    ),
    "D16-list": ({INDEX: {"weight_map": []}}, "E_SRC_INDEX", "`weight_map`"),
    "D16-number": (mapped(a=1), "E_SRC_INDEX", "`a`"),
    "D16-missing": ({INDEX: {"metadata": {}}}, "E_SRC_INDEX", "`weight_map`"),
    "D16-malformed": ({INDEX: "{"}, "E_SRC_INDEX", INDEX),
    "D18-empty": (config(""), "E_CONFIG", "`config.json`"),
    "D18-list": (config("[]"), "E_CONFIG", "not a JSON object"),
    "D18-truncated": (config('{"a": 1'), "E_CONFIG", "`config.json`"),
    "D18-duplicate": (config('{"a": 1, "a": 2}'), "E_CONFIG", "duplicate key `a`"),
    "D18-deep": (config('{"a":' + "[" * 9999 + "]" * 9999 + "}"), "E_CONFIG", "nested"),
    "D18-surrogate": (config('{"a": "\\ud800"}'), "E_CONFIG", "surrogate"),
    "D18-latin": (config(b'{"a": "\xe9"}'), "E_CONFIG", "UTF-8 at byte"),
    "D18-pipeline": ({"a/model.safetensors": safetensors(A), "model_index.json": "[]"},
                     "E_CONFIG", "`model_index.json`"),
    "D19-negative": (config({"max_position_embeddings": -1}), "E_CONFIG", "is -1"),
    "D19-float": (config({"max_position_embeddings": 1e9}), "E_CONFIG", "1000000000.0"),
    "D19-text": (config({"hidden_size": "\x1b[2J"}), "E_CONFIG", "\\x1b[2J"),
    "D19-true": (config({"hidden_size": True}), "E_CONFIG", "True"),
    "D21-0": (config({"quantization": {"group_size": 0}}), "E_CONFIG", "`group_size` is 0"),
    "D21-7": (config({"quantization": {"group_size": 7}}), "E_CONFIG", "`group_size` is 7"),
    "D21-2^40": (config({"quantization": {"group_size": 2**40}}), "E_CONFIG", str(2**40)),
    "D21-layer": (config({"quantization": {"a": {"bits": 9}}}), "E_CONFIG", "`bits` is 9"),
    "D21-text": (config({"quantization": {"bits": "\x1b[2J"}}), "E_CONFIG", "\\x1b[2J"),
    "D22": (config({"quantization": {"bits": 4}}), "E_QUANT_PAIR", "says 4 bits"),
    "D19-huge": (config({"hidden_size": 10**400}), "E_CONFIG", "from 1 to 2147483647"),
}  # fmt: skip


@pytest.mark.parametrize("row", FILES)
def test_a_bad_directory_is_refused(judge, tmp_path, row):
    files, code, say = FILES[row]
    source = write(tmp_path / "m", files)
    source.mkdir(exist_ok=True)

    judge.refused("create", "x", source, code=code, say=say)


ACCEPTED = {
    "D18-missing": WEIGHTS,
    "D18-nan": config('{"a": NaN, "b": [Infinity, -Infinity], "c": 1e999}'),
    "D19-unused": config({"num_hidden_layers": -1, "vocab_size": "x", "n_ctx": None}),
    "D20": config({"num_experts": 10**9, "num_local_experts": 10**18}),
    "D23": {**WEIGHTS, "tokenizer.json": '{"chat_template": "\\u001b[2J \x1b]0;x\x07"}'},
}


@pytest.mark.parametrize("row", ACCEPTED)
def test_an_odd_directory_is_accepted_and_kept_verbatim(judge, tmp_path, row):
    source = write(tmp_path / "m", ACCEPTED[row])

    judge.accepted(source)

    layers = run("show", "x", "--json", store=judge.store).succeeded().document["layers"]
    for layer in layers:
        if layer["mediaType"].endswith(".json"):
            blob = judge.store / "blobs" / layer["digest"].replace(":", "-")
            assert blob.read_bytes() == (source / layer["name"]).read_bytes()
    run("show", "x", "-v", store=judge.store).succeeded()


@pytest.mark.parametrize("path", ["no", "file/x", "no/../no", "\x1b[2J"])
def test_d01_a_source_that_is_not_there(judge, tmp_path, path):
    write(tmp_path, {"file": b""})

    judge.refused("create", "x", tmp_path / path, code="E_SRC_MISSING", exit_code=9)


def test_d01_a_source_that_is_no_model(judge, tmp_path):
    write(tmp_path, {"notes.txt": b"hello"})

    judge.refused("create", "x", tmp_path / "notes.txt", code="E_FORMAT", exit_code=4)


def fifo(source):
    os.mkfifo(source / FIRST)


def bound(source):
    # By its name alone: the address of a socket has at most 107 bytes.
    with contextlib.chdir(source), socket.socket(socket.AF_UNIX) as server:
        server.bind(FIRST)


def linked(target, name=SECOND):
    def make(source):
        (source / name).symlink_to(target)

    return make


def escaped(source):
    write(source.parent, {"other/w.safetensors": safetensors(A)})
    (source / "sub").symlink_to("../other")


def looped(source):
    (source / "sub").symlink_to(".")


# Row -> what is wrong with the directory, code, words.
PLACES = {
    "D08": (linked("/etc/shadow"), "E_PATH", "leaves the source"),
    "D09": (escaped, "E_PATH", "`sub` is a link that leaves the source"),
    "D09-root": (linked("/", "everything"), "E_PATH", "leaves the source"),
    "D11": (linked(SECOND), "E_PATH", "leads back to itself"),
    "D11-directory": (looped, "E_PATH", "leads back to itself"),
    "D11-dangling": (linked("nowhere"), "E_PATH", "does not exist"),
    "D12-pipe": (fifo, "E_SRC_TYPE", "not a regular file"),
    "D12-socket": (bound, "E_SRC_TYPE", "not a regular file"),
    "D12-directory": (lambda source: (source / FIRST).mkdir(), "E_SRC_TYPE", "a directory"),
    "D12-device": (linked("/dev/null"), "E_SRC_TYPE", "not a regular file"),
    "D13": (linked("/dev/zero"), "E_SRC_TYPE", "not a regular file"),
    "D13-random": (linked("/dev/random", "config.json"), "E_SRC_TYPE", "not a regular file"),
}


@pytest.mark.parametrize("row", PLACES)
def test_a_file_that_is_none_is_refused(judge, tmp_path, row):
    make, code, say = PLACES[row]
    source = tmp_path / "m"
    write(source, {INDEX: {"weight_map": {"a.weight": FIRST, "b.weight": SECOND}}})
    make(source)

    judge.refused("create", "x", source, code=code, say=say)


def test_d10_a_snapshot_of_the_hub_cache_is_accepted(judge, tmp_path):
    repository = tmp_path / "hub" / "models--org--name"
    write(repository / "blobs", {"aa": safetensors(A), "bb": "{}"})
    snapshots = repository / "snapshots" / ("0" * 40)
    snapshots.mkdir(parents=True)
    (snapshots / "model.safetensors").symlink_to("../../blobs/aa")
    (snapshots / "config.json").symlink_to("../../blobs/bb")

    judge.accepted(snapshots)


def test_d11_a_source_that_is_a_loop(judge, tmp_path):
    (tmp_path / "loop").symlink_to("loop")

    judge.refused("create", "x", tmp_path / "loop", code="E_PATH", say="leads back to itself")


@pytest.mark.parametrize("name", [INDEX, "config.json"])
def test_d17_a_huge_document(judge, tmp_path, name):
    source = write(tmp_path / "m", WEIGHTS)
    (source / name).touch()
    os.truncate(source / name, 300 << 20)

    judge.refused("create", "x", source, code="E_LIMIT", say=(f"`{name}`", "314572800 bytes"))


def test_d24_too_many_files(judge, tmp_path, monkeypatch):
    monkeypatch.setattr("store.limits.FILES_PER_SOURCE", 50)
    source = write(tmp_path / "m", {**WEIGHTS, **{f"{n}.txt": b"" for n in range(50)}})

    judge.refused("create", "x", source, code="E_LIMIT", say="entry number 51")


@pytest.mark.slow
def test_d24_200_000_files(judge, tmp_path):
    source = write(tmp_path / "m", WEIGHTS)
    for number in range(200_000):
        (source / f"{number}.txt").touch()

    judge.refused("create", "x", source, code="E_LIMIT", say="entry number 100001")


@pytest.mark.parametrize(
    "name",
    [b"a\nb.json", b"\x1b]0;x\x07", b"\xff\xfe.txt", b"CON", "\u202etxt.json".encode()],
    ids=["newline", "escape", "bytes", "device", "bidi"],
)
def test_d25_a_file_with_an_odd_name(judge, tmp_path, name):
    source = write(tmp_path / "m", WEIGHTS)
    with open(os.path.join(os.fsencode(source), name), "wb"):
        pass

    judge.refused("create", "x", source, code="E_NAME", say="not safe everywhere")


def test_a_real_model_is_none_of_these(judge):
    outcome = judge.accepted(MODELS / "tiny-pipeline")

    document = json.loads(outcome.stdout)
    assert document["warnings"] == []
    assert [one["kind"] for one in document["runs_in"]["obstacles"]] == ["pipeline"]
