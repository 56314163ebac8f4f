"""Tiny models with real tokenizers of every kind, as transformers saves them."""

from __future__ import annotations

import json
import random
import zlib

import sentencepiece
import tokenizers
import torch
import transformers
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers

from tests.clients.models import DEEPSEEK, EXPERTS, HEAD, MLA, SMALL

VOCABULARY = 512
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
LONG = [1.0 + number / 16 for number in range(16)]

_WIDE = SMALL | {"vocab_size": VOCABULARY, "hidden_size": 256, "intermediate_size": 512}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

MODELS = {
    # name: class of the configuration, what it is given, tokenizer
    "llama-spm": ("LlamaConfig", {}, "spm"),
    "llama-json": ("LlamaConfig", {"tie_word_embeddings": True}, "spm-json"),
    "llama3": ("LlamaConfig", {"rope_parameters": _LLAMA3_ROPE}, "llama3"),
    "llama-bias": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True}, "llama3"),
    "mistral": ("MistralConfig", HEAD | {"sliding_window": None}, "spm"),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}, "spm"),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}, "qwen2"),
    "qwen2-yarn": ("Qwen2Config", {"rope_parameters": _YARN}, "qwen2"),
    "qwen2moe": ("Qwen2MoeConfig", EXPERTS | {"shared_expert_intermediate_size": 256}, "qwen2"),
    "qwen3": ("Qwen3Config", HEAD, "qwen2"),
    "qwen3moe": ("Qwen3MoeConfig", EXPERTS | HEAD | {"norm_topk_prob": True}, "qwen2"),
    "gemma": ("GemmaConfig", HEAD, "spm"),
    "gemma2": ("Gemma2Config", HEAD | {"query_pre_attn_scalar": 64}, "spm"),
    "gemma3": (
        "Gemma3TextConfig",
        HEAD | {"query_pre_attn_scalar": 64, "num_hidden_layers": 6},
        "spm",
    ),
    "phi3": ("Phi3Config", {"pad_token_id": 0, "num_key_value_heads": 4}, "spm"),
    "phi3-long": (
        "Phi3Config",
        {
            "pad_token_id": 0,
            "original_max_position_embeddings": 64,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 10000.0,
                "long_factor": LONG * 2,
                "short_factor": LONG * 2,
            },
        },
        "spm",
    ),
    "gpt-oss": (
        "GptOssConfig",
        HEAD
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 150000.0,
                "factor": 4.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
            },
        },
        "llama3",
    ),
    "deepseek2": (
        "DeepseekV2Config",
        DEEPSEEK | MLA | {"topk_method": "greedy", "rope_interleave": True},
        "llama3",
    ),
    "deepseek2-lite": (
        "DeepseekV2Config",
        DEEPSEEK | MLA | {"topk_method": "greedy", "q_lora_rank": None},
        "llama3",
    ),
    "smollm3": ("SmolLM3Config", {"pad_token_id": 0}, "llama3"),
    "arcee": ("ArceeConfig", {}, "llama3"),
    "granite": ("GraniteConfig", {"attention_multiplier": 0.2, "logits_scaling": 2.0}, "qwen2"),
    "olmo2": ("Olmo2Config", {}, "qwen2"),
    "seed-oss": ("SeedOssConfig", HEAD, "qwen2"),
    "starcoder2": ("Starcoder2Config", {}, "qwen2"),
    "olmoe": ("OlmoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}, "qwen2"),
    "cohere": ("CohereConfig", {}, "qwen2"),
    "cohere2": ("Cohere2Config", {"rotary_pct": 1.0}, "qwen2"),
    "phi2": ("PhiConfig", {"pad_token_id": 0, "num_key_value_heads": 4}, "llama3"),
    "stablelm": ("StableLmConfig", {"use_qkv_bias": True}, "llama3"),
    "deepseek3": ("DeepseekV3Config", DEEPSEEK | MLA, "llama3"),
}


def save(name, directory, dtype=torch.bfloat16):
    """Write a checkpoint of random weights with a tokenizer, in shards."""
    kind, asked, tokenizer = MODELS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    config = getattr(transformers, kind)(**(_WIDE | asked))
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for one, tensor in model.named_parameters():
            # Norms of ones and biases of zeros would hide what becomes of them.
            if one.endswith(("norm.weight", "bias", "sinks", "layernorm.weight")):
                tensor.add_(torch.randn(tensor.shape) * 0.05)
    model.to(dtype).save_pretrained(directory, max_shard_size="2MB")
    write_tokenizer(tokenizer, directory)


def write_tokenizer(kind, directory):
    """Train a tokenizer on a made-up text, and save it as a model of that kind has it."""
    text = _text()
    if kind.startswith("spm"):
        _write_pieces(kind, directory, text)
        return
    tokenizer = _byte_level(kind, text)
    tokenizer.save(str(directory / "tokenizer.json"))
    told = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": {"content": "<|end_of_text|>", "__type": "AddedToken"},
        "chat_template": TEMPLATE,
    }
    if kind == "qwen2":
        told |= {"bos_token": None, "eos_token": "<|endoftext|>", "add_bos_token": False}
    (directory / "tokenizer_config.json").write_text(json.dumps(told))


def _byte_level(kind, text):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=kind == "llama3"))
    split = LLAMA3_SPLIT if kind == "llama3" else QWEN2_SPLIT
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 16,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>"])
    tokenizer.add_tokens(["<tool_call>", "<|looks|>"])
    if kind == "llama3":
        first = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
        tokenizer.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(
                    single=f"{first[0]} $A",
                    pair=f"{first[0]} $A {first[0]} $B:1",
                    special_tokens=[first],
                ),
            ]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def _write_pieces(kind, directory, text):
    stem = directory / "tokenizer"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_prefix=str(stem),
        model_type="bpe",
        vocab_size=VOCABULARY - 32,
        byte_fallback=True,
        pad_id=-1,
        user_defined_symbols=["<user>"],
        minloglevel=3,
    )
    (directory / "tokenizer.vocab").unlink()
    added = {
        str(VOCABULARY - 32): {"content": "<|assistant|>", "special": True},
        str(VOCABULARY - 31): {"content": "\u2581\u2581", "special": False},
    }
    told = {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": True,
        "add_eos_token": False,
        "chat_template": TEMPLATE,
    }
    if kind == "spm":
        (directory / "tokenizer_config.json").write_text(
            json.dumps(told | {"added_tokens_decoder": added})
        )
        return
    slow = transformers.LlamaTokenizer.from_pretrained(directory)
    slow.save_pretrained(directory)
    (directory / "tokenizer.model").unlink()


def _text():
    """Return lines of made-up words, the same every time."""
    chosen = random.Random(5)
    parts = ["ka", "lo", "mi", "ter", "an", "sho", "é", "ви", "ll", "9", "3", "ing", "re"]
    for _ in range(400):
        words = ("".join(chosen.choices(parts, k=chosen.randint(1, 4))) for _ in range(12))
        yield " ".join(words) + chosen.choice([".", "!", "?", " 'll", "\t-"])
