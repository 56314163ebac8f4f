"""Special tokens, whether they are put around text, and the template of a conversation.

As `SpecialVocab` of llama.cpp's gguf-py/gguf/vocab.py finds them, in its order.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from importer.exports.gguf.documents import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    Documents,
    bad,
    objects,
)
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.post_processors import Processors
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import Values
from importer.sources.document import CONFIG, Document
from store.json import Json

_TYPES: Final = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_IDS: Final = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
}
"""The keys, spelled as llama.cpp spells them; `cls` has none."""
_ADDED: Final = ("bos", "eos", "sep")
_NAME: Final = frozenset(string.ascii_letters + string.digits)
_TEMPLATE: Final = "tokenizer.chat_template"


class SpecialTokens:
    """What the files of a tokenizer say about special tokens.

    Attributes:
        ids: of each type that has one.
        added: whether a type's token is put around text, where that is said.
        template: of a conversation: one, several with names, or None.
        normalizer: what it does to letters.
    """

    def __init__(
        self, documents: Documents, config: Document, vocabulary_size: int | None = None
    ) -> None:
        """Read the files.

        Args:
            documents: of the model.
            config: its configuration.
            vocabulary_size: that numbers must be below, or None.

        Raises:
            InputError: a file is malformed.
        """
        self.ids: dict[str, int] = {}
        self.added: dict[str, bool] = {}
        self.template: str | Sequence[Json] | None = None
        self.normalizer: dict[str, bool] = {}
        self._size = vocabulary_size
        self._types: tuple[str, ...] = _TYPES
        self._read_tokenizer(documents)
        self._read_config(config)

    def keys(self) -> Metadata:
        """Return the keys that a file gets, in its order."""
        made: Metadata = {}
        for kind, number in self.ids.items():
            if kind in _IDS:
                made[f"tokenizer.ggml.{_IDS[kind]}"] = Value("u32", number)
        for kind, is_added in self.added.items():
            if kind in _ADDED:
                made[f"tokenizer.ggml.add_{kind}_token"] = Value("bool", is_added)
        made |= _templates(self.template)
        for name, value in self.normalizer.items():
            made[f"tokenizer.ggml.normalizer.{name}"] = Value("bool", value)
        return made

    def set(self, kind: str, number: Json) -> None:
        """Take a number for a type that has none; one that cannot be is passed over."""
        if isinstance(number, bool) or not isinstance(number, int):
            return
        if number < 0:
            bad(CONFIG, f"says that the {kind} token is {number}")
        if number < 1 << 32 and (self._size is None or number < self._size):
            self.ids.setdefault(kind, number)

    def _read_tokenizer(self, documents: Documents) -> None:
        tokenizer = documents.parse(TOKENIZER)
        told = dict(documents.parse(TOKENIZER_CONFIG))
        has_config = TOKENIZER_CONFIG in documents
        if TOKENIZER in documents:
            self._read_normalizer(tokenizer.get("normalizer"))
            processors = Processors(self.added, told, has_config=has_config)
            processors.read(tokenizer)
            self._types = (*_TYPES, *processors.ends)
        if not has_config:
            return
        self.template = _template_of(documents, told)
        numbers = {
            one["content"]: one.get("id")
            for one in reversed(objects(tokenizer.get("added_tokens")))
            if isinstance(one.get("content"), str)
        }
        for kind in self._types:
            is_added = told.get(f"add_{kind}_token")
            if isinstance(is_added, bool):
                self.added.setdefault(kind, is_added)
            token = told.get(f"{kind}_token")
            content = token.get("content") if isinstance(token, dict) else token
            if isinstance(content, str):
                self.set(kind, numbers.get(content))

    def _read_config(self, config: Document) -> None:
        inner = config.get("text_config")
        for kind in self._types:
            found = config.get(f"{kind}_token_id")
            if found is None and isinstance(inner, dict):
                found = inner.get(f"{kind}_token_id")
            self.set(kind, found)

    def _read_normalizer(self, found: Json) -> None:
        if not isinstance(found, dict):
            return
        kind = found.get("type")
        if kind == "Lowercase":
            self.normalizer["lowercase"] = True
        elif kind == "StripAccents":
            self.normalizer["strip_accents"] = True
        elif kind == "BertNormalizer":
            for name in ("lowercase", "strip_accents"):
                if isinstance(value := found.get(name), bool):
                    self.normalizer[name] = value
        elif kind == "Sequence":
            for one in objects(found.get("normalizers")):
                self._read_normalizer(one)


def _template_of(documents: Documents, told: Mapping[str, Json]) -> str | Sequence[Json] | None:
    """Return the template of a conversation; what tokenizer_config.json has goes first."""
    other: Json = None
    if "chat_template.jinja" in documents:
        other = documents.text("chat_template.jinja")
        more = documents.paths("additional_chat_templates/", ".jinja")
        if more:
            named: list[Json] = [{"name": "default", "template": other}]
            for path in more:
                name = path.rpartition("/")[2].removesuffix(".jinja")
                named.append({"name": name, "template": documents.text(path)})
            other = named
    elif "chat_template.json" in documents:
        other = documents.parse("chat_template.json").get("chat_template")
    found = told.get("chat_template", other)
    return found if isinstance(found, str | list) else None


def _templates(template: str | Sequence[Json] | None) -> Metadata:
    made: Metadata = {}
    if template is None:
        return made
    if not isinstance(template, str):
        names: list[str] = []
        default = ""
        for name, text in _named_templates(template):
            if name == "default":
                default = text
            else:
                names.append(name)
                made[f"{_TEMPLATE}.{name}"] = Value("string", text)
        if names:
            made["tokenizer.chat_templates"] = Values("string", names)
        template = default
    if template:
        made[_TEMPLATE] = Value("string", template)
    return made


def _named_templates(template: Sequence[Json]) -> Iterator[tuple[str, str]]:
    for one in template:
        if not isinstance(one, dict):
            continue
        name, text = one.get("name"), one.get("template")
        if isinstance(name, str) and isinstance(text, str) and name and text:
            yield "".join(c if c in _NAME else "_" for c in name), text
