"""Decide what becomes of each tensor, which share a blob, and what the user must know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from importer.codecs.base import Part, Transcoder
from importer.codecs.registry import transcoder_for, type_held
from importer.planning.groups import joins, prefix_of, stacks_of
from importer.planning.plan import BlobPlan, FilePlan, Plan, TensorPlan
from importer.recipes.recipe import Decision, Packed, Recipe
from importer.recipes.rule import Depths
from importer.planning.layout import Shared, copies_of, packed, stack_name, stacked
from importer.planning.plan import BlobPlan, FilePlan, Plan, TensorPlan
from importer.recipes.depths import Depths
from importer.recipes.recipe import Decision, Recipe
from importer.sources.classification import Classification
from importer.sources.configuration import computed_in
from importer.sources.inventory import Inventory
from importer.sources.tensor import SourceTensor
from store import limits
from store.errors import InputError, UnsupportedError
from store.tensorblob import quant_metadata
from store.tensorfile import LENGTH_BYTES, encode_header


def make_plan(inventory: Inventory, classification: Classification, recipe: Recipe) -> Plan:
    """Decide what becomes of every tensor and file.

    Raises:
        InputError: two tensors would have one name; one does not fit, and that is an error.
        UsageError: a rule of the user's decides nothing.
        UnsupportedError: more tensors than a manifest may name, or quantized already.
    """
    _check_not_quantized(inventory, recipe)
    if inventory.is_decoded and (
        not recipe.is_plain or all(tensor.is_ours for tensor in inventory.tensors)
    ):
        classification = replace(classification, scheme=None)  # nothing is left of it
    _check_not_quantized(classification, recipe)
    copies = copies_of(inventory.tensors if recipe.stacked else ())
    tensors: list[TensorPlan] = []
    config = inventory.configs.get("", {})
    depths = Depths((tensor.name for tensor in inventory.tensors), config)
    decisions: dict[tuple[object, ...], Decision] = {}
    for tensor in inventory.tensors:
        decision = _decide(recipe, tensor, depths, inventory)
        # A few decisions serve 100 000 tensors. By index: a rule may have 100 globs.
        key = (decision.rule.index, *decision[2:], decision.target)
        decision = decisions.setdefault(key, decision)
        if tensor.is_ours or decision.target is not None:
            tensors.append(_plan_tensor(tensor.name, tensor.shape, (tensor,), decision))
        else:  # what a scheme made of several arrays stays those arrays
            arrays = (_plan_tensor(a.name, a.shape, (a,), decision) for a in tensor.stored())
            tensors += [array._replace(part_of=tensor) for array in arrays]
    if inventory.is_decoded and all(plan.part_of is None for plan in tensors):
        classification = replace(classification, scheme=None)  # nothing is left of it
        decision = _decide(recipe, tensor, depths, copies[stack_name(tensor)] or 1)
        # A few decisions serve 100 000 tensors. By index: a rule may have 100 globs.
        key = (decision.rule.index, *decision[2:], decision.target)
        decision = decisions.setdefault(key, decision)
        # What a scheme made of several arrays and nobody wants otherwise stays those arrays.
        is_whole = tensor.is_ours or decision.target is not None
        sources = (tensor,) if is_whole else tensor.stored()
        tensors += [TensorPlan.of(one.name, one.shape, (one,), decision) for one in sources]
    used = {decision.rule.index for decision in decisions.values()}
    recipe.check_used(used, [tensor.name for tensor in inventory.tensors])
    prequantized = classification.scheme is not None
    layout = (
        stacked(tensors)
        if recipe.stacked and not prequantized
        else packed(tensors, prequantized=prequantized)
    )
    _check_count(len(layout.blobs))
    blobs = [_plan_blob(blob) for blob in layout.blobs]
    _check_names(blobs)
    _check_keys(blobs)
    files = tuple(
        FilePlan(file, file.role.media_type)
        for file in inventory.files
        if file.role.media_type is not None
    )
    warnings = (*_warnings(blobs, inventory, recipe), *layout.notes)
    return Plan(inventory, classification, recipe, tuple(blobs), files, warnings)


def _decide(
    recipe: Recipe, tensor: SourceTensor, depths: Depths, inventory: Inventory
) -> Decision:
    """Decide what becomes of a tensor; the reason says what it was, if that was packed."""
    if tensor.is_plain:
        return recipe.decide(tensor.name, tensor.dtype, tensor.shape, depths)
    held_by = type_held(tensor.decoder, tensor.shape)
    packed = Packed(tensor.stored_as, held_by, computed_in(inventory.config_of(tensor)))
    decision = recipe.decide(tensor.name, tensor.dtype, tensor.shape, depths, packed)
    if decision.target is None:
def _decide(recipe: Recipe, tensor: SourceTensor, depths: Depths, copies: int) -> Decision:
    """Decide what becomes of a tensor; the reason says what it was, if that was packed."""
    decision = recipe.decide(
        tensor.name, tensor.dtype, tensor.shape, depths, is_plain=tensor.is_plain, copies=copies
    )
    if tensor.is_plain or decision.target is None:
        return decision
    same = str(decision.target) == packed.kind
    before = f"it is {packed.kind} already" if same else f"was {packed.kind}"
    return decision._replace(reason=f"{decision.reason}; {before}")


def _plan_tensor(
    name: str, shape: tuple[int, ...], sources: tuple[SourceTensor, ...], decision: Decision
) -> TensorPlan:
    decoder, target = sources[0].decoder, decision.target
    exact = target is not None and target == type_held(decoder, sources[0].shape)
    transcoder = transcoder_for(target, decoder, exact=exact)
    return TensorPlan(name, shape, sources, decision, transcoder, _parts(transcoder, shape))


@functools.lru_cache(4096)
def _parts(transcoder: Transcoder, shape: tuple[int, ...]) -> tuple[Part, ...]:
    return transcoder.parts(shape)


def _stack_all(tensors: list[TensorPlan]) -> tuple[list[TensorPlan], list[str]]:
    """Stack what experts have in common; say what cannot be stacked."""
    below: dict[str, list[TensorPlan]] = {}
    made: list[TensorPlan] = []
    notes: list[str] = []
    for plan in tensors:
        prefix = _prefix(plan)
        (made if prefix is None else below.setdefault(prefix, [])).append(plan)
    for prefix, members in below.items():
        stacked, told = _stack(prefix, members)
        made += stacked
        notes += told
    return sorted(made, key=_bytewise), notes


def _stack(group: str, members: list[TensorPlan]) -> tuple[Iterable[TensorPlan], list[str]]:
    # Each projection of all experts becomes one tensor [experts, ...].
    by_name = {member.name: member for member in members}
    notes = []
    for name, experts in stacks_of(group, by_name).items():
        if not experts:
            notes.append(f"the experts of `{name}` are not stacked: numbers are missing")
            continue
        plans = [by_name[expert] for expert in experts]
        first = plans[0]
        alike = {(plan.sources[0].decoder, plan.shape, plan.target) for plan in plans}
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
    return by_name.values(), notes


def _part(
    tensors: list[TensorPlan], *, prequantized: bool
) -> tuple[list[TensorPlan], dict[str, list[TensorPlan]]]:
    """Part tensors, which are sorted, into those with a blob of their own and groups."""
    singles: list[TensorPlan] = []
    groups: dict[str, list[TensorPlan]] = {}
    for plan in tensors:
        prefix = _prefix(plan)
        if prefix is None or not joins(plan.name, plan.shape, prequantized=prequantized):
            singles.append(plan)
        else:
            groups.setdefault(prefix, []).append(plan)
    # A single tensor is not a group.
    singles += [members[0] for members in groups.values() if len(members) == 1]
    groups = {name: members for name, members in groups.items() if len(members) > 1}
    return sorted(singles, key=_bytewise), groups


def _prefix(plan: TensorPlan) -> str | None:
    # Of the key: a component called `layers.0` is not a block.
    prefix = prefix_of(plan.key)
    return None if prefix is None else plan.name.removesuffix(plan.key) + prefix


def _bytewise(plan: TensorPlan) -> bytes:
    return plan.name.encode()


def _plan_blob(name: str, tensors: tuple[TensorPlan, ...], *, is_group: bool) -> BlobPlan:
def _plan_blob(blob: Shared) -> BlobPlan:
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


def _declared(plan: TensorPlan) -> tuple[str, tuple[str, int] | None]:
    quant = plan.quant
    return plan.key, None if quant is None else (quant.name, quant.group_size)


def _check_not_quantized(inventory: Inventory, recipe: Recipe) -> None:
    if inventory.scheme is not None and not inventory.is_decoded and not recipe.is_plain:
        raise UnsupportedError(
            f"the source is quantized already ({inventory.scheme})",
            code="E_PREQUANTIZED",
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
                    facts={"quantized": made[plan.name]},
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
    twice = [plan for plan in plans if plan.codec is not None and plan.was_packed]
    if twice:
        first = twice[0]
        yield (
            f"{len(twice)} of {len(plans)} tensors are quantized a second time, on top of what "
            f"the first time lost; the first is `{first.name}`, was {first.was_packed}"
        )
    if not recipe.is_plain and all(plan.target is None for plan in plans):
        yield "no tensor becomes another type: the plan says why for each"
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
