"""ONNX files on the Hub: a dry run reads their graphs, by ranges, and no data."""

from __future__ import annotations

import pytest

from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.location import HubRepository
from store import ModelName
from tests.importer.builders import write
from tests.importer.formats.onnx.builders import external, field, model, tensor

NBYTES = 4 << 20
DIMS = (1024, 1024)
INSIDE = model(*(tensor(name, dims=DIMS, data=field(9, bytes(NBYTES))) for name in "abc"))
OUTSIDE = model(
    *(
        tensor(name, dims=DIMS, data=external(location=place, offset=str(offset)))
        for name, place, offset in (
            ("a", "model.onnx_data", 0),
            ("b", "model.onnx_data", NBYTES),
            ("c", "any.weights", 0),
        )
    )
)
FILES = {
    "inside": {"onnx/model.onnx": INSIDE, "onnx/model_q4.onnx": b"not read"},
    "outside": {
        "model.onnx": OUTSIDE,
        "model.onnx_data": bytes(2 * NBYTES),
        "any.weights": bytes(NBYTES),
        "model_q4.onnx": b"not read",
        "model_q4.onnx_data": b"not read",
    },
}


@pytest.mark.parametrize("kind", FILES)
def test_a_dry_run_fetches_no_weights(hub, in_process, kind):
    hub.add("org/model", {**FILES[kind], "config.json": b"{}"})
    request = ImportRequest(ModelName.parse("model"), HubRepository("org/model"))

    plan = plan_import(request, in_process.store, only_headers=True)

    found = [(one.name, one.shape, one.nbytes) for one in plan.inventory.tensors]
    assert found == [(name, DIMS, NBYTES) for name in "abc"]
    # What is not named as data is a file that is kept, and fetched if it is small.
    sent = sum(sent for path, _, sent in hub.bodies() if ".onnx" in path)
    assert sent < 300_000


@pytest.mark.parametrize("kind", FILES)
def test_the_model_is_that_of_a_local_clone(hub, in_process, tmp_path, kind):
    files = {**FILES[kind], "config.json": b"{}"}
    hub.add("org/model", files)
    clone = write(tmp_path / "clone", files)

    here, _ = in_process.create(clone)
    there, _ = in_process.create(HubRepository("org/model"))

    assert there == here
    fetched = {path.rpartition("/")[2] for path, _, sent in hub.bodies() if sent}
    assert not any("q4" in name for name in fetched)
