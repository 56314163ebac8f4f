"""Two models compared: every kind of difference, and distances that numpy gives, too."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from importer.events import Compared
from importer.models.places import Role
from importer.recipes.options import parse_options
from importer.sources.location import StoredModel
from importer.verification import distance as distance_module
from importer.verification.diff import Kind, diff
from store import ModelName, Store
from store.errors import InputError, NotFoundError
from tests.importer.builders import MODELS, create, model, safetensors, write
from tests.importer.exports.exporting import export

M, N = StoredModel(ModelName.parse("m")), StoredModel(ModelName.parse("n"))
LLAMA = MODELS / "tiny-llama"
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        opened.fs.is_durable = False
        yield opened


def one(tmp_path, side, tensors, **files):
    place = tmp_path / side
    place.mkdir()
    return model(place, tensors, **files)


def compared(store, a, b, threads=1):
    seen: list[Compared] = []
    found = diff(store, a, b, threads=threads, listen=seen.append)
    told = [event for event in seen if isinstance(event, Compared)]
    assert sum(event.nbytes for event in told) == found.nbytes
    assert {event.total for event in told} <= {found.nbytes}
    return found


def kinds(found):
    return {one.name: str(one.kind) for one in found.tensors}


def documents(found):
    return {one.name: one for one in found.documents}


def values(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def stored(array, dtype="F32"):
    if dtype == "BF16":
        bits = array.astype(np.float32).view(np.uint32) >> 16
        return ("BF16", array.shape, bits.astype(np.uint16).tobytes())
    return (dtype, array.shape, array.astype(DTYPES[dtype]).tobytes())


def read(entry):
    dtype, shape, data = entry
    if dtype == "BF16":
        wide = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64).reshape(shape)
    return np.frombuffer(data, DTYPES[dtype]).astype(np.float64).reshape(shape)


def test_a_model_equals_the_source_that_it_was_made_of(store):
    for source in sorted(MODELS.iterdir()):
        create(store, source)

        found = compared(store, M, source)

        assert found.is_empty, found
        assert found.unread == 0
        assert found.nbytes > 0


def test_what_is_the_same_bytes_is_not_read(store):
    create(store, LLAMA)
    create(store, LLAMA, "n")

    found = compared(store, M, N)

    assert found.is_empty
    assert (found.unread, found.nbytes) == (21, 0)
    assert compared(store, LLAMA, LLAMA).nbytes == 0


def test_a_type_that_changed_is_measured_as_the_report_measures_it(store):
    create(store, LLAMA)
    create(store, LLAMA, "n", recipe=parse_options("int4"), report=True)
    from importer.models.quality import read_quality
    from store import MediaType, limits

    manifest = store.catalog.get(N.name).parse()
    (layer,) = (one for one in manifest.layers if one.media_type == MediaType.QUALITY)
    report = {
        one.name: one.deviation
        for one in read_quality(store.blobs.read(layer.ref, limits.CONFIG_BYTES))
    }

    found = compared(store, M, N)

    moved = {one.name: one.deviation for one in found.of(Kind.RETYPED)}
    assert moved.keys() == report.keys()
    for name, deviation in moved.items():
        assert deviation.sqnr == pytest.approx(report[name].sqnr, rel=1e-12), name
        assert deviation.max_err == report[name].max_err
        assert deviation.zeroed == report[name].zeroed
    assert found.unread == len(found.of(Kind.SAME)) == 6


@pytest.mark.parametrize(
    "dtypes", [("BF16", "BF16"), ("F32", "F32"), ("F16", "BF16"), ("F64", "F32")]
)
@pytest.mark.parametrize("shape", [(5,), (64,), (3, 67), (40, 128), (2, 3, 50)])
def test_the_distance_is_what_numpy_gives(store, tmp_path, dtypes, shape):
    first = stored(values(1, *shape).astype(np.float32), dtypes[0])
    second = stored((values(1, *shape) + 0.1 * values(2, *shape)).astype(np.float32), dtypes[1])
    a, b = one(tmp_path, "a", {"w": first}), one(tmp_path, "b", {"w": second})

    (found,) = compared(store, a, b).tensors

    x, y = read(first), read(second)
    assert found.deviation.elements == x.size
    assert found.deviation.sum_err2 == pytest.approx(np.sum((y - x) ** 2), rel=1e-9)
    assert found.deviation.sum_x2 == pytest.approx(np.sum(x * x), rel=1e-9)
    assert found.deviation.max_err == pytest.approx(np.max(np.abs(y - x)), rel=1e-6)
    assert found.deviation.clipped == 0
    rmse = math.sqrt(np.sum((y - x) ** 2) / np.sum(x * x))
    assert found.deviation.rmse == pytest.approx(rmse, rel=1e-9)


def test_tiles_and_threads_do_not_change_a_bit(store, tmp_path, monkeypatch):
    noise = values(3, 100, 96)
    a = one(tmp_path, "a", {f"w{n}": stored(noise * n) for n in range(1, 5)})
    b = one(tmp_path, "b", {f"w{n}": stored(noise * n + n) for n in range(1, 5)})
    whole = compared(store, a, b).tensors

    monkeypatch.setattr(distance_module, "_TILE", 200)
    monkeypatch.setattr(distance_module, "_BYTES", 1000)

    assert compared(store, a, b, threads=3).tensors == whole


def test_every_kind_of_difference_is_told_apart(store, tmp_path):
    w = values(4, 8, 64).astype(np.float32)
    same, moved = stored(w, "BF16"), stored(w * 2, "BF16")
    upcast = stored(read(same), "F32")
    a = {"same": same, "moved": same, "typed": same, "shaped": same, "gone": same}
    b = {"same": same, "moved": moved, "typed": upcast, "new": same}
    b["shaped"] = ("BF16", (64, 8), same[2])

    found = compared(store, one(tmp_path, "a", a), one(tmp_path, "b", b))

    assert kinds(found) == {
        "gone": "removed",
        "moved": "changed",
        "new": "added",
        "same": "same",
        "shaped": "reshaped",
        "typed": "retyped",
    }
    by_name = {one.name: one for one in found.tensors}
    assert by_name["typed"].has_same_values
    assert not by_name["moved"].has_same_values
    assert by_name["moved"].deviation.rmse == 1
    assert by_name["gone"].b is by_name["new"].a is None
    assert not found.is_empty


def test_integers_and_what_is_not_a_number_differ_without_a_measure(store, tmp_path):
    counts = ("I64", (3,), np.array([1, 2, 3]).tobytes())
    others = ("I64", (3,), np.array([1, 2, 4]).tobytes())
    nan = stored(np.array([1.0, np.nan, 2.0]))
    finite = stored(np.array([1.0, 0.0, 2.0]))
    a = one(tmp_path, "a", {"ids": counts, "kept": nan, "w": nan})
    b = one(tmp_path, "b", {"ids": others, "kept": nan, "w": finite})

    found = compared(store, a, b)

    assert kinds(found) == {"ids": "changed", "kept": "same", "w": "changed"}
    assert [one.deviation for one in found.tensors] == [None, None, None]


def test_a_zero_of_another_sign_is_a_change_of_no_length(store, tmp_path):
    a = one(tmp_path, "a", {"w": stored(np.array([1.0, 0.0]))})
    b = one(tmp_path, "b", {"w": stored(np.array([1.0, -0.0]))})

    (found,) = compared(store, a, b).tensors

    assert found.kind is Kind.CHANGED
    assert found.deviation.rmse == 0
    assert found.deviation.sqnr == math.inf


def test_empty_tensors_are_the_same(store, tmp_path):
    a, b = (one(tmp_path, side, {"w": ("F32", (0, 4), b"")}) for side in "ab")

    assert compared(store, a, b).is_empty


def test_how_tensors_are_shared_among_files_does_not_count(store, tmp_path):
    create(store, LLAMA)
    for to, asked in (("hf", {}), ("hf", {"shard_size": 30_000})):
        place = tmp_path / f"{to}{len(asked)}"
        export(store, place, to, **asked)

        found = compared(store, M, place)

        assert {*kinds(found).values()} == {"same"}


def test_an_export_to_mlx_keeps_the_values_of_what_was_quantized(store, tmp_path):
    create(store, LLAMA, recipe=parse_options("int4"))
    export(store, tmp_path / "mlx", "mlx")

    found = compared(store, M, tmp_path / "mlx")

    assert {one.name for one in found.tensors if not one.has_same_values} == set()


def test_a_fine_tune_says_which_layers_moved(store, tmp_path):
    names = [
        f"model.layers.{n}.{part}.weight"
        for n in range(3)
        for part in ("self_attn.q_proj", "mlp.up_proj")
    ]
    base = {name: values(number, 16, 64) for number, name in enumerate(names)}
    tuned = dict(base)
    tuned[names[2]] = base[names[2]] * 1.25
    a = one(tmp_path, "a", {name: stored(array) for name, array in base.items()})
    b = one(tmp_path, "b", {name: stored(array) for name, array in tuned.items()})

    (moved,) = compared(store, a, b).of(Kind.CHANGED)

    assert (moved.layer, moved.role) == ("model.layers.1", Role.ATTENTION)
    assert moved.deviation.rmse == pytest.approx(0.25, rel=1e-6)


def test_what_is_beside_the_weights_is_told_by_its_keys(store, tmp_path):
    config = {"model_type": "llama", "rope": {"theta": 1.0, "kind": "x"}, "gone": [1, 2]}
    other = {"model_type": "llama", "rope": {"theta": 2.0, "kind": "x"}, "new": None}
    w = {"w": stored(values(5, 4, 4))}
    a = one(tmp_path, "a", w, config__json=config, LICENSE="MIT", notes__txt="one")
    b = one(tmp_path, "b", w, config__json=other, notes__txt="two", merges__txt="x")
    (b / "model.safetensors").write_bytes(safetensors(w, {"trained_by": "me"}))

    found = documents(compared(store, a, b))

    assert set(found) == {"LICENSE", "config.json", "merges.txt", "metadata", "notes.txt"}
    assert found["config.json"].entries == (
        ("gone", "[1, 2]", None),
        ("new", None, "null"),
        ("rope.theta", "1.0", "2.0"),
    )
    assert found["LICENSE"][2:4] == (3, None)
    assert found["merges.txt"][2:4] == (None, 1)
    assert found["metadata"].entries == (("trained_by", None, '"me"'),)


def test_documents_that_are_not_json_are_said_to_differ(store, tmp_path):
    w = {"w": stored(values(5, 4, 4))}
    a = one(tmp_path, "a", w, x__json="{", y__json="[1]", z__json="{}")
    b = one(tmp_path, "b", w, x__json="{ ", y__json="[2]", z__json="[]")

    assert {name: one.entries for name, one in documents(compared(store, a, b)).items()} == {
        "x.json": (),
        "y.json": (),
        "z.json": (),
    }


def test_template_and_parameters_count(store, tmp_path):
    from tests.cli.runner import run

    write(tmp_path, {"Modelfile": f"FROM {LLAMA}\nSYSTEM hi\nPARAMETER temperature 0.5\n"})
    run("create", "n", "-f", tmp_path / "Modelfile", store=store.layout.root).succeeded()
    create(store, LLAMA)

    found = documents(compared(store, M, N))

    assert {"params", "system"} <= set(found)
    assert found["params"][2] is None


def test_what_the_name_stood_for_before_is_a_side(store):
    create(store, LLAMA)
    create(store, LLAMA, recipe=parse_options("int8"))
    (former,) = store.history.read(M.name)

    found = compared(store, StoredModel(M.name, former), M)

    assert len(found.of(Kind.RETYPED)) == 15


def test_a_side_that_is_not_there_is_an_error(store, tmp_path):
    create(store, LLAMA)
    with pytest.raises(NotFoundError):
        diff(store, M, N)
    with pytest.raises(NotFoundError):
        diff(store, M, tmp_path / "nothing")


def test_a_damaged_side_is_an_error(store, tmp_path):
    place = one(tmp_path, "a", {"w": stored(values(5, 4, 4))})
    (place / "model.safetensors").write_bytes(b"short")

    with pytest.raises(InputError):
        diff(store, place, LLAMA)


def test_the_config_of_a_side_need_not_be_json(store, tmp_path):
    place = one(tmp_path, "a", {"w": stored(values(5, 4, 4))})
    (place / "extra.json").write_text(json.dumps({"a": 1e999}), encoding="utf-8")

    assert "extra.json" in documents(
        compared(store, place, one(tmp_path, "b", {"w": stored(values(5, 4, 4))}))
    )
