"""What config.json says of models whose blocks are not all alike."""

from __future__ import annotations

import math

import pytest

from importer.formats.gguf_names.config import config_of
from importer.formats.gguf_names.facts import Facts


def written(architecture, facts, tensors, variant=""):
    """Give config.json of a file with these facts of its own and tensors' shapes."""
    values = {f"{architecture}.{key}": value for key, value in facts.items()}
    known = Facts("`a.gguf`", {"general.architecture": architecture, **values})
    made = config_of(known, variant or architecture, tensors, {})
    assert made is not None
    return made


MAMBA = {
    "block_count": 4,
    "embedding_length": 32,
    "attention.head_count": 4,
    "attention.head_count_kv": [0, 2, 0, 2],
    "ssm.inner_size": 64,
    "ssm.time_step_rank": 8,
}
ATTENTION = {"blk.1.attn_q.weight": (32, 32), "blk.3.attn_q.weight": (32, 32)}


def test_blocks_of_granite_attend_or_are_mamba():
    facts = {**MAMBA, "rope.scaling.finetuned": False, "embedding_scale": 12.0}
    found = written("granitehybrid", facts, ATTENTION).document
    assert found["layer_types"] == ["mamba", "attention", "mamba", "attention"]
    assert (found["num_key_value_heads"], found["num_local_experts"]) == (2, 0)
    assert (found["mamba_d_head"], found["mamba_expand"]) == (8, 2)
    assert found["position_embedding_type"] == "nope"


def test_bamba_counts_the_blocks_that_attend():
    found = written("granitehybrid", MAMBA, ATTENTION, "granitehybrid+bamba").document
    assert found["attn_layer_indices"] == [1, 3]
    assert found["partial_rotary_factor"] == 1.0
    assert "layer_types" not in found


def test_jamba_has_periods():
    tensors = {**ATTENTION, "blk.1.ffn_gate_inp.weight": (4, 32)}
    found = written("jamba", MAMBA, tensors).document
    assert (found["attn_layer_offset"], found["attn_layer_period"]) == (1, 2)
    assert (found["expert_layer_offset"], found["expert_layer_period"]) == (1, 4)


def test_nemotron_has_a_letter_for_each_block():
    tensors = {
        "blk.0.ssm_in.weight": (100, 32),
        "blk.1.attn_q.weight": (32, 32),
        "blk.2.ffn_gate_inp.weight": (4, 32),
        "blk.3.ffn_up.weight": (48, 32),
    }
    found = written("nemotron_h_moe", MAMBA, tensors).document
    assert found["hybrid_override_pattern"] == "M*E-"
    assert (found["intermediate_size"], found["mamba_head_dim"]) == (48, 8)


@pytest.mark.parametrize("norm", [False, True])
def test_falcon_h1_says_whether_there_is_a_norm(norm):
    tensors = {"blk.0.ssm_norm.weight": (64,)} if norm else {}
    found = written("falcon-h1", MAMBA, tensors).document
    assert (found["mamba_rms_norm"], found["mamba_d_ssm"]) == (norm, 64)


def test_gemma_3n_has_facts_of_each_block():
    facts = {
        "attention.sliding_window_pattern": [True, False],
        "activation_sparsity_scale": [1.6448534727096558, -math.inf],
        "feed_forward_length": [48, 96],
    }
    tensors = {"per_layer_token_embd.weight": (256, 16), "blk.0.laurel_l.weight": (4, 32)}
    found = written("gemma3n", facts, tensors).document
    assert found["layer_types"] == ["sliding_attention", "full_attention"]
    assert found["activation_sparsity_pattern"] == [0.95, 0.0]
    assert found["intermediate_size"] == [48, 96]
    assert (found["vocab_size_per_layer_input"], found["laurel_rank"]) == (256, 4)


def test_the_language_model_of_one_that_sees_is_said_to_be_alone():
    made = written("qwen3vl", {"block_count": 2, "rope.dimension_sections": [1, 1, 2, 0]}, {})
    assert made.document["model_type"] == "qwen3"
    assert made.notes == (
        "config.json describes the language model of Qwen3-VL alone, as qwen3",
    )


def test_a_bias_is_found_in_whatever_block_has_it():
    found = written("jamba", MAMBA, {"blk.2.ssm_conv1d.bias": (64,)}).document
    assert (found["mamba_conv_bias"], found["mamba_proj_bias"]) == (True, False)


HEADS = {"block_count": 2, "embedding_length": 32, "attention.head_count": 4}
NESTED = {
    "feed_forward_length": 128,
    "attention.clamp_kqv": 8.0,
    "attention.max_alibi_bias": 8.0,
    "attention.head_count_kv": 2,
    "attention.key_length": 12,
    "rope.dimension_count": 4,
    "rope.freq_base": 500000.0,
    "expert_count": 4,
    "expert_used_count": 2,
}


def test_dbrx_has_tables_in_its_table():
    found = written("dbrx", HEADS | NESTED, {}).document
    assert found["attn_config"] == {"kv_n_heads": 2, "rope_theta": 500000, "clip_qkv": 8}
    assert found["ffn_config"] == {
        "hidden_size": 32,
        "ffn_hidden_size": 128,
        "moe_num_experts": 4,
        "moe_top_k": 2,
    }


@pytest.mark.parametrize("bias", [0.0, 8.0])
def test_mpt_says_whether_positions_are_biases(bias):
    facts = HEADS | NESTED | {"attention.max_alibi_bias": bias}
    found = written("mpt", facts, {"blk.0.attn_qkv.bias": (96,)}).document
    expected = {"alibi": True, "alibi_bias_max": 8} if bias else {"alibi": False}
    assert found["attn_config"] == {**expected, "clip_qkv": 8}
    assert (found["expansion_ratio"], found["no_bias"]) == (4, False)


def test_minicpm3_has_values_as_wide_as_their_matrix_tells():
    found = written("minicpm3", HEADS | NESTED, {"blk.0.attn_kv_b.weight": (72, 16)}).document
    assert (found["qk_nope_head_dim"], found["v_head_dim"]) == (8, 10)
    assert (found["q_lora_rank"], found["scale_depth"]) == (None, 1.4)


SHAPED = ["granitehybrid", "jamba", "nemotron_h", "gemma3n", "dbrx", "mpt", "minicpm3"]


@pytest.mark.parametrize("architecture", SHAPED)
@pytest.mark.parametrize("odd", [0, -1, "many", 1 << 62, math.nan, [], ["a", None], True])
def test_odd_facts_are_not_errors(architecture, odd):
    keys = [*MAMBA, *NESTED, "attention.sliding_window_pattern", "activation_sparsity_scale"]
    tensors = {**ATTENTION, "blk.0.attn_kv_b.weight": (72, 16)}
    written(architecture, dict.fromkeys(keys, odd), tensors)


def test_blocks_that_predict_further_tokens_are_not_among_the_layers():
    facts = {
        "block_count": 3,
        "nextn_predict_layers": 1,
        "attention.head_count_kv": [2, 4, 4],
        "attention.sliding_window": 128,
        "attention.sliding_window_pattern": [0, 1, 1],
    }
    tensors = {"blk.1.ffn_gate_inp.weight": (4, 32), "blk.2.ffn_gate_inp.weight": (4, 32)}
    found = written("mimo2", facts, tensors).document

    assert found["num_hidden_layers"] == 2
    assert found["layer_types"] == ["full_attention", "sliding_attention"]
    assert found["mlp_layer_types"] == ["dense", "sparse"]
    assert (found["num_key_value_heads"], found["sliding_window_size"]) == (2, 128)


def test_gemma_4_has_heads_of_two_kinds():
    facts = {
        "block_count": 2,
        "attention.head_count_kv": [8, 2],
        "attention.sliding_window_pattern": [True, False],
        "attention.key_length": 512,
        "attention.key_length_swa": 256,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
    }
    tensors = {f"blk.{n}.attn_k.weight": (64, 32) for n in (0, 1)}
    tensors["blk.0.attn_v.weight"] = (64, 32)
    found = written("gemma4", facts, tensors).document

    assert (found["head_dim"], found["global_head_dim"]) == (256, 512)
    assert (found["num_key_value_heads"], found["num_global_key_value_heads"]) == (8, 2)
    assert found["attention_k_eq_v"]
    assert not found["enable_moe_block"]
    assert found["hidden_size_per_layer_input"] == 0
    assert found["rope_parameters"]["sliding_attention"] == {
        "rope_type": "default",
        "rope_theta": 10000,
    }
    assert "rope_theta" not in found
