"""UQFF on the Hub: one set of shards is fetched, and of a dry run their small entries alone."""

from __future__ import annotations

import pytest

from importer.pipeline import plan_import
from importer.request import ImportRequest
from importer.sources.location import HubRepository, parse_source
from store import ModelName
from store.errors import UsageError
from tests.importer.builders import safetensors, write
from tests.importer.sources.schemes import uqff_sources as uqff

ROWS = 4096
LARGE = {
    "q8_0": {"data": ("U8", (ROWS * 68,)), "shape": uqff.u32(ROWS, 64)},
    "afq": {
        "data": ("U32", (ROWS, 8)),
        "scales": ("F16", (ROWS, 1)),
        "biases": ("F16", (ROWS, 1)),
    },
}


def files(family):
    """A model of two shards in one type, and of one in another."""
    layers = [uqff.entries(family, f"model.layers.{n}.up", **LARGE[family]) for n in range(4)]
    return {
        "Q4K-0.uqff": uqff.shard(*layers[:2]),
        "Q4K-1.uqff": safetensors(layers[2] | layers[3]),
        "other-0.uqff": uqff.shard(*layers),
        "residual.safetensors": safetensors(uqff.NORM),
        "config.json": b"{}",
    }


@pytest.mark.parametrize("family", LARGE)
def test_a_dry_run_fetches_no_weights(hub, in_process, family):
    hub.add("org/model", files(family))
    request = ImportRequest(ModelName.parse("model"), parse_source("hf.co/org/model:q4k"))

    plan = plan_import(request, in_process.store, only_headers=True)

    shapes = {tensor.shape for tensor in plan.inventory.tensors}
    assert shapes == {(64,), (ROWS, 64)}
    sent = {path: 0 for path, _, _ in hub.bodies()}
    for path, _, nbytes in hub.bodies():
        sent[path] += nbytes
    # The first request for a file takes 128 KiB.
    assert all(nbytes < 140_000 for path, nbytes in sent.items() if path.endswith(".uqff"))
    assert not any("other" in path for path in sent)


@pytest.mark.parametrize("family", LARGE)
def test_the_model_is_that_of_a_local_clone(hub, in_process, tmp_path, family):
    found = files(family)
    del found["other-0.uqff"]
    hub.add("org/model", found)
    clone = write(tmp_path / "clone", found)

    here, _ = in_process.create(clone)
    there, _ = in_process.create(HubRepository("org/model"))

    assert there == here


def test_several_are_listed_with_their_sizes(hub, in_process):
    hub.add("org/model", files("afq"))
    request = ImportRequest(ModelName.parse("model"), parse_source("hf:org/model"))

    with pytest.raises(UsageError, match=r"2 models: `Q4K` \(\d+ KB\), `other` \(\d+ KB\)"):
        plan_import(request, in_process.store, only_headers=True)
