"""The report of quality: the same bytes however it is made; a hostile one is refused."""

from __future__ import annotations

import json

import pytest

from importer.codecs import measure as codec_measure
from importer.codecs import runtime
from importer.codecs.metrics import Deviation
from importer.codecs.registry import codec_for
from importer.codecs.spec import QUANT_TYPES
from importer.engine import measure as engine_measure
from importer.models.description import describe
from importer.models.quality import Quality, quality_bytes, read_quality
from importer.recipes.options import parse_options
from store import MediaType, ModelName, Store
from store.errors import IntegrityError
from store.tensorfile import elements
from store.verify import verify
from tests.check_store import check_store
from tests.cli.runner import run
from tests.importer.builders import MODELS, create, manifest_bytes

MOE = MODELS / "tiny-moe"
NAME = ModelName.parse("m")
GOOD = Quality("a", "int4", (2, 32), Deviation(64, 4.0, 3.9, 3.95, 0.01, 0.1, 1, 2))


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as store:
        yield store


def layer_of(store, name=NAME):
    layers = store.catalog.get(name).parse().layers
    (layer,) = [layer for layer in layers if layer.media_type == MediaType.QUALITY]
    assert layers[-1] is layer
    return layer


def report_of(store, name=NAME):
    return store.blobs.path(layer_of(store, name).digest).read_bytes()


@pytest.mark.parametrize("how", [{"quantize": "int4"}, {"quantize": "nvfp4", "stacked": True}])
def test_the_report_is_the_same_for_any_number_of_threads(tmp_path, how):
    made = set()
    for threads in (1, 2, 5):
        with Store(tmp_path / str(threads)) as store:
            create(store, MOE, recipe=parse_options(**how), report=True, threads=threads)
            made.add((report_of(store), manifest_bytes(store)))

    assert len(made) == 1


def test_the_report_is_the_same_without_kernels(tmp_path, monkeypatch):
    # As large sources do, use kernels: the fixture alone would be too small for them.
    for threshold in ("runtime._WORTH_LOADING", "kernels._WORTH_COMPILING"):
        monkeypatch.setattr(f"importer.codecs.{threshold}", 0)
    reports, used = [], []

    def prepare(work, announce):
        used.append(runtime.prepare(work, announce))
        assert used[-1].problem is None
        assert used[-1].ready.keys() == work.keys()
        return used[-1]

    for name, way in (("kernels", prepare), ("numpy", lambda *_: runtime.NUMPY)):
        monkeypatch.setattr(engine_measure, "prepare", way)
        with Store(tmp_path / name) as store:
            create(store, MOE, recipe=parse_options("int4"), report=True)
            reports.append(report_of(store))

    assert reports[0] == reports[1]
    (found,) = used
    for kernel in codec_measure.kernels(codec_for(QUANT_TYPES["int4"], "F16")):
        assert found.kernel(kernel) is not None


def test_the_report_of_blobs_that_were_there_is_the_same(store):
    create(store, MOE, recipe=parse_options("int4"))
    plain = manifest_bytes(store)
    create(store, MOE, recipe=parse_options("int4"), report=True)
    reused = manifest_bytes(store)
    create(store, MOE, recipe=parse_options("int4"), report=True)

    assert reused == manifest_bytes(store) != plain
    again = Store(store.layout.root.with_name("fresh"))
    create(again, MOE, recipe=parse_options("int4"), report=True)
    assert manifest_bytes(again) == reused


def test_the_report_has_every_quantized_tensor(store):
    create(store, MOE, recipe=parse_options("int4"), report=True)

    found = read_quality(report_of(store))

    quantized = {one.name for one in describe(store, NAME).tensors if one.quant is not None}
    assert {one.name for one in found} == quantized
    assert {one.type for one in found} == {"int4"}
    assert all(15 < one.deviation.sqnr < 40 for one in found)
    assert all(one.deviation.elements == elements(one.shape) for one in found)


def test_a_model_that_is_not_quantized_has_no_report(store):
    create(store, MOE, report=True)

    media_types = {layer.media_type for layer in store.catalog.get(NAME).parse().layers}
    assert MediaType.QUALITY not in media_types


def test_the_report_survives_cp_and_gc(store):
    create(store, MOE, recipe=parse_options("int4"), report=True)
    report = report_of(store)
    other = ModelName.parse("copy")

    for words in (("cp", "m", "copy"), ("rm", "m"), ("gc", "--yes")):
        run(*words, store=store.layout.root).succeeded()

    assert report_of(store, other) == report
    assert verify(store).findings == ()
    assert check_store(store.layout.root) == []


def test_a_report_is_read_as_it_was_written():
    nothing = Quality("b", "nvfp4", (0, 16), None)

    assert read_quality(quality_bytes([GOOD, nothing])) == [GOOD, nothing]


def hostile(**changes):
    row = json.loads(quality_bytes([GOOD]))["tensors"][0] | changes
    kept = {key: value for key, value in row.items() if value is not ...}
    return json.dumps({"schema": "ingot.quality/1", "tensors": [kept]}).encode()


HOSTILE = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"tensors":["\xff"]}',
    "a list": b"[]",
    "another schema": b'{"schema":"ingot.quality/2","tensors":[]}',
    "no schema": b'{"tensors":[]}',
    "no tensors": b'{"schema":"ingot.quality/1"}',
    "tensors of another kind": b'{"schema":"ingot.quality/1","tensors":{}}',
    "a row of another kind": b'{"schema":"ingot.quality/1","tensors":[3]}',
    "deep": b'{"schema":"ingot.quality/1","tensors":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "NaN": hostile(error=float("nan")),
    "Infinity": hostile(source=float("inf")),
    "1e999": hostile().replace(b"4.0", b"1e999"),
    "huge integer": hostile(elements=10**400),
    "longer than Python reads": hostile().replace(b"64", b"9" * 5000),
    "huge sum": hostile(source=10**300),
    "huge float": hostile(source=1e300),
    "negative sum": hostile(error=-1.0),
    "negative source": hostile(source=-4.0),
    "negative count": hostile(clipped=-1),
    "a count with a fraction": hostile(elements=64.5),
    "more clipped than there are": hostile(clipped=65),
    "more zeroed than there are": hostile(zeroed=65),
    "a boolean": hostile(source=True),
    "a boolean count": hostile(elements=True),
    "a string": hostile(product="1"),
    "no error": hostile(error=...),
    "null": hostile(largest=None),
    "no name": hostile(name=...),
    "a number for a name": hostile(name=7),
    "no type": hostile(type=...),
    "a shape of another kind": hostile(shape=64),
    "a negative shape": hostile(shape=[-1, 32]),
    "a shape of strings": hostile(shape=["2"]),
    "a huge shape": hostile(shape=[1 << 63]),
    "too many dimensions": hostile(shape=[1] * 17),
    "a surrogate": hostile(name="\ud800"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_report_is_refused(case):
    with pytest.raises(IntegrityError, match="the blob is not a report of quality"):
        read_quality(HOSTILE[case])


@pytest.mark.parametrize(
    "sums",
    [
        {"source": 5e-324, "error": 1e200},
        {"source": 1e200, "error": 5e-324},
        {"source": 0.0, "error": 1.0},
        {"source": 0, "decoded": 0, "product": -1e200, "error": 0},
        {"source": 5e-324, "decoded": 5e-324, "product": 1e200},
    ],
)
def test_any_sums_have_measures(sums):
    (found,) = read_quality(hostile(**sums))
    total = Deviation.total([found.deviation] * 3)

    for deviation in (found.deviation, total):
        assert all(
            type(measure) is float
            for measure in (deviation.sqnr, deviation.rmse, deviation.cosine)
        )
