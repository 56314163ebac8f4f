"""`create --report` and `show --quality`: what quantizing cost, the worst first."""

from __future__ import annotations

import json
import shutil

import pytest

from importer.codecs.metrics import Deviation
from importer.models.quality import Quality, quality_bytes
from store import MediaType, Store
from tests.cli.runner import CONTROL, run, spawn
from tests.importer.builders import MODELS, handmade, safetensors, tensor_layer


@pytest.fixture(scope="module")
def measured_store(tmp_path_factory):
    """A store with a model that has a report, and one that has none; nobody changes it."""
    store = tmp_path_factory.mktemp("measured") / "store"
    moe = MODELS / "tiny-moe"
    run("create", "m", moe, "-q", "int4", "--report", store=store).succeeded()
    run("create", "none", moe, "-q", "int4", store=store).succeeded()
    return store


def rows(*words, store):
    shown = run("show", *words, store=store).succeeded().stdout
    return [line.split() for line in shown.splitlines()]


def document(*words, store):
    shown = run("show", *words, "--json", store=store)
    assert (shown.code, CONTROL.search(shown.stdout)) == (0, None), shown.stderr
    return json.loads(shown.stdout, parse_constant=pytest.fail)


def table(*words, store):
    """The table alone, without what is said after it."""
    found = rows(*words, store=store)
    return found[: found.index([])]


def numbers(row):
    return [float(cell) for cell in row if cell.replace(".", "", 1).isdigit()]


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize(("order", "column"), [("sqnr", "SQNR dB"), ("zeroed", "MAX ZEROED")])
def test_a_narrow_terminal_keeps_what_the_rows_are_ordered_by(
    measured_store, monkeypatch, columns, order, column
):
    monkeypatch.setenv("COLUMNS", columns)
    words = ("show", "m", "--quality", "--sort", order)

    head, *_ = run(*words, store=measured_store).succeeded().stdout.splitlines()

    assert column in head
    assert "MIN dB" in head


def test_the_worst_is_first_and_all_are_last(measured_store):
    head, *body, last = table("m", "--quality", store=measured_store)

    assert head[:6] == ["TENSORS", "TYPE", "SQNR", "dB", "MIN", "dB"]
    assert last[0] == "all"
    found = [numbers(row)[1] for row in body]
    assert found == sorted(found)
    assert numbers(last)[1] == found[0]
    experts = next(row for row in body if "experts.{0-10}.up_proj" in row[0])
    assert experts[1:3] == ["x11", "int4"]
    assert all("█" in "".join(row) for row in body)


def test_json_has_every_tensor_with_the_sums_behind_it(measured_store):
    found = document("m", "--quality", store=measured_store)

    assert (found["schema"], found["name"]) == ("ingot.show/1", "m:latest")
    quality = found["quality"]
    assert [one["sqnr_db"] for one in quality] == sorted(one["sqnr_db"] for one in quality)
    for one in quality:
        sums = one["sums"]
        assert one["relative_rmse"] == (sums["error"] / sums["source"]) ** 0.5
        assert one["clipped_share"] == sums["clipped"] / sums["elements"]


def test_a_glob_and_an_order_choose(measured_store):
    words = ("m", "--quality", "*experts*", "--sort")

    by_name = document(*words, "name", store=measured_store)["quality"]
    by_size = document(*words, "size", store=measured_store)["quality"]
    names = [one["name"] for one in by_name]

    assert names == sorted(names, key=str.encode)
    assert all("experts" in name for name in names)
    sizes = [one["shape"][0] * one["shape"][1] for one in by_size]
    assert sizes == sorted(sizes, reverse=True)
    assert sorted(one["name"] for one in by_size) == names
    body = table(*words, "name", store=measured_store)[1:-1]
    assert [row[0] for row in body] == sorted(row[0] for row in body)
    sized = rows("m", "--quality", "--sort", "size", store=measured_store)[1:]
    assert "x11" in sized[0]


def test_a_glob_that_finds_nothing_is_not_found(measured_store):
    message = run("show", "m", "--quality", "no*", store=measured_store).failed(9)
    near = run("show", "m", "--quality", "experts.0", store=measured_store).failed(9)

    assert "no tensor in the report of m:latest matches `no*`" in message
    assert "`--quality '*experts.0*'` finds" in near


def test_without_a_report_it_is_not_found_with_a_hint(measured_store):
    told = run("show", "none", "--quality", store=measured_store).failed(9)

    assert "has no report of its quality" in told
    assert "--report" in told
    error = run("show", "none", "--quality", "--json", store=measured_store)
    assert (error.code, error.error["code"]) == (9, "E_NO_REPORT")


@pytest.mark.parametrize(
    "words",
    [
        ("m", "--quality", "--recipe"),
        ("m", "--quality", "--config"),
        ("m", "--sort", "error"),
        ("m", "--tensors", "--sort", "error"),
        ("m", "--quality", "--sort", "worst"),
        ("m", "*experts*"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(measured_store, words):
    run("show", *words, store=measured_store).failed(2)


def test_off_a_terminal_there_are_no_control_codes(measured_store):
    shown = spawn("show", "m", "--quality", store=measured_store, env={"TERM": "xterm"})

    assert shown.succeeded().stdout == (
        run("show", "m", "--quality", store=measured_store).stdout
    )


def test_a_terminal_without_blocks_gets_escapes(measured_store):
    env = {"PYTHONIOENCODING": "ascii"}
    shown = spawn("show", "m", "--quality", store=measured_store, env=env).succeeded()

    assert shown.stdout.isascii()


def test_the_other_views_know_nothing_of_a_report(measured_store):
    run("show", "m", store=measured_store).succeeded()
    run("verify", store=measured_store).succeeded()
    run("list", store=measured_store).succeeded()


def test_a_report_that_rotted_is_healed(measured_store, tmp_path):
    store = shutil.copytree(measured_store, tmp_path / "copy")
    with Store(store) as opened:
        (entry,) = [e for e in opened.catalog.entries() if str(e.name) == "m:latest"]
        (layer,) = [
            layer
            for layer in opened.catalog.get(entry.name).parse().layers
            if layer.media_type == MediaType.QUALITY
        ]
        path = opened.blobs.path(layer.digest)
    path.chmod(0o600)
    path.write_bytes(b"x" * layer.size)

    told = run("show", "m", "--quality", store=store).failed(5)
    assert "--report" in told
    healed = run("verify", "--repair", store=store)

    assert (healed.code, "repaired: " in healed.stdout) == (0, True)
    run("show", "m", "--quality", store=store).succeeded()


def put(store, report):
    """A model of others with a report."""
    with Store(store) as opened:
        layers = [
            tensor_layer(safetensors({"w": ("F32", (2,))}), "w", dtype="F32", shape=(2,)),
            (MediaType.QUALITY, report, {}),
        ]
        handmade(opened, layers)


@pytest.mark.parametrize(
    "report",
    [
        b"\x1b[2J",
        b"[]",
        b'{"schema":"ingot.quality/1","tensors":[{}]}',
        b'{"schema":"ingot.quality/1","tensors":[{"name":"\\u001b[2J","type":7}]}',
        b" " * ((64 << 20) + 1),
    ],
    ids=["no JSON", "a list", "no fields", "a wrong type", "too large"],
)
@pytest.mark.parametrize("json_too", [(), ("--json",)])
def test_a_hostile_report_is_one_clean_error(store, report, json_too):
    put(store, report)

    shown = run("show", "m", "--quality", *json_too, store=store).clean()

    assert shown.code in {3, 5}
    assert shown.stdout == ""
    run("show", "m", store=store).succeeded()


def test_names_in_a_report_cannot_drive_a_terminal(store):
    sums = Deviation(64, 4.0, 3.9, 3.95, 0.01, 0.1, 1, 2)
    evil = Quality("\x1b[2J\u202e[red]\n", "in\x1bt4", (2, 32), sums)
    put(store, quality_bytes([evil, Quality("b", "int4", (1 << 62, 1 << 62), None)]))

    shown = run("show", "m", "--quality", store=store).succeeded().stdout

    assert "\\x1b[2J" in shown
    assert "not finite" in shown
    quality = document("m", "--quality", store=store)["quality"]
    assert quality[0] == {
        "name": "b",
        "type": "int4",
        "shape": [1 << 62, 1 << 62],
        "finite": False,
        "suspicious": ["it has values that are not finite"],
        "rule": "b=keep",
    }


def test_an_error_of_nothing_is_no_number_in_json(store):
    put(store, quality_bytes([Quality("a", "int4", (1,), Deviation(1, 1, 1, 1, 0, 0, 0, 0))]))

    assert "inf" in run("show", "m", "--quality", store=store).succeeded().stdout
    assert document("m", "--quality", store=store)["quality"][0]["sqnr_db"] is None


def test_a_report_of_very_many_tensors_is_shown(store):
    sums = Deviation(64, 4.0, 3.9, 3.95, 0.01, 0.1, 1, 2)
    names = (f"layers.{n}.{n % 7}.{n * 7 % 11}.weight" for n in range(100_000))
    put(store, quality_bytes([Quality(name, "int4", (2, 32), sums) for name in names]))

    shown = run("show", "m", "--quality", store=store).succeeded()

    assert any(line.startswith("all") for line in shown.stdout.splitlines()[-20:])


@pytest.mark.parametrize("how", [[], ["-q", "bf16"], ["--dry-run"]])
def test_a_report_of_nothing_is_not_made_and_that_is_told(tmp_path, how):
    words = ["create", "m", MODELS / "tiny-llama", "--report", *how]
    outcome = run(*words, store=tmp_path / "text").succeeded()
    document = run(*words, "--json", store=tmp_path / "json").succeeded().document

    warning = "there is nothing to report: no tensor is quantized or rounded"
    assert warning in outcome.stdout + outcome.stderr
    assert warning in document["warnings"]


def test_a_report_that_is_made_needs_no_warning(tmp_path):
    words = ["create", "m", MODELS / "tiny-llama", "--report", "-q", "int4"]

    assert "--report" not in run(*words, store=tmp_path / "store").succeeded().stderr
