"""Weights that bitsandbytes quantized: a weight and its quantization state are one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.schemes.base import Clue
from importer.sources.schemes.bitsandbytes.arrays import SCB, STATE, weights_of
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor


class Bitsandbytes:
    """4 bits, `X.weight` with `X.weight.absmax` and others; int8, `X.weight` with `X.SCB`."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array is the state of 4 bits, or the scales of int8."""
        is_int8 = clue.last == SCB and f"{clue.stem}.weight" in clue.dtypes
        return is_int8 or STATE in clue.name

    def join(
        self,
        tensors: Sequence[SourceTensor],
        config: Mapping[str, Json],  # noqa: ARG002 - the states of weights say it all
    ) -> Sequence[SourceTensor]:
        """Make one tensor of each weight and its state.

        Raises:
            InputError: parts are missing, or contradict what the state says.
            UnsupportedError: a type that is not decoded.
        """
        found = list(weights_of(tensors))
        if not found:
            return tensors
        from importer.sources.schemes.bitsandbytes.states import join_weights  # noqa: PLC0415 - as above

        made = join_weights(found)
        joined = (made.get(tensor.name, tensor) for tensor in tensors)
        return [tensor for tensor in joined if tensor is not None]
