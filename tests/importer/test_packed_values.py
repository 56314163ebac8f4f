"""What becomes of a tensor that the source holds packed, for each thing that can be asked.

The table of docs/formats/prequantized.md, with a toy scheme: bytes times a step for each row.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, parse_target
from importer.models.description import describe
from importer.pipeline import plan_import
from importer.planning.outcome import outcomes_of
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import MediaType, ModelName, Store
from store.errors import UsageError
from tests.importer.builders import create, write
from tests.importer.toys import toy, toys

__all__ = ["toys"]  # a fixture
pytestmark = pytest.mark.usefixtures("toys")
ROWS, COLUMNS = 16, 192
A, EMBEDDING, ODD = "model.layers.0.a.weight", "model.embed_tokens.weight", "b.weight"
TENSORS = {
    "model.layers.0.a.low": ("U8", (COLUMNS, ROWS)),
    "model.layers.0.a.step": ("F32", (ROWS,)),
    "model.embed_tokens.low": ("U8", (COLUMNS, ROWS)),
    "model.embed_tokens.step": ("F32", (ROWS,)),
    "b.low": ("U8", (100, ROWS)),
    "b.step": ("F32", (ROWS,)),
    "norm.weight": ("BF16", (8,)),
}
NAME = ModelName.parse("m")


@pytest.fixture
def source(tmp_path):
    config = {"text_config": {"dtype": "float32"}}
    return write(tmp_path / "source", {"model.toy": toy(TENSORS), "config.json": config})


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def arrays(source):
    """Name -> bytes of every stored array."""
    data, found = (source / "model.toy").read_bytes(), {}
    at = 4
    for name, (dtype, shape) in TENSORS.items():
        nbytes = int(np.prod(shape)) * {"U8": 1, "F32": 4, "BF16": 2}[dtype]
        found[name] = data[at : at + nbytes]
        at += nbytes
    return found


def values(source, stem, columns=COLUMNS):
    """The values of a packed tensor, as the toy's rule says."""
    found = arrays(source)
    low = np.frombuffer(found[f"{stem}.low"], "u1").reshape(columns, ROWS).T
    step = np.frombuffer(found[f"{stem}.step"], "<u4") & 0xFFFF
    return low.astype("<f4") * step.astype("<f4")[:, None]


def parts(store, layer, name=NAME):
    """Key -> dtype and bytes of a layer's blob."""
    layers = store.catalog.get(name).parse().layers
    (found,) = [one for one in layers if one.name == layer]
    data = store.blobs.path(found.digest).read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {
        key: (entry["dtype"], data[start:][slice(*entry["data_offsets"])])
        for key, entry in sorted(header.items(), key=lambda one: one[1]["data_offsets"])
    }


def names(store, name=NAME):
    layers = store.catalog.get(name).parse().layers
    return {layer.name for layer in layers if layer.media_type == MediaType.TENSOR}


def test_nothing_asked_keeps_the_arrays(store, source):
    create(store, source)

    assert names(store) == set(TENSORS)
    for name, content in arrays(source).items():
        assert [data for _, data in parts(store, name).values()] == [content]


def test_repack_keeps_codes_and_values(store, source):
    create(store, source, recipe=parse_options("repack"))

    assert names(store) == {A, EMBEDDING, "b.low", "b.step", "norm.weight"}
    plan = plan_import(ImportRequest(NAME, source, parse_options("repack")), store)
    assert any(
        one.startswith("1 of 4 tensors") and f"`{ODD}` [16, 100]" in one
        for one in plan.warnings
    )
    made = parts(store, A)
    assert [dtype for dtype, _ in made.values()] == ["U32", "F32", "F32"]
    codec = codec_for(QUANT_TYPES["int8"], "F32")
    stored = [data for _, data in made.values()]
    shape = (ROWS, COLUMNS)
    decoded = codec.decode(stored, shape, range(ROWS * COLUMNS), NUMPY)
    assert bytes(decoded) == values(source, "model.layers.0.a").tobytes()
    assert (
        stored[0]
        == np.ascontiguousarray(
            np.frombuffer(arrays(source)["model.layers.0.a.low"], "u1").reshape(COLUMNS, ROWS).T
        ).tobytes()
    )


@pytest.mark.parametrize("asked", ["f32", "bf16"])
def test_a_float_type_decodes_and_rounds_once(store, source, asked):
    create(store, source, recipe=parse_options(asked))

    assert names(store) == {A, EMBEDDING, ODD, "norm.weight"}
    expected = values(source, "b", 100)
    ((dtype, data),) = parts(store, ODD).values()
    assert dtype == asked.upper()
    if asked == "f32":
        assert data == expected.tobytes()
    else:
        bits = expected.view("<u4").astype("u8")
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        assert data == rounded.astype("<u2").tobytes()


def test_a_type_decodes_and_quantizes_and_what_the_preset_keeps_is_decoded(store, source):
    plan = plan_import(ImportRequest(NAME, source, parse_options("int4")), store)
    create(store, source, recipe=parse_options("int4"))

    outcomes = {one.name: one for one in outcomes_of(plan.blobs)}
    assert outcomes[A].type_name == "int4"
    assert outcomes[A].decision.reason.endswith("; was toy8")
    assert outcomes[EMBEDDING].type_name == "F32"  # as config.json says
    assert outcomes[ODD].type_name == "F32"
    assert not outcomes[ODD].decision.fits
    assert any("1 of 4 tensors is quantized a second time" in one for one in plan.warnings)
    codec = codec_for(QUANT_TYPES["int4"], "F32")
    encoded = codec.encode(values(source, "model.layers.0.a").tobytes(), NUMPY)
    assert [data for _, data in parts(store, A).values()] == list(map(bytes, encoded.parts))


def test_the_type_that_it_has_already_keeps_its_codes(store, source):
    plan = plan_import(ImportRequest(NAME, source, parse_options("int8")), store)

    outcome = next(one for one in outcomes_of(plan.blobs) if one.name == A)
    assert outcome.type_name == "int8"
    assert not any("a second time" in warning for warning in plan.warnings)
    repacked = plan_import(ImportRequest(NAME, source, parse_options("repack")), store)
    assert [b.header for b in plan.blobs if b.name == A] == [
        b.header for b in repacked.blobs if b.name == A
    ]


def test_a_rule_of_the_users_keeps_the_arrays(store, source):
    rules = ["*embed*=keep"]
    plan = plan_import(ImportRequest(NAME, source, parse_options("int4", rules=rules)), store)

    outcome = next(one for one in outcomes_of(plan.blobs) if one.name == EMBEDDING)
    assert outcome.type_name == "toy8"
    assert outcome.layers == ("model.embed_tokens.low", "model.embed_tokens.step")


@pytest.mark.parametrize("asked", [None, "repack", "f32", "bf16", "int4", "int8"])
def test_every_way_is_compared_and_imported_from_the_store(store, source, asked):
    options = parse_options(asked)
    create(store, source, recipe=options)

    assert compare(store, NAME, source).findings == ()
    again = plan_import(
        ImportRequest(ModelName.parse("n"), StoredModel(NAME), parse_options("int4")), store
    )
    direct = plan_import(ImportRequest(NAME, source, parse_options("int4")), store)
    if asked in {None, "f32", "repack"}:  # values are the same, so the bits are
        assert {one.name for one in outcomes_of(again.blobs)} == {
            one.name for one in outcomes_of(direct.blobs)
        }


def test_the_plan_speaks_of_logical_tensors(store, source):
    plan = plan_import(ImportRequest(NAME, source), store)

    assert plan.parameters == 2 * ROWS * COLUMNS + ROWS * 100 + 8
    found = {one.name: (one.type_name, one.shape) for one in outcomes_of(plan.blobs)}
    assert found == {
        A: ("toy8", (ROWS, COLUMNS)),
        EMBEDDING: ("toy8", (ROWS, COLUMNS)),
        ODD: ("toy8", (ROWS, 100)),
        "norm.weight": ("BF16", (8,)),
    }


def test_show_speaks_of_logical_tensors(store, source):
    create(store, source)

    model = describe(store, NAME)

    assert model.parameters == 2 * ROWS * COLUMNS + ROWS * 100 + 8
    assert {one.name: (one.type_name, one.shape) for one in model.tensors} == {
        A: ("toy8", (ROWS, COLUMNS)),
        EMBEDDING: ("toy8", (ROWS, COLUMNS)),
        ODD: ("toy8", (ROWS, 100)),
        "norm.weight": ("BF16", (8,)),
    }


def test_decode_is_what_a_rule_may_say_and_nobody_asks():
    with pytest.raises(UsageError, match="f32, bf16 or f16"):
        parse_options("decode")
    assert str(parse_target("decode")) == "decode"
