"""A dry run over the Hub reads the header of a new container, and nothing else of it."""

from __future__ import annotations

import pytest

from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.location import HubRepository
from store import ModelName
from tests.importer.builders import write
from tests.importer.toys import toy, toys

__all__ = ["toys"]  # a fixture
TENSORS = {"a.weight": ("F32", (512, 1024)), "norm.weight": ("F32", (1024,))}


@pytest.mark.usefixtures("toys")
def test_a_dry_run_fetches_ranges_at_any_offset(hub, in_process):
    content = toy(TENSORS)
    hub.add("org/toy", {"model.toy": content, "config.json": b"{}"})
    request = ImportRequest(ModelName.parse("model"), HubRepository("org/toy"))

    plan = plan_import(request, in_process.store, only_headers=True)

    assert [tensor.name for tensor in plan.inventory.tensors] == list(TENSORS)
    footer = int(content[-8:])
    ends = [len(content) - footer - 8, len(content) - 8, len(content)]
    assert [(wanted, sent) for path, wanted, sent in hub.bodies() if "model.toy" in path] == [
        (f"bytes={ends[1]}-{ends[2] - 1}", 8),
        (f"bytes={ends[0]}-{ends[1] - 1}", footer),
    ]


@pytest.mark.usefixtures("toys")
def test_the_model_is_that_of_a_local_clone(hub, in_process, tmp_path):
    files = {"model.toy": toy(TENSORS), "config.json": b"{}"}
    hub.add("org/toy", files)
    clone = write(tmp_path / "clone", files)

    here, _ = in_process.create(clone)
    there, _ = in_process.create(HubRepository("org/toy"))

    assert there == here
