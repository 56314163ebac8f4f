"""Architectures whose tensors take another form: what llama.cpp's converter writes."""

from __future__ import annotations

import pytest

from store.errors import InputError
from tests.importer.exports.exporting import planned
from tests.importer.exports.gguf_fused import checkpoint
from tests.importer.exports.test_gguf import changed

LIES = [
    ("falcon-groups", {"num_kv_heads": 3}),
    ("falcon-groups", {"num_kv_heads": 0}),
    ("falcon", {"num_attention_heads": 3}),
    ("bloom", {"n_head": 5}),
    ("gptneox", {"num_attention_heads": 7}),
    ("gptneox", {"rotary_pct": "half"}),
    ("lfm2", {"layer_types": "conv"}),
    ("lfm2", {"block_multiple_of": 0}),
    ("lfm2", {"block_ffn_dim_multiplier": "twice"}),
    ("exaone4", {"layer_types": None, "sliding_window_pattern": 0}),
    ("exaone4", {"layer_types": None, "sliding_window_pattern": [1]}),
    ("nemotron", {"partial_rotary_factor": []}),
    ("llama4", {"interleave_moe_layer_step": "x"}),
]


@pytest.mark.parametrize(("name", "lie"), LIES)
def test_a_configuration_that_lies_is_an_error(tmp_path, name, lie):
    source = changed(checkpoint(tmp_path / "in", name), **lie)

    with pytest.raises(InputError):
        planned(None, tmp_path / "out.gguf", "gguf", source=source)
