"""The record that ingot keeps of a model in its configuration: the one reader of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from importer.sources.stored import RECORD_KEY
from store import Digest, IngotError, Layer, Store, limits
from store.json import Json, JsonError, loads
from store.tensorfile import ITEM_BITS

if TYPE_CHECKING:  # `show` starts quickly, and few models come from the Hub
    from importer.sources.location import HubRepository


class RecordedFile(NamedTuple):
    """A file that the model was made from.

    Attributes:
        name: its path in the source.
        size: in bytes.
        sha256: that the Hub declares, or None.
    """

    name: str
    size: int
    sha256: str | None


class DtypeRun(NamedTuple):
    """Tensors that follow each other, and their dtype in the source.

    Attributes:
        dtype: None where each tensor's layer says it.
        tensors: how many.
    """

    dtype: str | None
    tensors: int


class ModelRecord(NamedTuple):
    """How a model was made, as its configuration holds it (docs/formats/manifest.md).

    Any field may be missing or wrong: the configuration may be another program's, or damaged.
    What does not have its type reads as missing.

    Attributes:
        architecture: the class that the source names, or empty.
        family: the source's `model_type`, or empty.
        kind: `model`, `pipeline` or `sentence`, or empty.
        encoder: revision of the codecs, or None.
        components: directories with weights, of a pipeline.
        files: of the source.
        hub: repository and commit of an import from the Hub, or None.
        model: the manifest of the stored model that this one was made from, or None.
        prequantized: the scheme whose arrays the model has as they came, or None.
        is_joined: whether tensors were made of others of that scheme's arrays.
        is_unpacked: whether tensors were taken out of files that could have been kept whole.
        recipe: a document that `importer.recipes.document` reads, or None.
        variant: of the weights, or None.
        metadata: what files of weights say about themselves, by path; None in models of
            earlier versions, and where there is nothing unusual.
        source_dtypes: of all tensors in the order of the manifest, and in a group in that of
            its blob; empty where the layers say everything.
        is_empty: whether there is no record at all.
    """

    architecture: str = ""
    family: str = ""
    kind: str = ""
    encoder: int | None = None
    components: tuple[str, ...] = ()
    files: tuple[RecordedFile, ...] = ()
    hub: HubRepository | None = None
    model: Digest | None = None
    prequantized: str | None = None
    is_joined: bool = False
    is_unpacked: bool = False
    recipe: Mapping[str, Json] | None = None
    variant: str | None = None
    metadata: Mapping[str, Mapping[str, str]] | None = None
    source_dtypes: tuple[DtypeRun, ...] = ()
    is_empty: bool = True

    @property
    def format(self) -> str:
        """The key of the format that the names of the source's files tell, or empty."""
        from importer.sources.containers import FORMATS  # noqa: PLC0415 - `show` starts quickly
        from importer.sources.roles import role_of  # noqa: PLC0415

        formats = (role_of(file.name, FORMATS).format for file in self.files)
        return next(filter(None, formats), "")

    def dtypes(self, tensors: int) -> tuple[str | None, ...]:
        """Return the recorded source dtype of each tensor, None where its layer says it.

        Args:
            tensors: how many the model has; of another number nothing is believed.
        """
        if sum(run.tensors for run in self.source_dtypes) != tensors:
            return (None,) * tensors
        return tuple(run.dtype for run in self.source_dtypes for _ in range(run.tensors))


NO_RECORD: Final = ModelRecord()


def read_record(store: Store, config: Layer) -> ModelRecord:
    """Read the record of a model; what cannot be read is missing, as in a damaged blob.

    Args:
        store: that has the model.
        config: the layer of its configuration.
    """
    try:
        return parse_record(store.blobs.read(config.ref, limits.CONFIG_BYTES))
    except (IngotError, OSError):
        return NO_RECORD


def parse_record(config: bytes) -> ModelRecord:
    """Return the record in the bytes of a configuration, which may be damaged."""
    try:
        return record_in(loads(config, floats=True))
    except JsonError:
        return NO_RECORD


def record_in(config: Json | Mapping[str, Json]) -> ModelRecord:
    """Return the record in a configuration, of ours or of another program."""
    ours = config.get(RECORD_KEY) if isinstance(config, Mapping) else None
    if not isinstance(config, Mapping) or not isinstance(ours, dict) or not ours:
        return NO_RECORD
    encoder, recipe = ours.get("encoder"), ours.get("recipe")
    return ModelRecord(
        architecture=_text(ours.get("architecture")) or "",
        family=_text(config.get("model_family")) or "",
        kind=_text(ours.get("kind")) or "",
        encoder=encoder if type(encoder) is int else None,
        components=tuple(filter(None, map(_text, _list(ours.get("components"))))),
        files=tuple(_files(ours.get("files"))),
        hub=_hub(ours.get("hub")),
        model=_digest(ours.get("model")),
        prequantized=_text(ours.get("prequantized")),
        is_joined=ours.get("joined") is True,
        is_unpacked=ours.get("unpacked") is True,
        recipe=recipe if isinstance(recipe, dict) else None,
        variant=_text(ours.get("variant")),
        metadata=_metadata(ours.get("metadata")),
        source_dtypes=_runs(ours.get("source_dtypes")),
        is_empty=False,
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _files(value: Json) -> Iterator[RecordedFile]:
    for entry in _list(value):
        if isinstance(entry, dict):
            name, size, sha256 = entry.get("name"), entry.get("size"), entry.get("sha256")
            if isinstance(name, str) and type(size) is int and size >= 0:
                yield RecordedFile(name, size, _text(sha256))


def _hub(value: Json) -> HubRepository | None:
    if not isinstance(value, dict):
        return None
    repository, commit = value.get("repository"), value.get("commit")
    if not (isinstance(repository, str) and isinstance(commit, str)):
        return None
    from importer.sources.location import HubRepository  # noqa: PLC0415 - see above

    try:
        return HubRepository.checked(repository, commit)
    except IngotError:
        return None


def _digest(value: Json) -> Digest | None:
    try:
        return Digest.parse(value) if isinstance(value, str) else None
    except IngotError:
        return None


def _metadata(value: Json) -> dict[str, dict[str, str]] | None:
    if not isinstance(value, dict):
        return None
    return {
        path: {key: text for key, text in said.items() if isinstance(text, str)}
        for path, said in value.items()
        if isinstance(said, dict)
    }


def _runs(value: Json) -> tuple[DtypeRun, ...]:
    runs = []
    for entry in _list(value):
        if not (isinstance(entry, list) and len(entry) == len(DtypeRun._fields)):
            return ()
        dtype, count = entry
        known = dtype is None or (isinstance(dtype, str) and dtype in ITEM_BITS)
        if not known or type(count) is not int or count < 1:
            return ()
        runs.append(DtypeRun(dtype, count))  # type: ignore[arg-type]  # known is as much
    return tuple(runs)
