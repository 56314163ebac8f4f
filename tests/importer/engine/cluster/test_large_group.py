"""A group of experts is one job however large, and its worker needs no more memory for it."""

from __future__ import annotations

import os

import pytest

from importer.events import Distributed
from importer.recipes.options import parse_options
from store import Store
from tests.importer.builders import create, framed, manifest_bytes, write
from tests.soak.machines import Machines

SHAPE, NBYTES = [2048, 2048], 2 * 2048 * 2048
EXPERTS = 128
MEBIBYTES = 220


@pytest.mark.slow
def test_a_group_of_a_gigabyte_is_one_job_in_bounded_memory(tmp_path):
    """Sparse, so that it costs no disk; a worker is a process with an address of its own."""
    names = (f"model.layers.0.mlp.experts.{n}.up_proj.weight" for n in range(EXPERTS))
    header = framed(
        {
            name: {
                "dtype": "BF16",
                "shape": SHAPE,
                "data_offsets": [n * NBYTES, (n + 1) * NBYTES],
            }
            for n, name in enumerate(names)
        }
    )
    source = write(tmp_path / "in", {"model.safetensors": header, "config.json": {}})
    os.truncate(source / "model.safetensors", len(header) + EXPERTS * NBYTES)
    heard, manifests = [], []

    with Machines(tmp_path, 2) as machines:
        for scheduler in (None, machines.address):
            with Store(tmp_path / str(scheduler is None)) as store:
                store.fs.is_durable = False
                asked = parse_options("int4")
                create(store, source, recipe=asked, scheduler=scheduler, listen=heard.append)
                manifests.append(manifest_bytes(store))
        peaks = [machines.peak_memory()[index] >> 10 for index in (1, 2)]

    assert manifests[0] == manifests[1]
    assert any(isinstance(event, Distributed) for event in heard)
    assert max(peaks) < MEBIBYTES
    assert min(peaks) < max(peaks) - 20, "one had nothing to do"
