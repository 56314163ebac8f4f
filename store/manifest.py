"""What a model is made of: the manifest, in and out, its unknown fields kept."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from store import limits
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import IntegrityError
from store.json import Json, JsonError, dumps, loads
from store.text import printable

SCHEMA_VERSION: Final = 2
MEDIA_TYPE: Final = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG_MEDIA_TYPE: Final = "application/vnd.docker.container.image.v1+json"
_LARGEST: Final = 2**63 - 1
_NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


@unique
class MediaType(StrEnum):
    """What a layer is (docs/formats/manifest.md).

    The words are Ollama's; `FILE`, `QUALITY` and `IMATRIX` are ours.
    """

    TENSOR = "application/vnd.ollama.image.tensor"
    JSON = "application/vnd.ollama.image.json"
    OLD_CONFIG = "application/vnd.ollama.image.config"
    FILE = "application/vnd.ingot.image.file"
    QUALITY = "application/vnd.ingot.image.quality"
    IMATRIX = "application/vnd.ingot.image.imatrix"
    LICENSE = "application/vnd.ollama.image.license"
    MODEL = "application/vnd.ollama.image.model"
    PROJECTOR = "application/vnd.ollama.image.projector"
    ADAPTER = "application/vnd.ollama.image.adapter"
    DRAFT = "application/vnd.ollama.image.draft"
    EMBED = "application/vnd.ollama.image.embed"
    TEMPLATE = "application/vnd.ollama.image.template"
    PROMPT = "application/vnd.ollama.image.prompt"
    SYSTEM = "application/vnd.ollama.image.system"
    PARAMS = "application/vnd.ollama.image.params"
    MESSAGES = "application/vnd.ollama.image.messages"


FILE_TYPES: Final = frozenset({MediaType.JSON, MediaType.OLD_CONFIG, MediaType.FILE})
"""Layers that are a file of the source under its relative path; licenses with a name too."""

USE_TYPES: Final = frozenset(
    {
        MediaType.TEMPLATE,
        MediaType.PROMPT,
        MediaType.SYSTEM,
        MediaType.LICENSE,
        MediaType.PARAMS,
        MediaType.MESSAGES,
    }
)
"""Layers that say how a model is used; a license with a name is a file instead."""

WHOLE_TYPES: Final = frozenset({MediaType.MODEL, MediaType.PROJECTOR, MediaType.ADAPTER})
"""Layers that are a whole file of weights; they have no name."""

NAMELESS: Final = WHOLE_TYPES | {MediaType.IMATRIX}
"""Layers that are a whole file, whatever it was called."""


def whole_names(media_types: Iterable[str]) -> Iterator[str]:
    """Yield what to call each of some whole files: `model`, `projector`, `projector 2`."""
    count: Counter[str] = Counter()
    for media_type in media_types:
        count[media_type] += 1
        word = media_type.rpartition(".")[2]
        yield word if count[media_type] == 1 else f"{word} {count[media_type]}"


class Layer(NamedTuple):
    """One blob of a model and what it is.

    Attributes:
        size: bytes of the blob.
        name: of a tensor, a group or a file; empty where the media type says it all.
        dtype: of a single tensor, before quantization.
        shape: of a single tensor, logical.
        other: fields that we do not know, in their order.
    """

    media_type: str
    digest: Digest
    size: int
    name: str = ""
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    other: Mapping[str, Json] = _NOTHING

    @property
    def ref(self) -> BlobRef:
        """The blob."""
        return BlobRef(self.digest, self.size)

    @property
    def title(self) -> str:
        """What to call the layer: by its name, or else by what it is."""
        if self.name:
            return f"`{printable(self.name)}`"
        if self.media_type == MediaType.QUALITY:
            return "report of quality"
        if self.media_type == MediaType.IMATRIX:
            return "importance matrix"
        known = self.media_type in set(MediaType)
        return self.media_type.rpartition(".")[2] if known else printable(self.media_type)

    @property
    def is_file(self) -> bool:
        """Whether the layer is a file of the source, kept byte for byte."""
        named_license = self.media_type == MediaType.LICENSE and bool(self.name)
        return self.media_type in FILE_TYPES or named_license

    @property
    def is_use(self) -> bool:
        """Whether the layer says how the model is used, as a Modelfile does."""
        return self.media_type in USE_TYPES and not self.is_file

    def to_json(self) -> dict[str, Json]:
        """Return the layer's fields in Ollama's order, then ours, then the unknown."""
        document: dict[str, Json] = {
            "mediaType": self.media_type,
            "digest": str(self.digest),
            "size": self.size,
        }
        if "from" in self.other:
            document["from"] = self.other["from"]
        if self.name:
            document["name"] = self.name
        if self.dtype is not None:
            document["dtype"] = self.dtype
        if self.shape is not None:
            document["shape"] = list(self.shape)
        return document | {key: self.other[key] for key in self.other if key != "from"}


class Manifest(NamedTuple):
    """A model: its configuration and its layers, in order."""

    config: Layer
    layers: tuple[Layer, ...]
    schema_version: int = SCHEMA_VERSION
    media_type: str = MEDIA_TYPE
    other: Mapping[str, Json] = _NOTHING

    @property
    def is_supported(self) -> bool:
        """Whether schema and media type are the ones that we know completely."""
        return (self.schema_version, self.media_type) == (SCHEMA_VERSION, MEDIA_TYPE)

    @property
    def blobs(self) -> Iterator[BlobRef]:
        """Every blob that the manifest names, the configuration first; some may repeat."""
        yield self.config.ref
        for layer in self.layers:
            yield layer.ref

    @property
    def nbytes(self) -> int:
        """Size in bytes of all layers and the configuration, each blob counted once."""
        return sum(ref.size for ref in set(self.blobs))

    def to_bytes(self) -> bytes:
        """Serialize as Go's `json.Encoder`: compact, one newline at the end."""
        document: dict[str, Json] = {
            "schemaVersion": self.schema_version,
            "mediaType": self.media_type,
            "config": self.config.to_json(),
            "layers": [],
        }
        # Layer by layer: all of 100 000 as one document take 120 MB for a moment.
        data = io.BytesIO()
        data.write(dumps(document)[: -len("]}")])
        for number, layer in enumerate(self.layers):
            data.write(b"," if number else b"")
            data.write(dumps(layer.to_json()))
        data.write(b"]")
        if self.other:
            data.write(b"," + dumps(dict(self.other))[len("{") : -len("}")])
        data.write(b"}\n")
        return data.getvalue()

    @classmethod
    def parse(cls, data: bytes, where: str) -> Manifest:
        """Read a manifest strictly; `where` names it in messages.

        Raises:
            IntegrityError: malformed, or naming a blob in a way that is not ours.
        """
        if len(data) > limits.MANIFEST_BYTES:
            message = f"{len(data)} bytes, the limit is {limits.MANIFEST_BYTES}"
            _bad(where, message, code="E_LIMIT")
        if not data.strip():
            _bad(where, "empty, probably torn by a crash of another program")
        try:
            document = loads(data)
        except JsonError as error:
            _bad(where, str(error))
        if not isinstance(document, dict):
            _bad(where, "is not a JSON object")
        version, layers = document.get("schemaVersion"), document.get("layers")
        media_type = document.get("mediaType", "")
        if type(version) is not int or not isinstance(layers, list):
            _bad(where, "needs an integer `schemaVersion` and a list `layers`")
        if not isinstance(media_type, str):
            _bad(where, "`mediaType` is not a string")
        if len(layers) > limits.LAYERS:
            message = f"{len(layers)} layers, the limit is {limits.LAYERS}"
            _bad(where, message, code="E_LIMIT")
        known = {"schemaVersion", "mediaType", "config", "layers"}
        return cls(
            _layer(document.get("config"), where),
            tuple(_layer(layer, where) for layer in _drained(layers)),
            version,
            media_type,
            {key: value for key, value in document.items() if key not in known},
        )


def _drained(layers: list[Json]) -> Iterator[Json]:
    # What was read is let go: as JSON 100 000 layers take three times what they become.
    layers.reverse()
    while layers:
        yield layers.pop()


_LAYER_FIELDS: Final = frozenset({"mediaType", "digest", "size", "name", "dtype", "shape"})


def _layer(value: Json, where: str) -> Layer:
    if not isinstance(value, dict):
        _bad(where, "a layer is not an object")
    media_type, digest, size = value.get("mediaType"), value.get("digest"), value.get("size")
    name, dtype = value.get("name", ""), value.get("dtype")
    if not isinstance(digest, str) or not isinstance(media_type, str):
        _bad(where, "a layer needs `mediaType` and `digest`, both strings")
    if type(size) is not int or not 0 <= size <= _LARGEST:
        _bad(
            where,
            f"size of {printable(digest)} is {printable(str(size))}, expected 0 to 2^63-1",
        )
    if not isinstance(name, str) or not (dtype is None or isinstance(dtype, str)):
        _bad(where, "`name` and `dtype` of a layer are strings")
    try:
        parsed = Digest.parse(digest)
    except IntegrityError as error:
        _bad(where, str(error), code="E_DIGEST")
    other = {key: rest for key, rest in value.items() if key not in _LAYER_FIELDS} or _NOTHING
    return Layer(
        media_type, parsed, size, name, dtype, _shape(value.get("shape"), where), other
    )


def _shape(value: Json, where: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > limits.RANK:
        _bad(where, f"a shape is a list of at most {limits.RANK} integers")
    shape = []
    for dimension in value:
        if type(dimension) is not int or not 0 <= dimension <= limits.DIMENSION:
            _bad(where, f"dimension {printable(str(dimension))} in a shape")
        shape.append(dimension)
    return tuple(shape)


def _bad(where: str, message: str, code: str = "E_MANIFEST") -> NoReturn:
    raise IntegrityError(
        f"manifest {where}: {message}",
        code=code,
        hint="Create the model again, or remove this tag",
    )
