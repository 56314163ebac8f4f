"""What the user must know of a plan before it is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from importer.planning.outcome import Outcome, outcomes_of
from importer.planning.plan import BlobPlan, parameters_of
from importer.recipes.recipe import Recipe
from importer.sources.adapter import adapter_of
from importer.sources.file_metadata import fits_record
from importer.sources.inventory import Inventory
from importer.sources.parameters import ACTIVATIONS
from store import limits
from store.tensorfile import LENGTH_BYTES
from store.text import count

_TWO_BITS: Final = 2
_COHERENT: Final = 1_000_000_000
"""Parameters below which 2 bits are for tests of kernels, as those say who ship such models."""


def warnings_of(
    blobs: Sequence[BlobPlan], inventory: Inventory, recipe: Recipe
) -> Iterator[str]:
    """Yield a sentence for each thing that may surprise: notes, misfits, what is lost twice."""
    adapter = adapter_of(inventory)
    if adapter is not None:
        yield adapter
    yield from inventory.notes
    if not fits_record(inventory.metadata) and not inventory.is_apart:
        yield "what the files of weights say about themselves is too much to be kept"
    plans = [plan for blob in blobs for plan in blob.tensors]
    outcomes = outcomes_of(blobs)
    yield from misfit_warning(outcomes)
    twice = [plan for plan in plans if plan.codec is not None and plan.was_packed]
    if twice:
        first = twice[0]
        verb, before = ("is", ": ") if len(twice) == 1 else ("are", "; the first, ")
        after = "" if len(twice) == 1 else ","
        yield (
            f"{len(twice)} of {len(plans)} tensors {verb} quantized a second time, which loses "
            f"more{before}`{first.name}`{after} was {first.was_packed}"
        )
    few = [
        plan for plan in plans if plan.codec is not None and plan.codec.spec.bits == _TWO_BITS
    ]
    parameters = parameters_of(inventory)
    if few and parameters is not None and parameters < _COHERENT:
        yield (
            f"{len(few)} of {len(plans)} tensors get 2 bits, and the model has {parameters:,} "
            f"parameters: below {_COHERENT:,} it is rarely of use then; mixed_2_6 and int3 "
            "are better choices"
        )
    activations = [plan for plan in plans if plan.name.endswith(ACTIVATIONS)]
    if activations and not recipe.is_plain and inventory.scheme is not None:
        yield (
            f"{count(len(activations), 'tensor')} scaled activations of the quantized model, "
            f"of no use to another type; the first is `{activations[0].name}`"
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
        told = (
            f"tensor `{empty[0]}` has"
            if len(empty) == 1
            else f"tensors `{empty[0]}` and {len(empty) - 1} more have"
        )
        yield f"{told} no elements"


def misfit_warning(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield how many tensors are not quantized, against their rules."""
    misfits = [outcome for outcome in outcomes if not outcome.decision.fits]
    if misfits:
        one = misfits[0]
        kept = (
            "does not fit its rule and is not quantized: "
            if len(misfits) == 1
            else "do not fit their rules and are not quantized; the first is "
        )
        yield (
            f"{len(misfits)} of {len(outcomes)} tensors {kept}`{one.name}` {list(one.shape)}: "
            f"{one.decision.reason}"
        )
