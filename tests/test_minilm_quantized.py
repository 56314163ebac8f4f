"""The real MiniLM in each type: its sentence embeddings, from what our blobs decode to."""

import numpy as np
import pytest
import safetensors.numpy

from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES
from importer.recipes.options import parse_options
from store import MediaType, ModelName, Store
from store.tensorfile import elements
from tests.importer.builders import create, reference_model
from tests.sentence_model import SENTENCES, SentenceModel

MODEL = reference_model()

pytestmark = pytest.mark.skipif(MODEL is None, reason="no MiniLM")

TORCH = [
    [0.0332416, 0.0044060, -0.0062770, 0.0483787],
    [-0.0363090, -0.0356535, -0.0272227, 0.0383199],
    [-0.0144538, 0.0191642, -0.0038836, 0.1011233],
    [0.0139300, 0.0527245, 0.0449426, 0.0139997],
    [0.0069031, -0.0630234, -0.0720440, -0.0324961],
    [-0.0538951, -0.0062829, -0.0588137, 0.0216931],
    [0.1022654, 0.0530508, -0.0010425, -0.0243727],
    [0.0478492, 0.0464537, -0.0042688, 0.0374036],
    [0.0659239, 0.0665938, 0.0125181, 0.0552076],
    [-0.0096762, 0.0797186, 0.0010648, 0.0000553],
]
"""The first numbers of their embeddings, by transformers 5.23 and torch 2.13 in float32."""

LEAST = {
    "int2": 0.4,
    "int3": 0.8,
    "int4": 0.96,
    "int5": 0.98,
    "int6": 0.995,
    "int8": 0.999,
    "nvfp4": 0.95,
    "mxfp4": 0.93,
    "mxfp8": 0.995,
}
"""A little less than what was measured: 0.473, 0.852, 0.971, 0.987, 0.9974, 0.99984, 0.964,
0.949, 0.9974."""
MATRICES = ("dense.weight", "query.weight", "key.weight", "value.weight")
"""Of six layers six each; and the pooler's, which these embeddings do not use."""


@pytest.fixture(scope="module")
def model():
    return SentenceModel(MODEL)


@pytest.fixture(scope="module")
def originals():
    return safetensors.numpy.load_file(MODEL / "model.safetensors")


@pytest.fixture(scope="module")
def embeddings(model, originals):
    return model.embed(originals, SENTENCES)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One store for all types, so that what they keep is written once."""
    with Store(tmp_path_factory.mktemp("minilm") / "store") as store:
        yield store


def decoded(store, spec):
    """Name -> weights, and the names of those that were quantized."""
    weights, quantized = {}, set()
    for layer in store.catalog.get(ModelName.parse("m")).parse().layers:
        if layer.media_type != MediaType.TENSOR:
            continue
        blob = safetensors.numpy.load_file(store.layout.blobs / f"sha256-{layer.digest.hex}")
        weights[layer.name] = blob.pop(layer.name)
        if blob:
            parts = [weights[layer.name], *(blob[key] for key in sorted(blob, reverse=True))]
            arrays = [part.tobytes() for part in parts]
            whole = layer.shape, range(elements(layer.shape))
            values = codec_for(spec, layer.dtype).decode(arrays, *whole, NUMPY)
            weights[layer.name] = np.frombuffer(values, np.float32).reshape(layer.shape)
            quantized.add(layer.name)
    return weights, quantized


def test_the_embeddings_are_those_of_the_libraries(embeddings):
    assert np.abs(embeddings[:, :4] - TORCH).max() < 1e-6


@pytest.mark.parametrize("kind", QUANT_TYPES)
def test_embeddings_stay_as_near_as_the_type_allows(store, model, originals, embeddings, kind):
    create(store, MODEL, recipe=parse_options(kind), threads=2)

    weights, quantized = decoded(store, QUANT_TYPES[kind])
    cosines = (model.embed(weights, SENTENCES) * embeddings).sum(axis=1)

    print(f"{kind}: cosine {cosines.min():.6f} at least, {cosines.mean():.6f} in the mean")
    assert quantized == {name for name in originals if name.endswith(MATRICES)}
    assert len(quantized) == 37
    kept = originals.keys() - quantized
    assert weights.keys() == originals.keys()
    assert all(np.array_equal(weights[name], originals[name]) for name in kept)
    assert cosines.min() > LEAST[kind]
