"""`ingot diff`: two sides of any kind, exit codes, and what people and scripts read."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.cli.runner import run
from tests.importer.builders import CAUSAL, MODELS, safetensors, write
from tests.importer.formats.gguf.builders import gguf
from tests.importer.sources.containers.test_gguf import ARCHITECTURE

LLAMA = MODELS / "tiny-llama"
HOSTILE = "model.layers.0.\x1b[31m\u202ered.weight"


@pytest.fixture
def both(filled):
    """A store with a llama `kept`, and `small`, the same one quantized."""
    run("create", "small", LLAMA, "-q", "int4", store=filled).succeeded()
    return filled


def changed(*words, store):
    done = run("diff", *words, store=store)
    assert done.code == 12, (done.code, done.stderr)
    return done.clean()


def tuned(directory):
    """A copy of the llama with one tensor that moved by a factor, and another configuration."""
    shutil.copytree(LLAMA, directory, ignore=shutil.ignore_patterns("*.bin", "consolidated*"))
    for path in directory.glob("*.safetensors"):
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        name = "model.layers.1.self_attn.q_proj.weight"
        if name in header:
            begin, end = (8 + size + offset for offset in header[name]["data_offsets"])
            for place in range(begin + 1, end, 2):  # the next exponent: twice the value
                data[place - 1 : place + 1] = (
                    int.from_bytes(data[place - 1 : place + 1], "little") + 0x80
                ).to_bytes(2, "little")
            path.write_bytes(data)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    (directory / "config.json").unlink()
    write(directory, {"config.json": config | {"rope_theta": 5e5}})
    return directory


@pytest.mark.parametrize(
    "sides",
    [("kept", "kept"), ("kept", LLAMA), (LLAMA, "kept"), (LLAMA, LLAMA), ("moe:v1", "moe:v1")],
)
def test_equal_sides_end_with_0(filled, sides):
    done = run("diff", *sides, store=filled).succeeded()

    assert "equal: " in done.stdout
    document = run("diff", *sides, "--json", store=filled).succeeded().document
    assert document["equal"] is True
    assert document["differences"] == document["documents"] == []


def test_a_store_is_not_needed(store):
    assert "equal: 21 tensors" in run("diff", LLAMA, LLAMA, store=store).succeeded().stdout
    assert not store.exists()


def test_a_quantized_model_says_what_it_lost(both):
    text = changed("kept", "small", store=both).stdout

    assert "tensors: 6 the same, 15 in another type" in text
    assert "mlp                6    BF16 98 KB     int4 20 KB, int8 17 KB" in text
    assert "model.layers.1.self_attn.v_proj.weight    BF16    int4     7.97%      21.98" in text
    shares = [word for word in text.split() if re.fullmatch(r"[1-9]\.\d*%", word)]
    assert [one for one in shares if not re.fullmatch(r"\d\.\d\d%", one)] == []
    assert any(one.endswith("0%") for one in shares)


def test_what_has_no_counterpart_is_counted_as_different(store):
    lines = run("diff", LLAMA, MODELS / "tiny-moe", store=store).stdout.splitlines()

    (row,) = (line.split() for line in lines if line.startswith("attention "))
    assert row == ["attention", "14", "BF16", "49", "KB", "F16", "12", "KB", "14"]
    (row,) = (line.split() for line in lines if line.startswith("model.layers.0 "))
    assert row[1:3] == ["12", "12"]


def test_a_fine_tune_says_which_layers_moved(filled, tmp_path):
    text = changed("kept", tuned(tmp_path / "tuned"), store=filled).stdout

    assert "tensors: 20 the same, 1 changed; 1 difference beside the weights" in text
    assert "model.layers.1          9         1    100%    ████████████████" in text
    assert "model.layers.0 " not in text
    assert "rope_theta          10000.0 -> 500000.0" in text


def test_the_document_has_everything(both, tmp_path):
    printed = changed("kept", tuned(tmp_path / "t"), "--json", store=both).stdout
    document = json.loads(printed)

    assert document["schema"] == "ingot.diff/1"
    assert document["equal"] is False
    assert document["a"]["name"] == "kept:latest"
    assert document["tensors"]["changed"] == 1
    (moved,) = document["differences"]
    assert moved["kind"] == "changed"
    assert (moved["role"], moved["layer"]) == ("attention", "model.layers.1")
    assert moved["a"] == moved["b"] == {"type": "BF16", "shape": [64, 64], "bytes": 8192}
    assert moved["measures"]["relative_rmse"] == pytest.approx(1)
    by_layer = {row["layer"]: row for row in document["layers"]}
    assert by_layer["model.layers.0"]["changed"] == 0
    assert by_layer["model.layers.1"]["relative_rmse"] == pytest.approx(1)
    (config,) = document["documents"]
    assert config["entries"] == [{"key": "rope_theta", "a": "10000.0", "b": "500000.0"}]


def test_a_stored_name_wins_over_a_path_and_says_so(both, tmp_path, monkeypatch):
    shutil.copytree(LLAMA, tmp_path / "small")

    monkeypatch.chdir(tmp_path)

    taken = run("diff", "kept", "small", store=both)
    path = run("diff", "kept", "./small", store=both)

    assert (taken.code, path.code) == (12, 0)
    assert "note: `small` is a model in the store and a path" in taken.stderr


def test_a_side_may_be_an_id_or_what_a_name_stood_for(both):
    listed = run("list", "kept", "--json", store=both).document["models"]
    identity = listed[0]["digest"].removeprefix("sha256:")[:8]
    run("cp", "small", "kept", store=both).succeeded()

    text = changed(f"kept@{identity}", "kept", store=both).stdout

    assert text.startswith(f"A    kept:latest@{identity}")
    assert "15 in another type" in text
    assert "equal" in run("diff", f"kept@{identity}", LLAMA, store=both).succeeded().stdout


@pytest.mark.parametrize(
    ("sides", "code", "said"),
    [
        (("kept", ""), 2, "a side is empty"),
        (("kept", "nothing"), 9, "nothing"),
        (("kept", "kept@1111"), 9, "has no `1111` in its history"),
        (("kept",), 2, "B"),
    ],
)
def test_a_wrong_side_is_an_error(filled, sides, code, said):
    assert said in run("diff", *sides, store=filled).failed(code)


def test_hostile_names_drive_no_terminal(tmp_path, store):
    for side, data in (("a", b"aaaa"), ("b", b"bbbb")):
        tensors = {HOSTILE.replace("0", number): ("F32", [1], data) for number in "012"}
        files = {
            "model.safetensors": safetensors(tensors),
            "config.json": CAUSAL | {"\x1b[2J": f"\x1b]0;{side}\x07"},
        }
        write(tmp_path / side, files)

    done = run("diff", tmp_path / "a", tmp_path / "b", store=store)

    assert done.code in {3, 12}
    done.clean()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_the_terminal(both, columns):
    done = run("diff", "kept", "small", store=both, COLUMNS=str(columns))

    assert max(map(len, done.stdout.splitlines())) <= columns


def test_long_lists_are_cut_and_verbose_has_all(filled):
    text = changed("kept", "moe:v1", store=filled).stdout
    whole = changed("kept", "moe:v1", "-v", store=filled).stdout

    assert "ONLY IN A" in text
    assert "ONLY IN B" in text
    assert "--verbose" not in whole


def test_verbose_lists_every_tensor_by_its_name(filled):
    run("create", "again", LLAMA, store=filled).succeeded()
    names = [
        one["name"] for one in run("show", "again", "--json", store=filled).document["tensors"]
    ]
    equal = run("diff", "again", LLAMA, "-v", store=filled).succeeded().stdout
    apart = changed("again", "moe:v1", "-v", store=filled).stdout

    for name in names:
        for text in (equal, apart):
            assert any(line.split()[:1] == [name] for line in text.splitlines()), name
    assert "THE SAME" in equal
    assert "THE SAME" not in run("diff", "again", LLAMA, store=filled).succeeded().stdout


def test_two_ids_of_equal_models_are_explained(filled, tmp_path):
    path = write(tmp_path, {"x.gguf": gguf([("w", "F32", (2, 32))], [ARCHITECTURE])}) / "x.gguf"
    for name, source in (("whole", path), ("a", path), ("b", "whole")):
        words = () if name == "whole" else ("-q", "bf16")
        run("create", name, source, *words, store=filled).succeeded()

    done = run("diff", "a", "b", store=filled).succeeded()

    assert "equal: 1 tensor" in done.stdout
    assert "they have two IDs, " in done.stderr
    assert "these records differ (files, model)" in done.stderr
    assert "two IDs" not in run("diff", "a", "a", store=filled).succeeded().stderr


def test_a_path_does_not_look_like_the_name_of_a_model(both, tmp_path, monkeypatch):
    shutil.copytree(LLAMA, tmp_path / "bare")
    monkeypatch.chdir(tmp_path)

    header = run("diff", "kept", "bare", store=both).succeeded().stdout.splitlines()[:2]

    assert [line.split()[1] for line in header] == ["kept:latest", "./bare"]
