"""Tiny models of many architectures, as transformers and others save them."""

from __future__ import annotations

import json

import torch
import transformers

SMALL = {
    "vocab_size": 320,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
HEAD = {"head_dim": 64}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
DEEPSEEK = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
MLA = {
    "kv_lora_rank": 64,
    "q_lora_rank": 64,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 32,
    "v_head_dim": 32,
    "num_key_value_heads": 4,
}

ARCHITECTURES = {
    "llama": ("LlamaConfig", {}),
    "llama-tied": ("LlamaConfig", {"tie_word_embeddings": True}),
    "mistral": ("MistralConfig", HEAD),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3Config", HEAD),
    "gemma2": ("Gemma2Config", HEAD | {"query_pre_attn_scalar": 64}),
    "gemma3_text": (
        "Gemma3TextConfig",
        HEAD | {"query_pre_attn_scalar": 64, "num_hidden_layers": 6},
    ),
    "phi3": ("Phi3Config", {"pad_token_id": 0}),
    "olmo2": ("Olmo2Config", {}),
    "granite": ("GraniteConfig", {}),
    "smollm3": ("SmolLM3Config", {"pad_token_id": 0}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}),
    "qwen2_moe": ("Qwen2MoeConfig", EXPERTS | {"shared_expert_intermediate_size": 128}),
    "qwen3_moe": ("Qwen3MoeConfig", EXPERTS | HEAD),
    "olmoe": ("OlmoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}),
    "deepseek_v2": ("DeepseekV2Config", DEEPSEEK | MLA | {"topk_method": "greedy"}),
    "glm4_moe": ("Glm4MoeConfig", DEEPSEEK | HEAD),
    "dots1": ("Dots1Config", DEEPSEEK),
}
"""Name -> configuration class of transformers, and what differs from `SMALL`."""


EARLIER = {
    "qwen3_moe": {"num_experts": 4, "rope_theta": 1e6},
    "deepseek_v2": {
        "rope_theta": 1e4,
        "rope_scaling": {"type": "yarn", "factor": 1.0, "mscale_all_dim": 0},
    },
    "glm4_moe": {"rope_theta": 1e4, "rope_scaling": None, "partial_rotary_factor": 0.5},
    "dots1": {"rope_theta": 1e4},
    "granite": {"rope_theta": 1e4},
}
"""What transformers 4 wrote into `config.json`, and mlx-lm asks for."""


def make(name, directory, dtype="bfloat16", *, table=ARCHITECTURES, **more):
    """Write a model with random weights, and a tokenizer."""
    kind, facts = table[name]
    torch.manual_seed(len(name))
    config = getattr(transformers, kind)(**{**SMALL, **facts, **more})
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    model.to(getattr(torch, dtype)).save_pretrained(directory)
    tokenizer(directory)
    set_keys(directory, **EARLIER.get(name, {}))
    return directory


def tokenizer(directory, **special):
    """Write a tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    vocabulary |= {"<s>": len(letters), "</s>": len(letters) + 1}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", **special
    )
    fast.save_pretrained(directory)


def set_keys(directory, **keys):
    """Change a `config.json`."""
    path = directory / "config.json"
    document = json.loads(path.read_text()) | keys
    path.write_text(json.dumps(document, indent=2))
