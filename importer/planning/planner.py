"""Decide what becomes of each tensor, which share a blob, and what the user must know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from importer.codecs.cast import Rounded
from importer.codecs.registry import type_held
from importer.codecs.spec import DECODE, QuantSpec, Target
from importer.planning.layout import Layout, Shared, copies_of, packed, stack_name, stacked
from importer.planning.plan import BlobPlan, FilePlan, Plan, TensorPlan, Weighed
from importer.planning.warnings import warnings_of
from importer.recipes.depths import Depths
from importer.recipes.recipe import PLAIN, Decision, Packed, Recipe
from importer.recipes.rule import Rule
from importer.sources.carried import carried_prefixes
from importer.sources.classification import Classification
from importer.sources.configuration import declared_dtype
from importer.sources.inventory import Inventory
from importer.sources.tensor import SourceTensor
from importer.sources.whole import WholeModel
from store import limits
from store.errors import InputError, UnsupportedError
from store.tensorblob import QuantFacts, quant_metadata
from store.tensorfile import encode_header
from store.text import printable

if TYPE_CHECKING:  # few imports have a matrix
    from importer.sources.imatrix import MatrixFile

_USUAL: Final = "BF16"
"""What models compute in whose configuration does not say."""
_HALVES: Final = ("BF16", "F16")


def make_plan(
    inventory: Inventory,
    classification: Classification,
    recipe: Recipe,
    matrix: MatrixFile | None = None,
) -> Plan:
    """Decide what becomes of every tensor and file.

    Args:
        inventory: of the source.
        classification: of the source.
        recipe: what was asked for.
        matrix: how much columns count where scales are searched for; it becomes a layer.

    Raises:
        InputError: two tensors would have one name; one does not fit, and that is an error.
        UsageError: a rule of the user's decides nothing.
        UnsupportedError: more tensors than a manifest may name, or quantized already.
    """
    if inventory.whole is not None:
        return _keep_whole(inventory, inventory.whole, classification, recipe)
    _check_not_quantized(inventory, recipe)
    copies = copies_of(inventory.tensors if recipe.stacked else ())
    tensors: list[TensorPlan] = []
    arrays: set[str] = set()
    config = inventory.configs.get("", {})
    depths = Depths((tensor.name for tensor in inventory.tensors), config)
    carried = carried_prefixes({file.path for file in inventory.files})
    decisions: dict[tuple[object, ...], Decision] = {}
    for tensor in inventory.tensors:
        if carried and tensor.name.startswith(carried):
            tensors.append(TensorPlan.of(tensor.name, tensor.shape, (tensor,), _CARRIED))
            continue
        decision = _decide(recipe, tensor, depths, inventory, copies[stack_name(tensor)] or 1)
        # A few decisions serve 100 000 tensors. By index: a rule may have 100 globs.
        key = (decision.rule.index, *decision[2:], decision.target)
        decision = decisions.setdefault(key, decision)
        if tensor.is_ours or decision.target is not None:
            source = _rounded(tensor, decision, inventory)
            tensors.append(TensorPlan.of(tensor.name, tensor.shape, (source,), decision))
        else:  # what a scheme made of several arrays stays those arrays
            for one in tensor.stored():
                # Several weights may have one array of zero points, or of scales.
                if one.name not in arrays:
                    plan = TensorPlan.of(one.name, one.shape, (one,), decision)
                    tensors.append(plan._replace(part_of=tensor))
                arrays.add(one.name)
    if inventory.is_decoded and all(plan.part_of is None for plan in tensors):
        classification = classification._replace(scheme=None)  # nothing is left of it
    used = {decision.rule.index for decision in decisions.values()}
    notes = recipe.check_used(used, [tensor.name for tensor in inventory.tensors])
    prequantized = classification.scheme is not None
    layout = (
        stacked(tensors)
        if recipe.stacked and not prequantized
        else packed(tensors, prequantized=prequantized)
    )
    _check_count(len(layout.blobs))
    weighed = None
    if matrix is not None:
        layout, weighed = _weighed(layout, matrix, inventory, classification)
    blobs = [plan_blob(blob) for blob in layout.blobs]
    check_blobs(blobs)
    warnings = (*warnings_of(blobs, inventory, recipe), *notes, *layout.notes)
    if matrix is not None:
        inventory = inventory._replace(files=(*inventory.files, matrix.file))
    files = tuple(_kept_files(inventory))
    return Plan(inventory, classification, recipe, tuple(blobs), files, warnings, weighed)


def _weighed(
    layout: Layout, matrix: MatrixFile, inventory: Inventory, classification: Classification
) -> tuple[Layout, Weighed]:
    """Let every tensor whose scales are searched for have the importance of its columns."""
    from importer.planning.importance import Weigher, notes_of  # noqa: PLC0415 - few have one

    weigher = Weigher(matrix, inventory.tensors, classification.family)
    blobs = tuple(
        blob._replace(tensors=tuple(map(weigher.weigh, blob.tensors))) for blob in layout.blobs
    )
    weighed = weigher.result()
    return Layout(blobs, (*layout.notes, *notes_of(weighed))), weighed


def plan_as(tensor: SourceTensor, target: Target, inventory: Inventory) -> TensorPlan | None:
    """Return the plan of a tensor that becomes `target`; None where it does not fit that.

    Of packed values None is a target, too: that of the dtype that the model computes in.
    """
    if target is None and not tensor.is_plain:
        target = DECODE
    recipe = Recipe("", (Rule(("*",), target, ""),))
    decision = _decide(recipe, tensor, _NO_DEPTHS, inventory, 1)
    if not decision.fits:
        return None
    source = _rounded(tensor, decision, inventory)
    return TensorPlan.of(tensor.name, tensor.shape, (source,), decision)


_NO_DEPTHS: Final = Depths(())


def _keep_whole(
    inventory: Inventory, whole: WholeModel, classification: Classification, recipe: Recipe
) -> Plan:
    """Plan a layer for each file of weights, and no tensor."""
    files = (*(FilePlan(*layer) for layer in whole.layers), *_kept_files(inventory))
    return Plan(inventory, classification, recipe, (), files, inventory.notes)


def _kept_files(inventory: Inventory) -> Iterator[FilePlan]:
    for file in inventory.files:
        if file.role.media_type is not None:
            yield FilePlan(file, file.role.media_type)


_CARRIED: Final = Decision(None, PLAIN.rules[0], "of a model that this one carries")


def _decide(
    recipe: Recipe, tensor: SourceTensor, depths: Depths, inventory: Inventory, copies: int
) -> Decision:
    """Decide what becomes of a tensor; the reason says what it was, if that was packed."""
    if tensor.is_plain:
        return recipe.decide(tensor.name, tensor.dtype, tensor.shape, depths, copies=copies)
    held_by = type_held(tensor.decoder, tensor.shape)
    stored = Packed(tensor.stored_as, held_by, _computed_in(tensor, inventory))
    decision = recipe.decide(
        tensor.name, tensor.dtype, tensor.shape, depths, stored, copies=copies
    )
    if decision.target is None:
        return decision
    same = str(decision.target) == stored.kind
    before = f"it is {stored.kind} already" if same else f"was {stored.kind}"
    return decision._replace(reason=f"{decision.reason}; {before}")


def _rounded(tensor: SourceTensor, decision: Decision, inventory: Inventory) -> SourceTensor:
    """Return a tensor that is read in the model's dtype, if it is to be quantized anew.

    Products of codes and scales are exact in F32, which is not a dtype that the model had.
    """
    target, dtype = decision.target, _computed_in(tensor, inventory)
    is_exact = tensor.is_plain or target == type_held(tensor.decoder, tensor.shape)
    if is_exact or not isinstance(target, QuantSpec) or tensor.dtype in {dtype, *_HALVES}:
        return tensor
    return tensor._replace(decoder=Rounded(tensor.decoder, dtype))


def _computed_in(tensor: SourceTensor, inventory: Inventory) -> str:
    return declared_dtype(inventory.config_of(tensor)) or _USUAL


def plan_blob(blob: Shared) -> BlobPlan:
    """Return the plan of a blob: its header, and its exact size."""
    entries = [
        (plan.key + part.suffix, part.dtype, part.shape, part.nbytes)
        for plan in blob.tensors
        for part in plan.parts
    ]
    # Stacks are all of one type, and Ollama says it once.
    told = blob.tensors[:1] if blob.is_stacked else blob.tensors
    header = encode_header(entries, quant_metadata(map(_declared, told)))
    nbytes = len(header) + sum(plan.nbytes for plan in blob.tensors)
    return BlobPlan(blob.name, blob.tensors, blob.is_group, header, nbytes)


def _declared(plan: TensorPlan) -> tuple[str, QuantFacts | None]:
    if plan.blocks:
        return plan.key, (plan.blocks, None)
    quant = plan.quant
    return plan.key, None if quant is None else (quant.name, quant.group_size)


def _check_not_quantized(inventory: Inventory, recipe: Recipe) -> None:
    if inventory.scheme is None or inventory.is_decoded or recipe.is_plain:
        return
    left = next((tensor for tensor in inventory.tensors if tensor.unjoined), None)
    why = "" if left is None else f": `{printable(left.name)}` is not decoded, {left.unjoined}"
    raise UnsupportedError(
        f"the source is quantized already ({inventory.scheme}){why}", code="E_PREQUANTIZED"
    )


def _check_count(blobs: int) -> None:
    # Before their headers are made, which takes 10 s for a million.
    if blobs > limits.TENSOR_LAYERS:
        raise UnsupportedError(
            f"{blobs} blobs, a manifest names at most {limits.TENSOR_LAYERS}",
            code="E_LIMIT",
        )


def check_blobs(blobs: Sequence[BlobPlan]) -> None:
    """Make sure that no two layers, and no two arrays, have one name.

    Raises:
        InputError: two have.
    """
    _check_names(blobs)
    _check_keys(blobs)


def _check_names(blobs: Sequence[BlobPlan]) -> None:
    seen: set[str] = set()
    for blob in blobs:
        if blob.name in seen:
            raise InputError(
                f"tensor `{blob.name}` has the name of a group of experts",
                code="E_NAME_COLLISION",
            )
        seen.add(blob.name)


def _check_keys(blobs: Sequence[BlobPlan]) -> None:
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
                    facts={"quantized": made[plan.name]},
                )
