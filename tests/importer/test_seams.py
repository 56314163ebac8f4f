"""A new container, scheme and type, each a file and a line, through the whole pipeline.

The toys are in `tests/importer/toys.py`: a container with its header at the end, a scheme whose
codes are packed along columns, so that spans are strided, and a type of 16 bits.
"""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from importer.engine.make import MakeJob, make_blob
from importer.models.quality import read_quality
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.location import StoredModel
from importer.verification.compare import compare
from store import CommitOutcome, MediaType, ModelName, Store
from store.verify import verify
from tests.importer.builders import blobs, create, write
from tests.importer.toys import toy, toys

__all__ = ["toys"]  # a fixture
pytestmark = pytest.mark.usefixtures("toys")
ROWS, COLUMNS = 96, 16000  # 1.5 MB: two chunks
TENSORS = {
    "model.layers.0.a.low": ("U8", (COLUMNS, ROWS)),
    "model.layers.0.a.step": ("F32", (ROWS,)),
    "model.layers.0.norm.weight": ("U8", (8,)),
}
WEIGHT = "model.layers.0.a.weight"


@pytest.fixture
def source(tmp_path):
    return write(
        tmp_path / "source", {"model.toy": toy(TENSORS), "config.json": {"dtype": "float32"}}
    )


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as opened:
        yield opened


def expected(source):
    """The values of the joined tensor, read without anything of ours but the decoder's rule."""
    data = (source / "model.toy").read_bytes()
    low = np.frombuffer(data, "u1", ROWS * COLUMNS, 4).reshape(COLUMNS, ROWS).T
    step = np.frombuffer(data, "<u4", ROWS, 4 + ROWS * COLUMNS) & 0xFFFF
    return low.astype("<f4") * step.astype("<f4")[:, None]


def blob_of(store, layer, model="m"):
    """The header and data of a layer's blob."""
    manifest = store.catalog.get(ModelName.parse(model)).parse()
    (found,) = [one for one in manifest.layers if one.name == layer]
    data = store.blobs.path(found.digest).read_bytes()
    length = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:length]), data[length:], found


def test_nothing_asked_keeps_the_arrays_of_a_scheme(source, store):
    create(store, source)

    names = [layer.name for layer in store.catalog.get(ModelName.parse("m")).parse().layers]
    assert names[:3] == sorted(TENSORS)
    data = (source / "model.toy").read_bytes()
    assert blob_of(store, "model.layers.0.a.low")[1] == data[4 : 4 + ROWS * COLUMNS]
    assert verify(store).findings == ()
    assert compare(store, ModelName.parse("m"), source).findings == ()


@pytest.mark.parametrize("threads", [1, 3])
def test_strided_spans_are_decoded_and_become_another_type(source, store, threads):
    create(store, source, recipe=parse_options("toy16"), threads=threads)

    header, data, layer = blob_of(store, WEIGHT)
    assert header["__metadata__"] == {"group_size": "16", "quant_type": "toy16"}
    assert (layer.dtype, layer.shape) == ("F32", (ROWS, COLUMNS))
    words, values = ROWS * COLUMNS * 2, expected(source)
    groups = values.reshape(-1, 16)
    scales = np.abs(groups).max(axis=1) / np.float32(32767) + np.float32(1e-20)
    assert data[words:] == scales.astype("<f4").tobytes()
    assert data[:words] == np.rint(groups / scales[:, None]).astype("<i2").tobytes()
    assert verify(store).findings == ()
    assert compare(store, ModelName.parse("m"), source).findings == ()


def test_any_number_of_threads_makes_the_same_bytes(source, tmp_path):
    made = []
    for threads in (1, 2, 5):
        with Store(tmp_path / f"{threads}") as store:
            create(store, source, recipe=parse_options("toy16"), threads=threads)
            made.append(blobs(store))

    assert made[0] == made[1] == made[2]


def test_a_difference_behind_a_scheme_is_found(source, store):
    create(store, source, recipe=parse_options("toy16"))
    path = source / "model.toy"
    data = bytearray(path.read_bytes())
    data[4 + 5] ^= 0x40
    path.write_bytes(data)

    found = compare(store, ModelName.parse("m"), source).findings

    assert [finding.subject for finding in found] == [WEIGHT]


def test_the_store_decodes_the_type_again(source, store):
    create(store, source, "big", recipe=parse_options("toy16"))
    create(store, StoredModel(ModelName.parse("big")), "same")
    create(store, StoredModel(ModelName.parse("big")), "f", recipe=parse_options("bf16"))

    assert blob_of(store, WEIGHT, "same")[2].digest == blob_of(store, WEIGHT, "big")[2].digest
    _, data, layer = blob_of(store, WEIGHT, "f")
    decoded = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    assert layer.dtype == "BF16"
    assert np.allclose(decoded, expected(source).ravel(), rtol=2**-7, atol=1e-2)


def test_a_report_measures_the_type(source, store):
    create(store, source, recipe=parse_options("toy16"), report=True)

    manifest = store.catalog.get(ModelName.parse("m")).parse()
    (layer,) = [one for one in manifest.layers if one.media_type == MediaType.QUALITY]
    (row,) = read_quality(store.blobs.read(layer.ref, 1 << 20))
    assert (row.name, row.type) == (WEIGHT, "toy16")
    assert row.deviation.sqnr > 60


def test_a_blob_is_made_again_unread_and_again_read(source, store):
    create(store, source, recipe=parse_options("toy16"))
    before = blobs(store)
    result = create(store, source, "again", recipe=parse_options("toy16"))

    assert result.tally(CommitOutcome.NEW) == (0, 0)
    assert blobs(store) == before


def test_a_job_can_be_pickled_and_made_elsewhere(source, store, tmp_path):
    plan = plan_import(
        ImportRequest(ModelName.parse("m"), source, parse_options("toy16")), store
    )
    made = []
    for number, job in enumerate(plan.jobs):
        path = tmp_path / f"{number}"
        path.touch()
        copy = pickle.loads(pickle.dumps(MakeJob(number, job, path, 7)))
        made.append(make_blob(copy))

    create(store, source, recipe=parse_options("toy16"))
    layers = store.catalog.get(ModelName.parse("m")).parse().layers
    assert [one.ref.digest for one in made] == [layer.digest for layer in layers]
