"""Which of several models of Hugging Face's a GGUF architecture is, by what its file holds."""

from __future__ import annotations

from collections.abc import Mapping

from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.spelling import LAYER, Key


def variant_of(facts: Facts, tensors: Mapping[str, object]) -> str:
    """Return the name of the table in architectures.toml.

    Example:
        >>> variant_of(facts, {"blk.0.ffn_gate_exps.weight": …})
        'llama+mixtral'
    """
    stems = {Key.parse(name).stem.removeprefix(LAYER) for name in tensors}
    architecture = facts.architecture
    variants = {
        "llama": ("mixtral", "ffn_gate_inp" in stems),
        "falcon": ("two norms", "attn_norm_2" in stems),
        "bert": ("distilbert", "token_types" not in stems and not _is_roberta(facts)),
        "t5": ("ungated", "enc.blk.N.ffn_gate" not in stems),
        "t5encoder": ("ungated", "enc.blk.N.ffn_gate" not in stems),
        "chatglm": ("glm", "attn_q" in stems),
        # Bamba's feed-forward is a Llama's; Granite's multiplies what it embeds.
        "granitehybrid": ("bamba", facts.own("embedding_scale") is None),
    }
    variant, is_so = variants.get(architecture, ("", False))
    return f"{architecture}+{variant}" if is_so else architecture


def _is_roberta(facts: Facts) -> bool:
    return facts.values.get("tokenizer.ggml.model") not in {"bert", None}
