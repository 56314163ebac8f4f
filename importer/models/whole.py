"""What GGUF files that a stored model has whole say of themselves: tensors, metadata, use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.formats.gguf.header import Header, read_header
from importer.formats.gguf.metadata import Array, Value
from importer.sources.file_metadata import FileMetadata
from importer.sources.stored.tensors import StoredTensor
from store import Layer, MediaType, Store
from store.errors import IntegrityError
from store.json import Json

_THINKS: Final = ("<think>", "</think>")
_LONGEST: Final = 2**31 - 1


class WholeFile(NamedTuple):
    """A file of weights in the store.

    Attributes:
        name: of its layer: `model`, `projector` or `adapter`.
    """

    name: str
    layer: Layer
    header: Header

    @property
    def tensors(self) -> Iterator[StoredTensor]:
        """Every tensor, with the shape that it has in a program."""
        for info in self.header.tensors:
            kind = info.kind
            yield StoredTensor(
                info.name,
                kind.name if kind.is_plain else "F32",
                info.shape,
                None if kind.is_plain else kind.name,
                None,
                info.nbytes,
                self.name,
                self.layer.digest,
                info.offset,
            )


class MetadataEntry(NamedTuple):
    """A key of a file's metadata.

    Attributes:
        file: the name of its layer, or its path in the source.
        type: as GGUF calls it, such as `u32`; of an array that of its elements.
        value: None for an array.
        length: of an array, else None.
    """

    file: str
    key: str
    type: str
    value: Json
    length: int | None


def read_whole_file(store: Store, name: str, layer: Layer) -> WholeFile:
    """Read the header of a layer that is a GGUF file.

    Raises:
        IntegrityError: it is missing or has another size.
        InputError: it is malformed.
        UnsupportedError: a kind of file that is not read.
    """
    if not store.blobs.holds(layer.ref):
        raise IntegrityError(
            f"blob {layer.digest} is missing or has another size", code="E_BLOB_MISSING"
        )
    with store.blobs.open(layer.digest) as blob:
        header = read_header(
            f"blob {layer.digest}",
            layer.size,
            lambda start, end: store.fs.read(blob, end - start, start),
        )
    return WholeFile(name, layer, header)


def metadata_of(files: Sequence[WholeFile]) -> Iterator[MetadataEntry]:
    """Yield every key, in the order of the files."""
    for file in files:
        for key, found in file.header.metadata.items():
            if isinstance(found, Value):
                yield MetadataEntry(file.name, key, found.kind, found.value, None)
            else:
                yield MetadataEntry(file.name, key, found.kind, None, found.length)


def recorded_metadata(metadata: FileMetadata) -> Iterator[MetadataEntry]:
    """Yield every key that the record of a model holds, in the order of the files."""
    for file, said in sorted(metadata.items()):
        for key, value in sorted(said.items()):
            yield MetadataEntry(file, key, "string", value, None)


def lengths_of(files: Sequence[WholeFile]) -> Mapping[str, Json]:
    """Return lengths and numbers of parts under the names that a `config.json` has for them."""
    found: dict[str, Json] = {}
    for file in files[:1]:
        family = file.header.text("general.architecture")
        for key, name in (
            ("context_length", "max_position_embeddings"),
            ("embedding_length", "hidden_size"),
            ("block_count", "num_hidden_layers"),
            ("attention.head_count", "num_attention_heads"),
            ("attention.head_count_kv", "num_key_value_heads"),
            ("vocab_size", "vocab_size"),
            ("expert_count", "num_experts"),
            ("expert_used_count", "num_experts_per_tok"),
        ):
            length = file.header.integer(f"{family}.{key}")
            if length is not None and 0 < length <= _LONGEST:
                found[name] = length
        tokens = file.header.metadata.get("tokenizer.ggml.tokens")
        if isinstance(tokens, Array) and tokens.length:
            found.setdefault("vocab_size", tokens.length)
    return found


def capabilities_of(files: Sequence[WholeFile]) -> Iterator[str]:
    """Yield what a model can do, as Ollama finds out when it loads it.

    Facts: `ggufCapabilities`, `projectorCapabilities` of server/images.go of Ollama 0.33.
    """
    if not files or files[0].layer.media_type != MediaType.MODEL:
        return
    header = files[0].header
    family = header.text("general.architecture")
    template = header.text("tokenizer.chat_template")
    if "tools" in template or "tool_call" in template:
        yield "tools"
    if all(word in template for word in _THINKS) or _splits_thoughts(template):
        yield "thinking"
    yield "embedding" if f"{family}.pooling_type" in header.metadata else "completion"
    projectors = [file for file in files if file.layer.media_type == MediaType.PROJECTOR]
    if projectors or f"{family}.vision.block_count" in header.metadata:
        yield "vision"
    if f"{family}.audio.block_count" in header.metadata or any(map(_hears, projectors)):
        yield "audio"


def _splits_thoughts(template: str) -> bool:
    splits = "content.split('</think>')", 'content.split("</think>")'
    keeps = "reasoning_content", "<SPECIAL_12>"
    return any(text in template for text in splits) and not any(
        text in template for text in keeps
    )


def _hears(projector: WholeFile) -> bool:
    metadata = projector.header.metadata
    family = projector.header.text("general.architecture")
    encodes = metadata.get(f"{family}.has_audio_encoder")
    layers = metadata.get(f"{family}.audio.block_count")
    has_layers = isinstance(layers, (Value, Array))
    return has_layers or (isinstance(encodes, Value) and encodes.value is True)
