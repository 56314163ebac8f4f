"""PyTorch's checkpoints on the Hub: a dry run reads their directory and pickle, by ranges."""

from __future__ import annotations

import pytest

from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.location import HubRepository
from store import ModelName
from tests.importer.builders import write
from tests.importer.formats.pytorch.builders import (
    archive,
    entry,
    mapping,
    pickled,
    storage,
    stream,
    tensor,
)

COUNT = 1 << 20
SHAPE = {"shape": (1024, 1024), "strides": (1024, 1)}
DATA = bytes(4 * COUNT)
VALUE = mapping(w=tensor(storage(length=COUNT), **SHAPE))
OLDER = mapping(w=tensor(storage(length=COUNT, more=b"N"), **SHAPE))
FILES = {
    "zip": archive(entry("x/data.pkl", pickled(VALUE)), entry("x/data/0", DATA)),
    "legacy": stream(OLDER, data=DATA, length=COUNT),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_dry_run_fetches_no_weights(hub, in_process, kind):
    hub.add("org/model", {"pytorch_model.bin": FILES[kind], "config.json": b"{}"})
    request = ImportRequest(ModelName.parse("model"), HubRepository("org/model"))

    plan = plan_import(request, in_process.store, only_headers=True)

    assert [(one.name, one.shape) for one in plan.inventory.tensors] == [("w", (1024, 1024))]
    sent = sum(sent for path, _, sent in hub.bodies() if path.endswith(".bin"))
    assert sent < 200_000


@pytest.mark.parametrize("kind", FILES)
def test_the_model_is_that_of_a_local_clone(hub, in_process, tmp_path, kind):
    files = {"pytorch_model.bin": FILES[kind], "config.json": b"{}"}
    hub.add("org/model", files)
    clone = write(tmp_path / "clone", files)

    here, _ = in_process.create(clone)
    there, _ = in_process.create(HubRepository("org/model"))

    assert there == here
