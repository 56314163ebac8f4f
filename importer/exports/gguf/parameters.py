"""The keys of an architecture: what llama.cpp's converter writes of a configuration.

Sources: `set_gguf_parameters` in llama.cpp's conversion/*.py: `TextModel`'s for what all have,
and that of each class, which architectures.toml tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from importer.exports.gguf.computed import BLOCKS, COMPUTED
from importer.exports.gguf.hparams import Hparams, is_number
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import Values
from store.json import Json

Metadata = dict[str, Value | Values]
"""In the order of the file; a key that is written again keeps its place."""

COMMON: Final = "*"
"""In the list of a class: what all classes have."""
_FLOATS: Final = frozenset(
    {
        "attention.layer_norm_rms_epsilon",
        "attention.layer_norm_epsilon",
        "attention.clamp_kqv",
        "attention.max_alibi_bias",
        "attention.scale",
        "attention.temperature_scale",
        "rope.freq_base",
        "rope.freq_base_swa",
        "rope.scaling.factor",
        "rope.scaling.attn_factor",
        "rope.scaling.yarn_log_multiplier",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "expert_weights_scale",
        "logit_scale",
        "residual_scale",
        "embedding_scale",
    }
)
_BOOLS: Final = frozenset(
    {
        *("attention.causal", "expert_weights_norm", "use_parallel_residual"),
        "tokenizer.ggml.add_bos_token",
    }
)
_STRINGS: Final = frozenset({"rope.scaling.type", "tensor_data_layout", "hidden_activation"})
_PATTERN: Final = "attention.sliding_window_pattern"
_WORDS: Final = {"false": False, "true": True}
_GATES: Final = {"softmax": 1, "sigmoid": 2, "sqrtsoftplus": 4}

_COMMON: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("block_count", BLOCKS),
    (
        "context_length",
        (
            *("max_position_embeddings", "n_ctx", "n_positions", "max_length"),
            *("max_sequence_length", "model_max_length"),
        ),
    ),
    ("embedding_length", ("hidden_size", "n_embd", "dim")),
    (
        "feed_forward_length",
        (
            *("prefix_dense_intermediate_size", "dense_intermediate_size"),
            *("intermediate_size", "n_inner", "hidden_dim"),
        ),
    ),
    ("attention.head_count", ("num_attention_heads", "n_head", "n_heads")),
    ("attention.head_count_kv", ("num_key_value_heads", "n_kv_heads")),
)
_AFTER_ROPE: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("attention.layer_norm_rms_epsilon", ("rms_norm_eps", "norm_eps")),
    (
        "attention.layer_norm_epsilon",
        ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"),
    ),
    ("expert_count", ("num_local_experts", "num_experts", "n_routed_experts")),
    ("expert_used_count", ("num_experts_per_tok", "num_experts_per_token", "top_k_experts")),
    ("expert_group_count", ("n_group",)),
    ("expert_group_used_count", ("topk_group",)),
)
_SCORING: Final = (
    *("score_function", "scoring_func", "score_func", "moe_router_activation"),
    *("moe_router_activation_func", "expert_selection_fn"),
)


class Parameters:
    """Collects keys of one model."""

    def __init__(self, architecture: str, hparams: Hparams, file_type: int) -> None:
        """Begin without keys.

        Args:
            architecture: GGUF's name of it.
            hparams: the configuration.
            file_type: number of the type that most tensors have.
        """
        self._metadata: Metadata = {}
        self._architecture = architecture
        self._hparams = hparams
        self._file_type = file_type

    def made(self, lines: Sequence[str]) -> Metadata:
        """Return what the lines of a class say, as architectures.toml describes them.

        Raises:
            InputError: the configuration lacks something, or has a value of another kind.
        """
        for line in lines:
            if line == COMMON:
                self._add_common()
                continue
            key, _, told = line.partition(": ")
            if told == "@file_type":
                self._add_file_type()
                continue
            source = told.removesuffix("?")
            found = self._source(source)
            if found is None and told.endswith("?"):
                continue
            self._put(key, found, source)
        return self._metadata

    def _source(self, source: str) -> Json:
        if source.startswith("="):
            text = source[1:]
            if text in _WORDS:
                return _WORDS[text]
            if text.isalpha():
                return text
            return float(text) if "." in text else int(text)
        if source.startswith("@"):
            return COMPUTED[source[1:]](self._hparams)
        return self._hparams.find(*source.split("|"))

    def _put(self, key: str, found: Json, source: str) -> None:
        name = source.split("|", maxsplit=1)[0]
        hparams = self._hparams
        if key in _FLOATS:
            if not is_number(found):
                hparams.bad(name, found, "a number of 32 bits")
            self._set(key, Value("f32", float(found)))
        elif key in _BOOLS:
            if not isinstance(found, bool):
                hparams.bad(name, found, "true or false")
            self._set(key, Value("bool", found))
        elif key in _STRINGS:
            self._set(key, Value("string", str(found)))
        elif key == _PATTERN and isinstance(found, list):
            self._set(key, Values("bool", [one is True for one in found]))
        elif isinstance(found, list):
            self._set(
                key, Values("i32", [_small(hparams, name, one, _SIGNED) for one in found])
            )
        else:
            self._set(key, Value("u32", _small(hparams, name, found)))

    def _set(self, key: str, value: Value | Values) -> None:
        is_whole = key.startswith("tokenizer.")
        self._metadata[key if is_whole else f"{self._architecture}.{key}"] = value

    def _add_file_type(self) -> None:
        self._metadata["general.file_type"] = Value("u32", self._file_type)

    def _add_common(self) -> None:
        hparams = self._hparams
        for key, names in _COMMON:
            found = hparams.find(*names)
            if found is not None:
                self._put(key, found, names[0])
        if hparams.values.get("is_causal") is False:
            self._put("attention.causal", found=False, source="is_causal")
        self._add_rope()
        for key, names in _AFTER_ROPE:
            found = hparams.find(*names)
            if found is not None:
                self._put(key, found, names[0])
        scoring = hparams.find(*_SCORING)
        if scoring is not None:
            if not isinstance(scoring, str) or scoring not in _GATES:
                hparams.bad("scoring_func", scoring, " or ".join(_GATES))
            self._put("expert_gating_func", _GATES[scoring], "scoring_func")
        if (head_dim := hparams.values.get("head_dim")) is not None:
            self._put("attention.key_length", head_dim, "head_dim")
            self._put("attention.value_length", head_dim, "head_dim")
        self._add_file_type()

    def _add_rope(self) -> None:
        hparams = self._hparams
        rope = hparams.flat_rope
        kind, factor = rope.get("rope_type"), rope.get("factor")
        if kind == "linear" and factor is not None:
            self._put("rope.scaling.type", "linear", "rope_type")
            self._put("rope.scaling.factor", factor, "factor")
        elif kind == "yarn" and factor is not None:
            self._put("rope.scaling.type", "yarn", "rope_type")
            self._put("rope.scaling.factor", factor, "factor")
            length = rope.get("original_max_position_embeddings")
            name = "original_max_position_embeddings"
            self._put("rope.scaling.original_context_length", length, name)
            told = (
                ("ext_factor", rope.get("extrapolation_factor")),
                ("attn_factor", rope.get("attention_factor", rope.get("attn_factor"))),
                ("beta_fast", rope.get("beta_fast")),
                ("beta_slow", rope.get("beta_slow")),
            )
            for key, found in told:
                if found is not None:
                    self._put(f"rope.scaling.yarn_{key}", found, key)
        elif kind in {"su", "longrope"}:
            self._put("rope.scaling.type", "longrope", "rope_type")
        sections = hparams.rope.get("mrope_section")
        if isinstance(sections, list):
            four = (sections + [0] * 4)[:4]
            self._put("rope.dimension_sections", four, "mrope_section")
        if (theta := rope.get("rope_theta")) is not None:
            self._put("rope.freq_base", theta, "rope_theta")
        local = hparams.rope.get("sliding_attention")
        if isinstance(local, dict) and (theta := local.get("rope_theta")) is not None:
            self._put("rope.freq_base_swa", theta, "rope_theta")


_SIGNED: Final = 1 << 31


def _small(hparams: Hparams, name: str, found: Json, limit: int = 1 << 32) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < limit:
        hparams.bad(name, found, "a whole number of 32 bits")
    return found
