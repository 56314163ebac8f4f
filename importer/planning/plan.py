"""Every decision of an import, made before the first weight is read."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from importer.codecs.base import Codec, Part, Transcoder
from importer.codecs.registry import codec_for, transcoder_for, type_held
from importer.codecs.spec import QuantSpec, Target
from importer.codecs.stacked import RecodeStack
from importer.codecs.transcode import KeepBlocks
from importer.recipes.recipe import Decision, Recipe
from importer.sources.carried import carried_prefixes
from importer.sources.classification import Classification
from importer.sources.file import SourceFile
from importer.sources.inventory import Inventory
from importer.sources.parameters import is_parameter
from importer.sources.roles import LeftOut
from importer.sources.tensor import SourceTensor
from store import Digest, MediaType
from store.manifest import NAMELESS
from store.tensorfile import elements

if TYPE_CHECKING:
    from importer.planning.allocation import Allocation


class TensorPlan(NamedTuple):
    """What becomes of one tensor.

    Attributes:
        name: in the model, component included.
        shape: logical, in elements, of what the sources are together.
        sources: whose values follow each other; more than one where experts are stacked. They
            are stored alike.
        decision: what it becomes, and why.
        transcoder: makes the parts from the arrays of each source.
        parts: the arrays that it becomes, in the order of the file.
        nbytes: of all parts.
        quant: the quantization type that it has in the store, or None.
        part_of: the packed tensor that it is an array of, where that stays as it is stored.
    """

    name: str
    shape: tuple[int, ...]
    sources: tuple[SourceTensor, ...]
    decision: Decision
    transcoder: Transcoder
    parts: tuple[Part, ...]
    nbytes: int
    quant: QuantSpec | None
    part_of: SourceTensor | None = None

    @classmethod
    def of(
        cls,
        name: str,
        shape: tuple[int, ...],
        sources: tuple[SourceTensor, ...],
        decision: Decision,
    ) -> TensorPlan:
        """Return the plan of a tensor: what makes its parts, and which these are.

        Raises:
            UnsupportedError: nothing makes such parts of such arrays.
        """
        decoder, target = sources[0].decoder, decision.target
        wanted = target.stored if isinstance(target, QuantSpec) else target
        exact = wanted is not None and wanted == type_held(decoder, sources[0].shape)
        transcoder = transcoder_for(target, decoder, exact=exact)
        parts, nbytes = _parts(transcoder, shape)
        quant = _quant(transcoder, target)
        return cls(name, shape, sources, decision, transcoder, parts, nbytes, quant)

    def made_by(self, transcoder: Transcoder, decision: Decision) -> TensorPlan:
        """Return the plan of the same tensor where another transcoder makes other parts."""
        parts, nbytes = _parts(transcoder, self.shape)
        return self._replace(
            decision=decision,
            transcoder=transcoder,
            parts=parts,
            nbytes=nbytes,
            quant=_quant(transcoder, decision.target),
        )

    @property
    def transcoders(self) -> tuple[Transcoder, ...]:
        """What converts each of the sources."""
        if len(self.sources) > 1 and isinstance(self.transcoder, RecodeStack):
            return self.transcoder.apart()
        return (self.transcoder,) * len(self.sources)

    @property
    def dtype(self) -> str:
        """The dtype of the source's values."""
        return self.sources[0].dtype

    @property
    def key(self) -> str:
        """Its name in the blob, which does not tell the component."""
        component = self.sources[0].component
        return self.name.removeprefix(f"{component}/") if component else self.name

    @property
    def target(self) -> Target:
        """What it becomes, or None where it is kept."""
        return self.decision.target

    @property
    def codec(self) -> Codec | None:
        """What rounded its values to codes; None where the store has them exactly."""
        quant = self.quant
        if quant is None or self.transcoder.is_lossless:
            return None
        return codec_for(quant, self.dtype)

    @property
    def rounded_to(self) -> str:
        """The type that its values are rounded to; empty where they are kept exactly."""
        if self.transcoder.is_lossless:
            return ""
        return str(self.quant or self.target or "")

    @property
    def was_packed(self) -> str:
        """The type that the values are packed in in the source, or empty."""
        return self.sources[0].stored_as

    @property
    def blocks(self) -> str:
        """The type of the blocks that it is kept in, such as `Q4_K`, or empty."""
        made_by = self.transcoder
        return str(made_by.decoder) if isinstance(made_by, KeepBlocks) else ""

    @property
    def layer_dtype(self) -> str:
        """The dtype that its layer names: of packed values the source's."""
        is_packed = self.quant is not None or self.blocks
        return self.dtype if is_packed else self.parts[0].dtype

    @property
    def type_name(self) -> str:
        """The type or dtype that it has in the store."""
        quant = self.quant
        return str(quant) if quant is not None else self.blocks or self.parts[0].dtype

    @property
    def source_nbytes(self) -> int:
        """Bytes in the source."""
        return sum(source.nbytes for source in self.sources)


@functools.lru_cache(4096)
def _parts(transcoder: Transcoder, shape: tuple[int, ...]) -> tuple[tuple[Part, ...], int]:
    parts = transcoder.parts(shape)
    return parts, sum(part.nbytes for part in parts)


def _quant(transcoder: Transcoder, target: Target) -> QuantSpec | None:
    # What keeps codes or moves them has a codec; blocks of others are of no such type.
    spec = getattr(getattr(transcoder, "codec", None), "spec", target)
    return spec.stored if isinstance(spec, QuantSpec) else None


class BlobPlan(NamedTuple):
    """One blob: its tensors in the order of their data.

    Attributes:
        name: of the layer: a tensor's, or a group's.
        header: length and JSON header, as they will be written.
        nbytes: of the whole blob.
    """

    name: str
    tensors: tuple[TensorPlan, ...]
    is_group: bool
    header: bytes
    nbytes: int


class FilePlan(NamedTuple):
    """One kept file and the layer that it becomes."""

    file: SourceFile
    media_type: MediaType

    @property
    def name(self) -> str:
        """The file's relative path."""
        return self.file.path

    @property
    def layer_name(self) -> str:
        """Of the layer: none where the media type says it all."""
        return "" if self.media_type in NAMELESS else self.file.path

    @property
    def nbytes(self) -> int:
        """Bytes of the blob."""
        return self.file.size


Job = BlobPlan | FilePlan
"""What becomes one blob."""


class Weighed(NamedTuple):
    """What an importance matrix does for a plan.

    Attributes:
        digest: of its file.
        tensors: whose scales it decides.
        without: names of the tensors whose scales are searched for with columns that count
            alike, because nothing is known of them.
        unused: matrices that the texts never reached, such as experts, whose columns count
            alike, too.
    """

    digest: Digest
    tensors: int
    without: tuple[str, ...]
    unused: int


class Plan(NamedTuple):
    """What an import does.

    Attributes:
        blobs: sorted as in the manifest: tensors, then groups, each bytewise by name.
        files: kept byte for byte: whole models first, the others sorted by path.
        left_out: what is not, and why.
        warnings: sentences for the user.
        weighed: what an importance matrix does, or None where there is none.
        allocation: how types were chosen within a size, or None where none was asked for.
    """

    inventory: Inventory
    classification: Classification
    recipe: Recipe
    blobs: tuple[BlobPlan, ...]
    files: tuple[FilePlan, ...]
    warnings: tuple[str, ...]
    weighed: Weighed | None = None
    allocation: Allocation | None = None

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What does not become part of the model."""
        return self.inventory.left_out

    @property
    def tensors(self) -> Iterator[TensorPlan]:
        """Every tensor, blob by blob."""
        for blob in self.blobs:
            yield from blob.tensors

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Every blob that the import makes but the configuration, as in the manifest."""
        return (*self.blobs, *self.files)

    @property
    def nbytes(self) -> int:
        """Bytes of all blobs but the configuration."""
        return sum(job.nbytes for job in self.jobs)

    @property
    def quantizes(self) -> bool:
        """Whether a tensor is quantized."""
        return any(tensor.quant is not None for tensor in self.tensors)

    @property
    def rounds(self) -> bool:
        """Whether the values of a tensor are rounded, to codes or to a shorter float."""
        return any(tensor.rounded_to for tensor in self.tensors)

    @property
    def parameters(self) -> int | None:
        """Elements of floating tensors; None where packed weights were not understood."""
        return parameters_of(self.inventory)


def parameters_of(inventory: Inventory) -> int | None:
    """Count elements of floating tensors; None where packed weights were not understood."""
    if inventory.whole is not None:
        return inventory.whole.parameters
    if inventory.scheme is not None and not inventory.is_decoded:
        return None
    carried = carried_prefixes({file.path for file in inventory.files})
    floating = (
        tensor
        for tensor in inventory.tensors
        if is_parameter(tensor.name, tensor.dtype, tensor.shape)
        and not (carried and tensor.name.startswith(carried))
    )
    return sum(elements(tensor.shape) for tensor in floating)
