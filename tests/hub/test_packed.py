"""Packed weights on the Hub: a dry run reads the small arrays that say what others are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from importer.sources.location import HubRepository
from store import ModelName
from tests.importer.builders import safetensors

ROWS, COLUMNS, GROUPS = 1024, 4096, 32
ORDER = np.random.default_rng(3).permutation(np.arange(COLUMNS) // 128).astype("<i4")
STATE = {
    "quant_type": "nf4",
    "blocksize": 64,
    "dtype": "float16",
    "shape": [ROWS, COLUMNS],
}
TEXT = json.dumps(STATE).encode()
PACKED = {
    "gptq int4/128 act-order": {
        "a.qweight": ("I32", (COLUMNS // 8, ROWS)),
        "a.qzeros": ("I32", (GROUPS, ROWS // 8)),
        "a.scales": ("F16", (GROUPS, ROWS)),
        "a.g_idx": ("I32", (COLUMNS,), ORDER.tobytes()),
    },
    "nf4/64": {
        "a.weight": ("U8", (ROWS * COLUMNS // 2, 1)),
        "a.weight.absmax": ("F32", (ROWS * COLUMNS // 64,)),
        "a.weight.quant_map": ("F32", (16,)),
        "a.weight.quant_state.bitsandbytes__nf4": ("U8", (len(TEXT),), TEXT),
    },
    "bnb int8": {
        "a.weight": ("I8", (ROWS, COLUMNS)),
        "a.SCB": ("F32", (ROWS,)),
        "a.weight_format": ("U8", (), b"\0"),
    },
}
CONFIG = {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}


@pytest.mark.parametrize("kind", PACKED)
def test_a_dry_run_knows_the_type_and_fetches_no_weights(hub, in_process, kind):
    config = CONFIG if kind.startswith("gptq") else {}
    files = {
        "model.safetensors": safetensors(PACKED[kind]),
        "config.json": json.dumps(config).encode(),
    }
    hub.add("org/model", files)
    request = ImportRequest(
        ModelName.parse("model"), HubRepository("org/model"), parse_options("f32")
    )

    plan = plan_import(request, in_process.store, only_headers=True)

    found = [(one.name, one.stored_as, one.shape) for one in plan.inventory.tensors]
    assert found == [("a.weight", kind, (ROWS, COLUMNS))]
    sent = sum(sent for path, _, sent in hub.bodies() if path.endswith(".safetensors"))
    assert sent < 200_000
