"""What becomes of each logical tensor of a plan, in however many blobs it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from importer.planning.plan import BlobPlan, TensorPlan
from importer.recipes.recipe import Decision
from store.errors import InputError
from store.text import count

_SHOWN: Final = 10
"""Tensors that one message names."""


class Outcome(NamedTuple):
    """What one logical tensor becomes, in however many blobs.

    Attributes:
        name: in the model, component included.
        type_name: the type or dtype that it has in the store, such as `int4` or `gptq int4`.
        group_size: elements that share a scale, if it is quantized to a type of the store.
        packed: the type that its values are packed in in the source, or empty.
        layers: the names of the layers that it is in.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    type_name: str
    group_size: int | None
    packed: str
    decision: Decision
    source_nbytes: int
    nbytes: int
    layers: tuple[str, ...]


def outcomes_of(blobs: Iterable[BlobPlan]) -> list[Outcome]:
    """Return what becomes of each logical tensor, in the order of the blobs."""
    found: dict[str, Outcome] = {}
    for blob in blobs:
        for plan in blob.tensors:
            made = _outcome(plan, blob.name)
            if (before := found.get(made.name)) is not None:
                made = before._replace(
                    source_nbytes=before.source_nbytes + made.source_nbytes,
                    nbytes=before.nbytes + made.nbytes,
                    layers=(*before.layers, *made.layers),
                )
            found[made.name] = made
    return list(found.values())


def _outcome(plan: TensorPlan, layer: str) -> Outcome:
    whole = plan.part_of
    return Outcome(
        plan.name if whole is None else whole.name,
        plan.dtype if whole is None else whole.dtype,
        plan.shape if whole is None else whole.shape,
        plan.type_name if whole is None else whole.stored_as,
        plan.quant.group_size if plan.quant else None,
        plan.was_packed if whole is None else whole.stored_as,
        plan.decision,
        plan.source_nbytes,
        plan.nbytes,
        (layer,),
    )


def misfits_of(blobs: Iterable[BlobPlan]) -> list[Outcome]:
    """Return the tensors that do not become what their rule wants."""
    return [outcome for outcome in outcomes_of(blobs) if not outcome.decision.fits]


def check_fits(blobs: Iterable[BlobPlan]) -> None:
    """Raise InputError where a tensor does not become what its rule wants."""
    if misfits := misfits_of(blobs):
        shown = ", ".join(f"`{one.name}` ({one.decision.reason})" for one in misfits[:_SHOWN])
        more = f" and {len(misfits) - _SHOWN:,} more" if len(misfits) > _SHOWN else ""
        verb = "does not fit its rule" if len(misfits) == 1 else "do not fit their rules"
        raise InputError(
            f"{count(len(misfits), 'tensor')} {verb}: {shown}{more}",
            code="E_STRICT",
        )
