"""Exports to UQFF beside what mistral.rs writes, and loaded by it."""

from __future__ import annotations

import json

from tests.clients import mistral, models
from tests.importer.exports.exporting import arrays, arrays_in

WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
ROPE = {"rope_theta": 1e4, "rope_scaling": None}
HALF = ROPE | {"partial_rotary_factor": 0.5}
MOE = models.EXPERTS | {"moe_intermediate_size": 256}
DEEPSEEK = models.DEEPSEEK | models.MLA | {"moe_intermediate_size": 256}
GROUPED = {"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}
GREEDY = {"scoring_func": "softmax", "topk_method": "greedy", "moe_layer_freq": 1}
NUMBERS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Where a class has larger ones than the vocabulary, for which mistral.rs looks there."""
CONV = {"layer_types": ["conv", "full_attention"]}

ARCHITECTURES = {
    "llama": ("LlamaConfig", {}, ROPE),
    "llama-tied": ("LlamaConfig", {"tie_word_embeddings": True}, ROPE),
    "mistral": ("MistralConfig", models.HEAD, ROPE),
    "qwen2": ("Qwen2Config", {}, ROPE),
    "qwen3": ("Qwen3Config", models.HEAD, ROPE),
    "gemma": ("GemmaConfig", models.HEAD, ROPE),
    "gemma2": ("Gemma2Config", models.HEAD | {"query_pre_attn_scalar": 64}, ROPE),
    "phi": ("PhiConfig", {}, HALF),
    "phi3": ("Phi3Config", NUMBERS, ROPE),
    "starcoder2": ("Starcoder2Config", NUMBERS, ROPE),
    "smollm3": ("SmolLM3Config", NUMBERS, ROPE),
    "hunyuan_v1_dense": ("HunYuanDenseV1Config", models.HEAD, ROPE),
    "lfm2": ("Lfm2Config", CONV | {"max_position_embeddings": 1024}, ROPE),
    "lfm2_moe": ("Lfm2MoeConfig", MOE | CONV | {"num_dense_layers": 1}, ROPE),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4}, ROPE),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        MOE | models.HEAD,
        ROPE | {"max_window_layers": 2, "num_experts": 4},
    ),
    "deepseek_v2": ("DeepseekV2Config", DEEPSEEK | {"topk_method": "greedy"}, ROPE | GREEDY),
    "deepseek_v3": ("DeepseekV3Config", DEEPSEEK, ROPE | GROUPED),
    "glm4_moe": ("Glm4MoeConfig", models.DEEPSEEK | models.HEAD, HALF),
}
"""Name -> configuration class of transformers, what it gets, and what `config.json` lacks."""
AFQ = ("AFQ2", "AFQ3", "AFQ4", "AFQ6", "AFQ8")
GGML = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2K", "Q3K", "Q4K", "Q5K", "Q6K")
OTHER = ("HQQ4", "HQQ8", "FP8", "F8Q8", "MXFP4")
TYPES = {
    "qwen2": (*AFQ, *GGML, *OTHER),
    "llama": (*AFQ, *GGML, *OTHER),
    "qwen3_moe": ("AFQ4", "Q4_0", "Q5_0", "Q8_0", "Q4K"),
    "mixtral": ("AFQ4", "Q8_0", "Q4K"),
}
"""Name -> types; all others in AFQ4 alone."""
WIDE_ONLY = ("qwen3_moe", "mixtral")
"""Whose experts mistral.rs computes in F32 alone, on a CPU, and in GGML's types alone."""
K = range(10, 15)
"""GGML's numbers of K types: bytes are ggml's, not candle's."""
PHI = "model.final_layernorm."
"""What mistral.rs writes as `model.norm.`, and does not find when it loads."""


def make(name, directory):
    """Write a model with a template for prompts, and keys that mistral.rs asks for."""
    kind, facts, keys = ARCHITECTURES[name]
    models.make(name, directory, table={name: (kind, WIDE | facts)})
    models.set_keys(directory, **keys)
    path = directory / "tokenizer_config.json"
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    document = json.loads(path.read_text()) | {"chat_template": template}
    path.write_text(json.dumps(document))
    return directory


def check(name, place, ingot):
    """Yield for each type: way, arrays, how many differ, the odds' distance, problems."""
    source = make(name, place / "uqff-source")
    for isq in TYPES.get(name, ("AFQ4",)):
        word = isq.lower()
        ours, theirs = place / f"uqff-{word}", place / f"mistral-{word}"
        theirs.mkdir()
        dtype = "F32" if name in WIDE_ONLY else "BF16"
        words = ("--to", "uqff", "-q", word, "--dtype", dtype.lower())
        ingot.run("export", source, ours, *words)
        problem = mistral.quantize(source, theirs / f"{word}.uqff", isq, dtype)
        if problem:
            yield f"uqff {word}", 0, 0, None, [f"mistral.rs itself: {problem}"]
            continue
        found, expected = layers(ours, word), layers(theirs, word)
        names = {one for one in found.keys() | expected.keys() if not is_ours(one, found)}
        different = [one for one in names if found.get(one) != expected.get(one)]
        is_like = not any(_is_k(one, found) for one in found)
        loaded = _loaded(ours, theirs, f"{word}-0.uqff", dtype, is_like=is_like)
        yield f"uqff {word}", len(found), len(different), *loaded
    if name in TYPES:
        yield from check_stored(name, place, ingot, source)


def check_stored(name, place, ingot, source):
    """Into the store as int4, out as AFQ, in and out again: the same codes."""
    ingot.run("create", f"{name}-uqff", source, "-q", "int4")
    first, second = place / "uqff-int4", place / "uqff-int4-again"
    ingot.run("export", f"{name}-uqff", first, "--to", "uqff")
    ingot.run("create", f"{name}-uqff-back", first)
    ingot.run("export", f"{name}-uqff-back", second, "--to", "uqff")
    found, expected = layers(second, "afq4"), layers(first, "afq4")
    names = found.keys() | expected.keys()
    different = [one for one in names if found.get(one) != expected.get(one)]
    plain = place / "uqff-int4-plain"
    ingot.run("export", f"{name}-uqff", plain, "--to", "hf", "--dtype", "f32")
    wide = place / "uqff-int4-f32"
    ingot.run("export", f"{name}-uqff", wide, "--to", "uqff", "--dtype", "f32")
    ours, problem = mistral.odds(wide, "afq4-0.uqff", "F32")
    theirs, other = mistral.odds(plain, "-", "F32")
    distance = mistral.distance(ours, theirs) if ours and theirs else None
    problems = [f"mistral.rs itself: {one}" for one in (problem, other) if one]
    yield "uqff int4, stored", len(found), len(different), distance, problems


def layers(directory, stem):
    """All arrays of the first shard and of the file beside it, but for the version."""
    found = arrays_in(directory / f"{stem}-0.uqff") | arrays(directory)
    return {name: one for name, one in found.items() if not name.startswith("uqff.version.")}


def is_ours(name, found):
    """Whether an array is known to differ: K types, biases, what mistral.rs misnames."""
    is_norm = name.startswith((PHI, "model.norm.")) and f"{PHI}weight" in found
    is_wide = name.endswith(("e_score_correction_bias", "feed_forward.expert_bias"))
    layer = name.removesuffix(".bias")
    return (
        _is_k(name, found)
        or is_norm
        or is_wide
        or (layer != name and f"{layer}.weight.format" in found)
    )


def _is_k(name, found):
    kind = found.get(f"{name}.dtype")
    return kind is not None and int.from_bytes(kind[2], "little") in K


def _loaded(ours, theirs, shard, dtype, *, is_like):
    """How far the odds of both are from each other, and what went wrong.

    Args:
        is_like: whether they have the same weights.
    """
    found, problem = mistral.odds(ours, shard, dtype)
    expected, other = mistral.odds(theirs, shard, dtype)
    if problem:
        whose = "mistral.rs itself: " if other else ""
        return None, [f"{whose}{problem}"]
    if other:
        return None, ["mistral.rs itself does not load its own"]
    distance = mistral.distance(found, expected)
    return distance, ["other odds"] if is_like and found != expected else []
