"""What `config.json` says, as transformers reads it: with defaults, and rope in one place.

llama.cpp's converter asks transformers for a model's configuration and not the file, so that a
file which lacks a key has the default of its class. hparams.toml has these.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, NoReturn, TypeGuard

from importer.sources.configuration import with_inner
from importer.sources.document import CONFIG, Document
from store.errors import InputError
from store.json import Json
from store.text import printable

_TABLE: Final = "hparams.toml"
_THETA: Final = 10000.0
_ROPES: Final = ("full_attention", "sliding_attention")
_STRETCHED: Final = frozenset({"llama3", "yarn", "longrope"})
_WINDOWED: Final = frozenset({"qwen2", "qwen3", "qwen3_moe"})
_INT_LIMIT: Final = 1 << 32
_LARGEST: Final = 3.4028234663852886e38


def is_number(found: Json) -> TypeGuard[float]:
    """Return whether something is a number that a float of 32 bits can be near."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return False
    return -_LARGEST <= found <= _LARGEST


class Hparams:
    """The configuration of a text model.

    Attributes:
        values: by transformers' names; those of the text model inside go first.
        rope: parameters of rotary embeddings, or one such table for each kind of layer.
        skipped: how many of the first positions are none.
    """

    def __init__(self, config: Document, fixed: Mapping[str, Json] | None = None) -> None:
        """Read a configuration.

        Args:
            config: the whole of it.
            fixed: values in place of its own.

        Raises:
            InputError: it says something that cannot be.
        """
        inner = list(with_inner(config))[-1]
        values: dict[str, Json] = {**config, **inner}
        kind = inner.get("model_type")
        kind = kind if isinstance(kind, str) else ""
        rule = _tables().get(kind, {})
        for key, value in rule.get("defaults", {}).items():
            values.setdefault(key, value)
        values.update(fixed or {})
        self.values = values
        self.kind = kind
        self.skipped = 0
        self._complete(rule)
        self.rope = self._rope(rule)

    def find(self, *keys: str) -> Json:
        """Return the value of the first of some keys that there is, or None."""
        return next((self.values[key] for key in keys if key in self.values), None)

    def integer(self, *keys: str) -> int:
        """Return a number of things.

        Raises:
            InputError: there is none, or it is not a number of 32 bits.
        """
        found = self.find(*keys)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _INT_LIMIT:
            self.bad(self._found(keys), found, "a whole number of 0 or more")
        return found

    def count(self, *keys: str) -> int:
        """Return a number of things of which there is at least one.

        Raises:
            InputError: there is none.
        """
        found = self.integer(*keys)
        if not found:
            self.bad(self._found(keys), found, "a positive number")
        return found

    def number(self, *keys: str) -> float:
        """Return a number.

        Raises:
            InputError: there is none.
        """
        found = self.find(*keys)
        if not is_number(found):
            self.bad(self._found(keys), found, "a number")
        return found

    def optional(self, *keys: str) -> int | None:
        """Return a number of things, or None where it is not said or null."""
        return None if self.find(*keys) is None else self.integer(*keys)

    def _found(self, keys: tuple[str, ...]) -> str:
        """Return the key whose value `find` gives, or the first where there is none."""
        return next((key for key in keys if key in self.values), keys[0])

    def bad(self, key: str, found: Json, expected: str) -> NoReturn:
        """Raise InputError for a value that cannot be."""
        shown = "is missing" if found is None else f"is {printable(str(found), 80)}"
        raise InputError(
            f"`{key}` in `{CONFIG}` {shown}, expected {expected}", code="E_GGUF_CONFIG"
        )

    @property
    def heads(self) -> int:
        """The number of attention heads."""
        return self.count("n_heads", "num_attention_heads", "n_head")

    @property
    def kv_heads(self) -> int:
        """The number of heads of keys and values."""
        found = self.optional("n_kv_heads", "num_key_value_heads")
        return found or self.heads

    @property
    def head_rows(self) -> int:
        """Rows of a head that are rotated."""
        return self.optional("head_dim") or self.count("hidden_size") // self.heads

    @property
    def flat_rope(self) -> Mapping[str, Json]:
        """The parameters of layers with full attention."""
        inner = self.rope.get("full_attention", self.rope)
        return inner if isinstance(inner, dict) else {}

    def add_blocks(self, key: str) -> None:
        """Count the blocks that predict further tokens, whose number is another key's."""
        if key:
            count = self.integer("num_hidden_layers") + (self.optional(key) or 0)
            self.values["num_hidden_layers"] = count

    def skip_padding(self) -> None:
        """Count positions from behind the padding token's number on, as RoBERTa does."""
        if (padding := self.optional("pad_token_id")) is not None:
            self.skipped = padding + 1
            length = self.count("max_position_embeddings") - self.skipped
            if length < 1:
                self.bad("pad_token_id", padding, "a number below the count of positions")
            self.values["max_position_embeddings"] = length

    def _complete(self, rule: Mapping[str, Any]) -> None:
        """Fill in what transformers computes of other keys."""
        values = self.values
        is_said = "num_key_value_heads" in values or rule.get("kv_heads") == "all"
        if is_said and values.get("num_key_value_heads") is None:
            values["num_key_value_heads"] = values.get("num_attention_heads")
        if rule.get("kv_heads") == "by layer":
            self._by_layer()
        if rule.get("head_dim") == "of hidden_size" and values.get("head_dim") is None:
            values["head_dim"] = self.count("hidden_size") // self.heads
        if rule.get("head_dim") == "rotated":
            values["head_dim"] = values.get("qk_rope_head_dim")
        if (dense := values.get("intermediate_size_mlp")) is not None:  # Llama 4's
            values["intermediate_size_moe"] = values.get("intermediate_size")
            values["intermediate_size"] = dense
        if self.kind in _WINDOWED and not values.get("use_sliding_window"):
            values["sliding_window"] = None

    def _by_layer(self) -> None:
        """Say for each layer how many heads of keys it has: without attention none."""
        kinds = self.values.get("layer_types")
        if not isinstance(kinds, list):
            self.bad("layer_types", kinds, "a list")
        heads = self.values.get("num_key_value_heads")
        self.values["num_key_value_heads"] = [0 if kind == "conv" else heads for kind in kinds]

    def _rope(self, rule: Mapping[str, Any]) -> dict[str, Json]:
        """Return the parameters of rotary embeddings, as a configuration of v5 has them."""
        values = self.values
        if rule.get("ropes") == "none":
            return {}
        found = values.get("rope_scaling") or values.get("rope_parameters")
        if found is None:
            found = dict(rule.get("rope", {}))
        if not isinstance(found, dict):
            self.bad("rope_parameters", found, "an object")
        theta = self.find("rope_theta", "global_rope_theta")
        theta = rule.get("rope_theta", _THETA) if theta is None else theta
        if rule.get("ropes") == "by layer" and not any(key in found for key in _ROPES):
            local = self.find("rope_local_base_freq", "local_rope_theta")
            local = _THETA if local is None else local
            slow: dict[str, Json] = {"rope_theta": local, "rope_type": "default"}
            return {"sliding_attention": slow, "full_attention": self._one_rope(found, theta)}
        if any(key in found for key in _ROPES):
            return {
                key: self._one_rope(one, theta) if isinstance(one, dict) else one
                for key, one in found.items()
            }
        made = self._one_rope(found, theta)
        if made["rope_type"] in _STRETCHED:
            if "original_max_position_embeddings" in values:
                length = values["original_max_position_embeddings"]
                made["original_max_position_embeddings"] = length
            else:
                length = values.get("max_position_embeddings")
                made.setdefault("original_max_position_embeddings", length)
        if "original_max_position_embeddings" in values:
            length = values["original_max_position_embeddings"]
            made.setdefault("original_max_position_embeddings", length)
        if rule.get("longrope") and made["rope_type"] in {"su", "yarn"}:
            made["rope_type"] = "longrope"
        return made

    def _one_rope(self, found: Mapping[str, Json], theta: Json) -> dict[str, Json]:
        made = dict(found)
        made.setdefault("rope_theta", theta)
        partial = self.values.get("partial_rotary_factor")
        if partial is not None:
            made.setdefault("partial_rotary_factor", partial)
        made.setdefault("rope_type", made.get("type", "default"))
        if not isinstance(made["rope_type"], str):
            self.bad("rope_type", made["rope_type"], "a word")
        return made


@functools.cache
def _tables() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    return tomllib.loads(text)
