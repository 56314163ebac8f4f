"""The files that a GGUF file becomes beside its tensors: configuration, tokenizer, metadata."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from importer.codecs.base import Shape
from importer.formats.gguf.header import Header
from importer.formats.gguf.metadata import Value
from importer.formats.gguf_names.config import config_of
from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.tokenizer import tokenizer_config, tokenizer_json
from importer.formats.gguf_names.vocabulary import Vocabulary
from importer.sources.containers.gguf import read_elements, read_file_header
from importer.sources.containers.gguf_facts import factors_of, facts_of, vocabulary_of
from importer.sources.document import CONFIG, Document
from importer.sources.file import SourceFile
from importer.sources.made_files import Text, made_file
from store.json import Json

METADATA: Final = "gguf.json"
_TOKENIZER: Final = "tokenizer.json"
_AT_ONCE: Final = 4096


class Documents(NamedTuple):
    """What becomes of the metadata.

    Attributes:
        config: the content of config.json, or None where the model is not known.
        notes: what is not written, and why.
    """

    files: tuple[SourceFile, ...]
    config: Document | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """Makes gguf.json: every key of a file with its type and value, in the file's order."""

    source: SourceFile

    def pieces(self) -> Iterator[bytes]:
        """Yield the document; an array of a million strings is never in memory as a whole."""
        header = read_file_header(self.source)
        yield f'{{"version":{header.version},"metadata":{{'.encode()
        separator = ""
        for key, found in header.metadata.items():
            start = f"{separator}{_text(key)}:{{"
            separator = ","
            if isinstance(found, Value):
                yield f'{start}"type":"{found.kind}","value":{_text(found.value)}}}'.encode()
                continue
            yield f'{start}"type":"array","of":"{found.kind}","value":['.encode()
            elements, inner = read_elements(self.source, found), ""
            while some := list(itertools.islice(elements, _AT_ONCE)):
                yield (inner + _text(some)[1:-1]).encode()
                inner = ","
            yield b"]}"
        yield b"}}\n"


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """Makes tokenizer.json of a file whose vocabulary has such a form."""

    source: SourceFile

    def pieces(self) -> Iterator[bytes]:
        """Yield the document."""
        header = read_file_header(self.source)
        vocabulary = vocabulary_of(self.source, header)
        assert isinstance(vocabulary, Vocabulary), vocabulary
        found = tokenizer_json(facts_of(self.source, header), vocabulary)
        assert not isinstance(found, str), found
        for piece in found:
            yield piece.encode()


def documents_of(
    file: SourceFile, header: Header, variant: str, shapes: Mapping[str, Shape]
) -> Documents:
    """Make the files of one model.

    Args:
        file: that has the metadata: the first of a split.
        header: of that file.
        variant: the spelling of its tensors' names, or empty.
        shapes: of all tensors of the model, by GGUF's name.
    """
    facts = facts_of(file, header)
    files = [made_file(METADATA, MetadataFile(file), file)]
    notes: list[str] = []
    config = config_of(facts, variant, shapes, factors_of(file, header)) if variant else None
    if config is None:
        notes.append(
            f"config.json is not written: how Hugging Face describes `{facts.architecture}` "
            "is not known"
        )
    else:
        files.append(_json_file(CONFIG, config.document, file))
        if config.generation:
            files.append(_json_file("generation_config.json", config.generation, file))
        notes += config.notes
    vocabulary = vocabulary_of(file, header)
    found = vocabulary if isinstance(vocabulary, str) else _tokenizer(facts, vocabulary, file)
    if isinstance(found, str):
        notes.append(f"{_TOKENIZER} is not written: {found}")
    else:
        files += found
    return Documents(
        tuple(files), config.document if config is not None else None, tuple(notes)
    )


def _tokenizer(
    facts: Facts, vocabulary: Vocabulary, file: SourceFile
) -> list[SourceFile] | str:
    found = tokenizer_json(facts, vocabulary)
    if isinstance(found, str):
        return found
    config = tokenizer_config(facts, vocabulary)
    return [
        made_file(_TOKENIZER, TokenizerFile(file), file),
        _json_file("tokenizer_config.json", config, file),
    ]


def _json_file(path: str, document: Mapping[str, Json], file: SourceFile) -> SourceFile:
    text = json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
    return made_file(path, Text(f"{text}\n".encode()), file)


def _text(value: Any) -> str:  # noqa: ANN401 - a value of metadata
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
