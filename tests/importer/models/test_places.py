"""What tensors do in a model, by names of families that we did not write the words for."""

from __future__ import annotations

import pytest

from importer.models.places import Role, layer_of, role_of

NAMES = {
    "model.embed_tokens.weight": (Role.EMBEDDING, ""),
    "transformer.wte.weight": (Role.EMBEDDING, ""),
    "token_embd.weight": (Role.EMBEDDING, ""),
    "bert.embeddings.word_embeddings.weight": (Role.EMBEDDING, ""),
    "bert.embeddings.LayerNorm.weight": (Role.NORM, ""),
    "model.layers.0.self_attn.q_proj.weight": (Role.ATTENTION, "model.layers.0"),
    "model.layers.0.self_attn.q_norm.weight": (Role.NORM, "model.layers.0"),
    "model.layers.12.input_layernorm.weight": (Role.NORM, "model.layers.12"),
    "model.layers.3.mlp.gate_proj.weight": (Role.MLP, "model.layers.3"),
    "model.layers.3.mlp.gate.weight": (Role.ROUTER, "model.layers.3"),
    "model.layers.3.mlp.experts.7.up_proj.weight": (Role.EXPERTS, "model.layers.3"),
    "model.layers.3.block_sparse_moe.gate.weight": (Role.ROUTER, "model.layers.3"),
    "model.layers.3.mlp.shared_expert.down_proj.weight": (Role.EXPERTS, "model.layers.3"),
    "transformer.h.11.attn.c_attn.weight": (Role.ATTENTION, "transformer.h.11"),
    "transformer.h.11.ln_1.weight": (Role.NORM, "transformer.h.11"),
    "encoder.layer.2.attention.output.dense.weight": (Role.ATTENTION, "encoder.layer.2"),
    "encoder.layer.2.intermediate.dense.weight": (Role.MLP, "encoder.layer.2"),
    "blk.4.ffn_gate_exps.weight": (Role.EXPERTS, "blk.4"),
    "blk.4.ffn_gate_inp.weight": (Role.ROUTER, "blk.4"),
    "blk.4.ffn_down.weight": (Role.MLP, "blk.4"),
    "blk.4.attn_norm.weight": (Role.NORM, "blk.4"),
    "model.norm.weight": (Role.NORM, ""),
    "lm_head.weight": (Role.OUTPUT, ""),
    "output.weight": (Role.OUTPUT, ""),
    "output_norm.weight": (Role.NORM, ""),
    "transformer/blocks.1.attn.to_q.weight": (Role.ATTENTION, "transformer/blocks.1"),
    "conv1.weight": (Role.OTHER, ""),
    "": (Role.OTHER, ""),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_tells_role_and_layer(name):
    assert (role_of(name), layer_of(name)) == NAMES[name]
