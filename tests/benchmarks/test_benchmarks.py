"""The harness: its statistics, its table, what it runs and what it leaves behind."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys

import pytest

from importer.sources.inventory import read_inventory
from tests.benchmarks import checkpoints, ollama_writer, run
from tests.benchmarks.measure import (
    MIB,
    RSS_UNIT,
    CommandFailedError,
    Cost,
    Pairs,
    Spread,
    alternate,
)
from tests.benchmarks.report import Result, table
from tests.benchmarks.rows import ROWS, Measure, Row, bare_python, ingot_help

SMALL = 2_000_000
TOUCH = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(b'x')"
"""Writes a file, as a command that is measured does."""


def cost(seconds, mebibytes=0):
    return Cost(seconds, cpu_seconds=seconds * 2, peak_bytes=mebibytes * MIB)


def pairs_of(ours, peer=()):
    return Pairs(tuple(map(cost, ours)), tuple(map(cost, peer)))


def row(**facts):
    return Row(
        **{
            "name": "int4",
            "what": "create int4",
            "against": "a peer",
            "ours": ingot_help,
            "peer": bare_python,
            "goal": 0.24,
            "stretch": 0.18,
            **facts,
        }
    )


def test_a_spread_is_the_median_the_least_and_the_most():
    assert Spread.of([5, 1, 100, 2, 3]) == Spread(3, 1, 100)


def test_the_harness_imports_no_numpy():
    # Its memory is part of every peak: with numpy `verify` seemed to take 39 MiB, not 24.
    code = "import sys, tests.benchmarks.run; print('numpy' in sys.modules)"
    asked = [sys.executable, "-c", code]
    answer = subprocess.run(
        asked, capture_output=True, text=True, check=True, cwd=run.REPOSITORY
    )
    assert answer.stdout == "False\n"


def test_a_ratio_is_taken_pair_by_pair():
    # The ratio of the medians would be 2 / 4.
    assert pairs_of([1, 2, 9], [1, 4, 18]).ratio() == Spread(0.5, 0.5, 1)


def test_a_ratio_of_cpu_time_is_taken_pair_by_pair():
    ours = (Cost(9, 1, 0), Cost(9, 2, 0), Cost(9, 9, 0))
    peer = (Cost(1, 1, 0), Cost(1, 4, 0), Cost(1, 18, 0))
    assert Pairs(ours, peer).cpu_ratio() == Spread(0.5, 0.5, 1)


def test_added_time_is_taken_pair_by_pair_in_milliseconds():
    assert pairs_of([1, 3, 6], [0.5, 1, 1]).added() == Spread(2000, 500, 5000)


@pytest.mark.parametrize(
    ("ours", "verdict"), [(0.18, "stretch"), (0.2, "goal"), (0.24, "goal"), (0.25, "missed")]
)
def test_a_verdict_is_the_medians(ours, verdict):
    assert Result(row(), 10, pairs_of([ours], [1])).verdict() == verdict


def test_a_goal_of_memory_grows_by_what_a_tensor_may_take():
    peak = row(measure=Measure.PEAK, goal=64, stretch=None)
    assert peak.bound(tensors=1024) == (64 + 1.5, None)
    assert row().bound(tensors=1024) == (0.24, 0.18)


def test_the_table_has_the_figures_beside_the_goals():
    head, line, left_out = table(
        [
            Result(row(), 10, Pairs((cost(0.5, 150),) * 3, (cost(2, 900),) * 3)),
            Result(row(name="int8"), 10, why_not="`mlx_lm.convert` is not there"),
        ]
    )
    assert head.split()[:2] == ["row", "ours"]
    ours = "int4 create int4 0.500 (0.500) 1.00 150"
    peer = "a peer 2.000 (2.000) 4.00 900"
    assert (
        " ".join(line.split()) == f"{ours} {peer} 0.25 0.250 [0.250, 0.250] 0.240 0.180 missed"
    )
    assert left_out == "int8: not measured: `mlx_lm.convert` is not there"


def test_names_of_rows_are_unique():
    assert len({each.name for each in ROWS}) == len(ROWS)


def test_runs_alternate_in_fresh_directories_that_are_removed(tmp_path):
    seen = []

    def side(name):
        def prepare(fresh):
            assert list(fresh.iterdir()) == []
            seen.append((name, fresh))
            return [sys.executable, "-c", TOUCH, str(fresh / "out")]

        return prepare

    costs = alternate(side("ours"), side("peer"), 2, tmp_path)
    # The first run of each is unmeasured.
    assert [name for name, _ in seen] == ["ours", "peer"] * 3
    assert len({fresh for _, fresh in seen}) == 6
    assert list(tmp_path.iterdir()) == []
    assert (len(costs.ours), len(costs.peer)) == (2, 2)


def test_a_cost_is_the_commands_own(tmp_path):
    # More than this process has, in which the command begins.
    nbytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT + 64 * MIB
    script = f"data = bytes([1]) * {nbytes}"
    (taken,) = alternate(lambda _: [sys.executable, "-c", script], None, 1, tmp_path).ours
    assert nbytes < taken.peak_bytes < nbytes + 64 * MIB
    assert 0 < taken.cpu_seconds < 10
    assert 0 < taken.seconds < 60


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.exit('error: no\\nhint: yes')", "exited 1 and said: error: no"),
        ("raise ValueError('no')", "exited 1 and said: ValueError: no"),
    ],
)
def test_a_failing_command_says_why(tmp_path, script, said):
    with pytest.raises(CommandFailedError, match=said):
        alternate(lambda _: [sys.executable, "-c", script], None, 1, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", ["dense", "tuned", "moe"])
def test_a_checkpoint_has_its_size_and_the_same_bytes_each_time(tmp_path, model):
    plan = checkpoints.MODELS[model](SMALL)
    for name in ("a", "b"):
        checkpoints.write(plan, tmp_path / name)
    weights = sorted((tmp_path / "a").glob("*.safetensors"))
    assert plan.nbytes >= SMALL
    assert len(weights) == checkpoints.SHARDS
    for path in weights:
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize("model", ["pytorch", "gguf", "gguf-f16", "gguf-q8_0"])
def test_other_forms_hold_the_weights_of_the_dense_one(tmp_path, model):
    found = {}
    for name in ("dense", model):
        checkpoints.write(checkpoints.MODELS[name](SMALL), tmp_path / name)
        inventory = read_inventory(tmp_path / name, apart=True)
        found[name] = {one.name: one.shape for one in inventory.tensors}
    assert found[model] == found["dense"]


def test_a_fine_tune_changes_a_tenth_of_the_tensors(tmp_path):
    found = {}
    for name in ("dense", "tuned"):
        checkpoints.write(checkpoints.MODELS[name](SMALL), tmp_path / name)
        found[name] = {
            tensor.name: hashlib.sha256(b"".join(tensor.pieces())).digest()
            for tensor in ollama_writer.tensors(tmp_path / name)
        }
    changed = [name for name in found["dense"] if found["dense"][name] != found["tuned"][name]]
    assert changed == sorted(found["dense"])[2::10]


def test_a_checkpoint_that_is_there_is_used_again_and_a_torn_one_is_not(tmp_path):
    plan = checkpoints.MODELS["small"](4)
    checkpoints.write(plan, tmp_path / "model")
    first = (tmp_path / "model" / "config.json").stat().st_ino
    checkpoints.write(plan, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").stat().st_ino == first
    (tmp_path / "model" / ".complete").unlink()
    (tmp_path / "model" / "config.json").unlink()
    checkpoints.write(plan, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").exists()


@pytest.mark.parametrize("quant_type", [None, *ollama_writer.TYPES])
def test_the_writer_in_ollamas_way_writes_blobs_of_its_tensors(tmp_path, quant_type):
    mlx = pytest.importorskip("mlx.core")
    checkpoints.write(checkpoints.MODELS["small"](4), tmp_path / "source")
    layers = ollama_writer.write(tmp_path / "source", tmp_path / "store", quant_type)
    assert len(layers) == 4
    for layer in layers:
        blob = tmp_path / "store" / "blobs" / layer["digest"].replace(":", "-")
        assert f"sha256:{hashlib.sha256(blob.read_bytes()).hexdigest()}" == layer["digest"]
        assert blob.stat().st_size == layer["size"]
        dtypes = {
            str(array.dtype) for array in mlx.load(str(blob), format="safetensors").values()
        }
        assert ("mlx.core.uint32" in dtypes) == (quant_type is not None)


def test_the_command_measures_and_writes_json(tmp_path, capsys):
    words = ["--only", "plain-writer,help,rss-verify", "--size", "0.002", "--pairs", "1"]
    ingot = ["--command", f"{sys.executable} -m cli", "--peers", str(tmp_path / "none")]
    assert run.main([*words, *ingot, "--directory", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "results.json").read_bytes())
    writer, help_, peak = document["rows"]
    assert "is not there" in writer["not_measured"]
    assert help_["value"]["median"] > 0
    assert peak["runs"]["ours"][0]["peak_bytes"] / MIB == peak["value"]["median"]
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "2000000"}
    assert "plain-writer: not measured" in capsys.readouterr().out


def test_the_command_writes_no_checkpoint_into_the_repository(capsys):
    with pytest.raises(SystemExit):
        run.main(["--directory", str(run.REPOSITORY / "build")])
    assert "is inside the repository" in capsys.readouterr().err
