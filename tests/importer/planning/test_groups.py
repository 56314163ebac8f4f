"""The group of a tensor: its name through the experts of a numbered block, if it joins."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.planning.groups import joins, prefix_of, stacks_of

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
    started = time.perf_counter()
    for _ in range(100):
        prefix_of(f"{name}x")

    # A hostile header holds 90 000 names of this length; 20 us each are 2 s.
    assert (time.perf_counter() - started) / 100 < 200e-6


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
def test_matrices_and_stacks_of_them_join_a_group(name, shape):
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


def test_experts_are_stacked_in_numeric_order():
    members = [f"{E}.{n}.{p}.weight" for n in (10, 1, *range(2, 10), 0, 11) for p in "ba"]

    assert stacks_of(E, members) == {
        f"{E}.{p}.weight": [f"{E}.{n}.{p}.weight" for n in range(12)] for p in "ab"
    }


@pytest.mark.parametrize(
    "members",
    [
        [],
        [f"{E}.gate_up_proj", f"{E}.down_proj_bias"],  # stacked already
        [f"{E}.0"],
        [f"{E}.0."],
        [f"{E}.x.a"],
        [f"{E}.1234567890.a"],
    ],
)
def test_what_is_no_row_of_experts_is_not_stacked(members):
    assert stacks_of(E, members) == {}


@pytest.mark.parametrize("numbers", [(1, 2), (0, 2), ("00",), (0, "01")])
def test_a_row_of_experts_with_missing_numbers_has_no_members(numbers):
    assert stacks_of(E, [f"{E}.{number}.a" for number in numbers]) == {f"{E}.a": []}


def test_a_projection_with_a_gap_does_not_keep_others_from_being_stacked():
    members = [f"{E}.0.a", f"{E}.1.a", f"{E}.0.b", f"{E}.2.b", f"{E}.x"]

    assert stacks_of(E, members) == {f"{E}.a": [f"{E}.0.a", f"{E}.1.a"], f"{E}.b": []}


@given(st.integers(1, 30), st.randoms())
def test_the_order_of_members_does_not_matter(count, random):
    members = [f"{E}.{n}.up\n.{p}" for n in range(count) for p in ("weight", "bias")]
    shuffled = random.sample(members, len(members))

    assert stacks_of(E, shuffled) == stacks_of(E, members)
    assert sum(map(len, stacks_of(E, members).values())) == len(members)
