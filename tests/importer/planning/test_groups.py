"""The group of a tensor: its name through the experts of a numbered block, if it joins."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.planning.groups import Stack, joins, prefix_of, stack_of

REAL = [
    # Mixtral, PhiMoE
    ("model.layers.0.block_sparse_moe.experts.0.w1.weight",
     "model.layers.0.block_sparse_moe.experts"),
    # Qwen3-MoE, OLMoE, GLM-4.5
    ("model.layers.11.mlp.experts.127.down_proj.weight", "model.layers.11.mlp.experts"),
    # DeepSeek
    ("model.layers.3.mlp.shared_experts.gate_proj.weight",
     "model.layers.3.mlp.shared_experts"),
    ("model.layers.3.mlp.experts.0.up_proj.weight_scale_inv", "model.layers.3.mlp.experts"),
    # GPT-OSS: stacked
    ("model.layers.0.mlp.experts.gate_up_proj", "model.layers.0.mlp.experts"),
    ("model.layers.0.mlp.experts.gate_up_proj_blocks", "model.layers.0.mlp.experts"),
    # Qwen2-MoE
    ("model.layers.0.mlp.shared_expert.up_proj.weight", "model.layers.0.mlp.shared_expert"),
    # MLX conversions
    ("model.layers.0.mlp.switch_mlp.up_proj.scales", "model.layers.0.mlp.switch_mlp"),
    # Granite
    ("model.layers.0.shared_mlp.input_linear.weight", "model.layers.0.shared_mlp"),
    # Llama 4, Qwen3-VL, GLM-4.5V: a language model inside
    ("language_model.model.layers.1.feed_forward.experts.gate_up_proj",
     "language_model.model.layers.1.feed_forward.experts"),
    ("model.language_model.layers.0.mlp.experts.0.up_proj.weight",
     "model.language_model.layers.0.mlp.experts"),
    # Jamba, Nemotron-H
    ("model.layers.1.feed_forward.experts.0.up_proj.weight",
     "model.layers.1.feed_forward.experts"),
    ("backbone.layers.1.mixer.experts.0.up_proj.weight", "backbone.layers.1.mixer.experts"),
    # DBRX, GPT-2-like
    ("transformer.blocks.0.ffn.experts.mlp.w1", "transformer.blocks.0.ffn.experts"),
    ("transformer.h.0.mlp.experts.3.fc.weight", "transformer.h.0.mlp.experts"),
    ("blocks.7.moe.experts.0.weight", "blocks.7.moe.experts"),
    ("layers.0.experts.0.w", "layers.0.experts"),
    ("mtp.layers.0.mlp.experts.0.up_proj.weight", "mtp.layers.0.mlp.experts"),
]  # fmt: skip
SINGLE = [
    "model.layers.0.mlp.up_proj.weight",
    "model.layers.0.mlp.gate.weight",
    "model.layers.0.mlp.shared_expert_gate.weight",
    "model.layers.0.block_sparse_moe.gate.weight",
    "model.layers.0.mlp.router.weight",
    "model.layers.0.mlp.experts",
    "model.layers.0.mlp.experts_bias",
    "model.layers.0.mlp.my_experts.0.weight",
    "model.experts.0.weight",
    "experts.0.weight",
    "model.layers.x.mlp.experts.0.weight",
    "model.layers.mlp.experts.0.weight",
    "model.players.0.mlp.experts.0.weight",
    "model.experts.layers.0.weight",
    "model.layers.0experts.0.weight",
    "h.0",
    "",
]


@pytest.mark.parametrize(("name", "group"), REAL)
def test_experts_of_a_block_share_a_group(name, group):
    assert prefix_of(name) == group


@pytest.mark.parametrize("name", SINGLE)
def test_a_tensor_beside_the_experts_is_single(name):
    assert prefix_of(name) is None


def test_experts_of_a_component_share_a_group():
    assert prefix_of("text_encoder/layers.0.experts.1.w") == "text_encoder/layers.0.experts"


def test_experts_within_experts_are_one_group():
    name = "model.layers.0.experts.0.shared_experts.1.layers.2.experts.3.w"

    assert prefix_of(name) == "model.layers.0.experts"


_words = st.sampled_from(
    ["layers", "blocks", "h", "0", "12", "experts", "shared_expert", "mlp", "weight", "x.", "/"]
)
_names = st.lists(_words, max_size=12).map(".".join)


@given(_names)
def test_a_group_is_a_prefix_that_ends_with_its_component(name):
    group = prefix_of(name)

    if group is not None:
        assert name.startswith(f"{group}.")
        assert group.rpartition(".")[2] in {"experts", "shared_expert"}
        assert prefix_of(f"{group}.anything") == group


@given(_names)
def test_all_members_of_a_group_agree(name):
    group = prefix_of(name)

    if group is not None:
        assert {prefix_of(f"{group}.{rest}") for rest in ("0.w", "1.experts.x", "gate")} == {
            group
        }


@pytest.mark.parametrize(
    "name", ["layers.0." * 113, "h.1." * 255, "a." * 511, "layers.0" * 127]
)
def test_no_name_takes_long(name):
    started = time.process_time()
    for _ in range(100):
        prefix_of(f"{name}x")

    # A hostile header holds 90 000 names of this length; 20 us each are 2 s.
    assert (time.process_time() - started) / 100 < 200e-6


# Which of the tensors below experts share their blob.

JOINING = [
    ("0.up_proj.weight", (4, 8)),
    ("0.up_proj.weight", (0, 8)),
    ("up_proj.weight", (3, 4, 8)),
    ("gate_up_proj", (3, 4, 8)),
    ("gate_up_proj_scales", (3, 4, 8)),
]
ALONE = [
    ("e_score_correction_bias", (16,)),
    ("e_score_correction_bias", (1, 16)),
    ("0.up_proj.bias", (4,)),
    ("gate_up_proj_bias", (3, 8)),
    ("0.norm.weight", (8,)),
    ("0.scale.weight", ()),
    ("0.w1", (4, 8)),
    ("0.conv.weight", (2, 3, 4, 8)),
    ("weights", (4, 8)),
]


@pytest.mark.parametrize(("name", "shape"), JOINING)
def test_matrices_and_stack_of_them_join_a_group(name, shape):
    assert joins(f"model.layers.0.mlp.experts.{name}", shape, prequantized=False)


@pytest.mark.parametrize(("name", "shape"), ALONE)
def test_what_is_not_a_matrix_of_weights_joins_no_group(name, shape):
    assert not joins(f"model.layers.0.mlp.experts.{name}", shape, prequantized=False)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("0.up_proj.qweight", (4, 8)),
        ("0.up_proj.g_idx", (8,)),
        ("0.up_proj.weight_scale_2", ()),
        ("gate_up_proj_blocks", (2, 3, 4, 16)),
    ],
)
def test_what_is_stored_of_quantized_weights_stays_together(name, shape):
    assert joins(f"model.layers.0.mlp.experts.{name}", shape, prequantized=True)


@pytest.mark.parametrize("name", ["e_score_correction_bias", "gate_up_proj_bias", "0.up.bias"])
def test_a_bias_is_alone_beside_quantized_weights_too(name):
    assert not joins(f"model.layers.0.mlp.experts.{name}", (16,), prequantized=True)


# Stacks.

E = "model.layers.0.mlp.experts"


@pytest.mark.parametrize(
    ("key", "group"),
    [
        (f"{E}.3.up_proj.weight", E),
        ("layers.0.mlp.experts.3.up_proj.weight", "layers.0.mlp.experts"),
        ("mtp.layers.0.moe.experts.3.up_proj.weight", "mtp.layers.0.moe.experts"),
        (
            "language_model.model.layers.12.mixer.shared_experts.3.up_proj.weight",
            "language_model.model.layers.12.mixer.shared_experts",
        ),
        (
            "model.language_model.backbone.layers.1.mixer.experts.3.up_proj.weight",
            "model.language_model.backbone.layers.1.mixer.experts",
        ),
        (
            "model.language_model.layers.1.mlp.switch_mlp.3.up_proj.weight",
            "model.language_model.layers.1.mlp.switch_mlp",
        ),
        (
            "language_model.backbone.layers.1.mlp.shared_experts.3.up_proj.weight",
            "language_model.backbone.layers.1.mlp.shared_experts",
        ),
    ],
)
def test_the_weights_of_numbered_experts_are_stacked_where_ollama_does(key, group):
    stack = stack_of(key)

    assert stack == Stack(group, "up_proj", 3)
    assert stack.key == f"{group}.up_proj.weight"


@pytest.mark.parametrize(
    "key",
    [
        f"{E}.gate_up_proj",  # stacked already
        f"{E}.down_proj.weight",
        f"{E}.0",
        f"{E}.0.weight",
        f"{E}.x.a.weight",
        f"{E}.0.a.bias",
        f"{E}.1234567890.a.weight",
        "model.layers.0.block_sparse_moe.experts.0.w1.weight",
        "model.layers.0.mlp.shared_expert.0.up.weight",
        "model.layers.0.feed_forward.experts.0.up.weight",
        "transformer.layers.0.mlp.experts.0.up.weight",
        "vision.model.layers.0.mlp.experts.0.up.weight",
        "model.layers.x.mlp.experts.0.up.weight",
        "model.layers.0.mlp.experts.layers.0.mlp.experts.0",
    ],
)
def test_what_ollama_does_not_stack_is_not_stacked(key):
    assert stack_of(key) is None


def test_a_projection_may_have_several_parts():
    assert stack_of(f"{E}.7.block.up.weight") == Stack(E, "block.up", 7)
