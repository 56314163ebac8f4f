"""The tensors of a model that stayed as they were because they do not fit their rule."""

from __future__ import annotations

from typing import Final, NamedTuple

from importer.models.description import Description
from importer.sources.dtypes import is_floating
from importer.sources.stored.tensors import StoredTensor
from store.errors import IngotError

_LARGEST_GROUP: Final = 128
_MATRIX: Final = 2


class Fallback(NamedTuple):
    """A tensor that is not of the type that its rule wants, and why."""

    tensor: StoredTensor
    reason: str

    @property
    def name(self) -> str:
        """Of the tensor."""
        return self.tensor.name


def fallbacks_of(model: Description) -> list[Fallback]:
    """Return the tensors that the recorded recipe wants quantized and that are not.

    A tensor whose rows every group divides cannot be one, so that few models cost more than a
    look at their shapes.
    """
    if model.record.recipe is None or model.prequantized is not None:
        return []
    plain = [tensor for tensor in model.tensors if _may_be_one(tensor)]
    if not plain or not any(tensor.quant for tensor in model.tensors):
        return []
    from importer.codecs.spec import QuantSpec  # noqa: PLC0415 - `show` starts quickly
    from importer.recipes.depths import Depths  # noqa: PLC0415
    from importer.recipes.document import from_document  # noqa: PLC0415

    found = []
    try:
        recipe = from_document(model.record.recipe)
        depths = Depths((tensor.name for tensor in model.tensors), model.source)
        for one in plain:
            decision = recipe.decide(one.name, one.dtype, one.shape, depths)
            if not decision.fits and isinstance(decision.rule.target, QuantSpec):
                found.append(Fallback(one, decision.reason))
    except IngotError:
        return []  # what is recorded has rotted
    return found


def _may_be_one(tensor: StoredTensor) -> bool:
    return (
        tensor.quant is None
        and is_floating(tensor.dtype)
        and len(tensor.shape) >= _MATRIX
        and bool(tensor.shape[-1] % _LARGEST_GROUP)
    )
