"""Every decision of an import, made before the first weight is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from importer.classify import Classification
from importer.codecs import Codec, Part, codec_for
from importer.groups import group_of
from importer.inventory import Inventory
from importer.prequantized import is_floating
from importer.quant import QuantSpec
from importer.recipe import Recipe
from importer.sources.kept import media_type
from importer.sources.safetensors import SourceTensor
from importer.sources.tree import LeftOut, SourceFile
from store import MediaType, limits
from store.errors import InputError, UnsupportedError
from store.tensorfile import LENGTH_BYTES, elements, encode_header

_METADATA_KEYS: Final = ("quant_type", "group_size")


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """What becomes of one tensor.

    Attributes:
        name: in the blob.
        dtype: of the source.
        shape: in elements, of what the sources are together.
        sources: whose bytes follow each other; more than one where experts are stacked.
        quant: its new type, or None where it is kept.
        reason: why.
        parts: the arrays that it becomes, in the order of the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    sources: tuple[SourceTensor, ...]
    quant: QuantSpec | None
    reason: str
    codec: Codec
    parts: tuple[Part, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class BlobPlan:
    """One blob: its tensors in the order of their data.

    Attributes:
        name: of the layer: a tensor's, or a group's.
        header: length and JSON header, as they will be written.
        nbytes: of the whole blob.
    """

    name: str
    tensors: tuple[TensorPlan, ...]
    is_group: bool
    header: bytes = field(repr=False)
    nbytes: int


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One kept file and the layer that it becomes."""

    file: SourceFile
    media_type: MediaType

    @property
    def nbytes(self) -> int:
        """Bytes of the blob."""
        return self.file.size


@dataclass(frozen=True, slots=True)
class Plan:
    """What an import does.

    Attributes:
        blobs: sorted as in the manifest: tensors, then groups, each bytewise by name.
        files: kept byte for byte, sorted by path.
        left_out: what is not, and why.
        warnings: sentences for the user.
    """

    inventory: Inventory
    classification: Classification
    recipe: Recipe
    blobs: tuple[BlobPlan, ...]
    files: tuple[FilePlan, ...]
    warnings: tuple[str, ...]

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
    def jobs(self) -> tuple[BlobPlan | FilePlan, ...]:
        """Every blob that the import makes but the configuration, as in the manifest."""
        return (*self.blobs, *self.files)

    @property
    def nbytes(self) -> int:
        """Bytes of all blobs but the configuration."""
        return sum(job.nbytes for job in self.jobs)

    @property
    def parameters(self) -> int | None:
        """Elements of floating tensors; None where the source is quantized already."""
        if self.classification.scheme is not None:
            return None
        floating = (t for t in self.inventory.tensors if is_floating(t.dtype))
        return sum(elements(tensor.shape) for tensor in floating)


def make_plan(inventory: Inventory, classification: Classification, recipe: Recipe) -> Plan:
    """Decide what becomes of every tensor and file.

    Raises:
        InputError: two blobs would have one name.
        UnsupportedError: more tensors than a manifest may name.
    """
    singles: list[TensorPlan] = []
    groups: dict[str, list[TensorPlan]] = {}
    for tensor in inventory.tensors:
        planned = _plan_tensor(tensor, recipe)
        group = _group_of(tensor)
        if group is None:
            singles.append(planned)
        else:
            groups.setdefault(group, []).append(planned)
    _check_count(len(singles) + len(groups))
    blobs = [_plan_blob(plan.name, (plan,), is_group=False) for plan in singles]
    order = sorted(groups, key=lambda name: name.encode())
    blobs += [_plan_blob(name, tuple(groups[name]), is_group=True) for name in order]
    _check_names(blobs)
    files = tuple(FilePlan(file, media_type(file.path)) for file in inventory.files)
    warnings = tuple(_warnings(blobs, inventory))
    return Plan(inventory, classification, recipe, tuple(blobs), files, warnings)


def _plan_tensor(tensor: SourceTensor, recipe: Recipe) -> TensorPlan:
    rule = recipe.decide(tensor.name)
    codec = codec_for(rule.quant, tensor.dtype)
    return TensorPlan(
        tensor.name,
        tensor.dtype,
        tensor.shape,
        (tensor,),
        rule.quant,
        rule.reason,
        codec,
        codec.parts(tensor.shape),
    )


def _group_of(tensor: SourceTensor) -> str | None:
    # On the tensor's own name: a component called `layers.0` is no block.
    group = group_of(tensor.own_name)
    if group is None or not tensor.component:
        return group
    return f"{tensor.component}/{group}"


def _plan_blob(name: str, tensors: tuple[TensorPlan, ...], *, is_group: bool) -> BlobPlan:
    entries = [
        (plan.name + part.suffix, part.dtype, part.shape, part.nbytes)
        for plan in tensors
        for part in plan.parts
    ]
    header = encode_header(entries, _metadata(tensors))
    nbytes = len(header) + sum(plan.nbytes for plan in tensors)
    return BlobPlan(name, tensors, is_group, header, nbytes)


def _metadata(tensors: tuple[TensorPlan, ...]) -> dict[str, str]:
    quantized = {plan.name: plan.quant for plan in tensors if plan.quant is not None}
    kinds = set(quantized.values())
    if len(kinds) == 1:
        return dict(zip(_METADATA_KEYS, _facts(kinds.pop()), strict=True))
    return {
        f"{name}.{key}": fact
        for name, quant in quantized.items()
        for key, fact in zip(_METADATA_KEYS, _facts(quant), strict=True)
    }


def _facts(quant: QuantSpec) -> tuple[str, str]:
    return quant.name, str(quant.group_size)


def _check_count(blobs: int) -> None:
    # Before their headers are made, which takes 10 s for a million.
    if blobs > limits.TENSOR_LAYERS:
        raise UnsupportedError(
            f"{blobs} blobs, a manifest names at most {limits.TENSOR_LAYERS}",
            code="E_LIMIT",
        )


def _check_names(blobs: list[BlobPlan]) -> None:
    seen: set[str] = set()
    for blob in blobs:
        if blob.name in seen:
            raise InputError(
                f"tensor `{blob.name}` has the name of a group of experts",
                code="E_NAME_COLLISION",
            )
        seen.add(blob.name)


def _warnings(blobs: list[BlobPlan], inventory: Inventory) -> Iterator[str]:
    yield from inventory.notes
    for blob in blobs:
        if len(blob.header) - LENGTH_BYTES > limits.SMALL_READER_HEADER:
            yield (
                f"the header of `{blob.name}` has {len(blob.header)} bytes, and one of "
                f"Ollama's readers refuses more than {limits.SMALL_READER_HEADER}"
            )
    empty = [tensor.name for tensor in inventory.tensors if not tensor.nbytes]
    if empty:
        more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        yield f"tensor `{empty[0]}`{more} has no elements"
