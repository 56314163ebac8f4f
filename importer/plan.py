"""Every decision of an import, made before the first weight is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from importer.classify import Classification
from importer.codecs import Codec, Part, codec_for
from importer.groups import group_of, stacks_of
from importer.inventory import Inventory
from importer.prequantized import is_floating
from importer.quant import QuantSpec, Target
from importer.recipe import Decision, Depths, Recipe
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
        decision: what it becomes, and why.
        parts: the arrays that it becomes, in the order of the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    sources: tuple[SourceTensor, ...]
    decision: Decision
    codec: Codec
    parts: tuple[Part, ...]

    @property
    def target(self) -> Target:
        """What it becomes, or None where it is kept."""
        return self.decision.target

    @property
    def quant(self) -> QuantSpec | None:
        """Its quantization type, or None."""
        return self.target if isinstance(self.target, QuantSpec) else None

    @property
    def type_name(self) -> str:
        """The type or dtype that it has in the store."""
        return self.parts[0].dtype if self.quant is None else str(self.quant)

    @property
    def source_nbytes(self) -> int:
        """Bytes in the source."""
        return sum(source.nbytes for source in self.sources)

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
    def misfits(self) -> list[TensorPlan]:
        """Tensors that are kept though their rule wants something else."""
        return [plan for plan in self.tensors if not plan.decision.fits]

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
        InputError: two tensors would have one name; one does not fit, and that is an error.
        UsageError: a rule of the user's decides nothing.
        UnsupportedError: more tensors than a manifest may name, or quantized already.
    """
    _check_floating(classification, recipe)
    singles: list[TensorPlan] = []
    groups: dict[str, list[TensorPlan]] = {}
    depths = Depths(tensor.name for tensor in inventory.tensors)
    used = {}
    for tensor in inventory.tensors:
        decision = recipe.decide(tensor.name, tensor.dtype, tensor.shape, depths)
        used[id(decision.rule)] = decision.rule
        planned = _plan_tensor(tensor.name, tensor.shape, (tensor,), decision)
        group = _group_of(tensor)
        if group is None:
            singles.append(planned)
        else:
            groups.setdefault(group, []).append(planned)
    recipe.check_used(used.values(), [tensor.name for tensor in inventory.tensors])
    _check_count(len(singles) + len(groups))
    notes = []
    if recipe.stacked:
        for name, members in groups.items():
            groups[name], note = _stack(name, members)
            notes += note
    blobs = [_plan_blob(plan.name, (plan,), is_group=False) for plan in singles]
    order = sorted(groups, key=lambda name: name.encode())
    blobs += [_plan_blob(name, tuple(groups[name]), is_group=True) for name in order]
    _check_names(blobs)
    _check_keys(blobs)
    files = tuple(FilePlan(file, media_type(file.path)) for file in inventory.files)
    warnings = (*_warnings(blobs, inventory, recipe), *notes)
    return Plan(inventory, classification, recipe, tuple(blobs), files, warnings)


def _plan_tensor(
    name: str, shape: tuple[int, ...], sources: tuple[SourceTensor, ...], decision: Decision
) -> TensorPlan:
    dtype = sources[0].dtype
    codec = codec_for(decision.target, dtype)
    return TensorPlan(name, dtype, shape, sources, decision, codec, codec.parts(shape))


def _stack(group: str, members: list[TensorPlan]) -> tuple[list[TensorPlan], list[str]]:
    # Each projection of all experts becomes one tensor [experts, ...].
    by_name = {member.name: member for member in members}
    notes = []
    for name, experts in stacks_of(group, by_name).items():
        plans = [by_name[expert] for expert in experts]
        first = plans[0]
        alike = {(plan.dtype, plan.shape, plan.target) for plan in plans}
        if len(alike) > 1:
            notes.append(f"the experts of `{name}` are not stacked: they are not all alike")
            continue
        if name in by_name:
            notes.append(f"the experts of `{name}` are not stacked: there is such a tensor")
            continue
        for expert in experts:
            del by_name[expert]
        sources = tuple(source for plan in plans for source in plan.sources)
        shape = (len(plans), *first.shape)
        by_name[name] = _plan_tensor(name, shape, sources, first.decision)
    return [by_name[name] for name in sorted(by_name, key=str.encode)], notes


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


def _check_floating(classification: Classification, recipe: Recipe) -> None:
    if classification.scheme is not None and not recipe.is_plain:
        raise UnsupportedError(
            f"the source is quantized already ({classification.scheme})",
            code="E_PREQUANTIZED",
            hint="Import it as it is, without `-q`, `--recipe` and rules, or quantize the "
            "original checkpoint",
        )


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


def _check_keys(blobs: list[BlobPlan]) -> None:
    # Readers put all tensors of a model into one dictionary: `w.scale` is the scales of `w`.
    made = {
        plan.name + part.suffix: plan.name
        for blob in blobs
        for plan in blob.tensors
        for part in plan.parts[1:]
    }
    if not made:
        return
    for blob in blobs:
        for plan in blob.tensors:
            if plan.name in made:
                raise InputError(
                    f"tensor `{plan.name}` has the name that a part of `{made[plan.name]}` "
                    "gets when that is quantized",
                    code="E_NAME_COLLISION",
                    hint=f"Keep the latter: --rule '{made[plan.name]}=keep'",
                )


def _warnings(blobs: list[BlobPlan], inventory: Inventory, recipe: Recipe) -> Iterator[str]:
    yield from inventory.notes
    plans = [plan for blob in blobs for plan in blob.tensors]
    misfits = [plan for plan in plans if not plan.decision.fits]
    if misfits:
        first = misfits[0]
        yield (
            f"{len(misfits)} of {len(plans)} tensors stay as they are because they do not fit "
            f"their rule; the first is `{first.name}` {list(first.shape)}: "
            f"{first.decision.reason}"
        )
    if not recipe.is_plain and all(plan.target is None for plan in plans):
        yield "no tensor becomes another type: `--dry-run` says why for each"
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
