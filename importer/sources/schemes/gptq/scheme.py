"""Weights that GPTQ or AWQ quantized: qweight, qzeros, scales and g_idx are one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.schemes.base import Clue
from importer.sources.schemes.gptq.arrays import PACKED, QWEIGHT, layers_of
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor


class Gptq:
    """`qweight`, `qzeros`, `scales` and `g_idx`, as GPTQModel, AutoGPTQ and AutoAWQ have them.

    Attributes:
        is_awq: whether it is those that config.json declares to be AWQ, which is all that
            tells them apart by their names.
    """

    decodes: Final = True

    def __init__(self, *, is_awq: bool) -> None:
        self.is_awq: Final = is_awq

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array has packed codes."""
        if clue.last != QWEIGHT or clue.dtype not in PACKED:
            return False
        return (clue.method == "awq") == self.is_awq

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor, `X.weight`, of the arrays of each layer.

        Args:
            tensors: of one directory.
            config: its `config.json`, in whose `quantization_config` bits and groups are said.

        Raises:
            InputError: parts are missing, or their shapes, the groups of their columns or the
                configuration contradict each other.
            UnsupportedError: a layout that is not decoded, or that nothing decides.
        """
        layers = list(layers_of(tensors))
        block = config.get("quantization_config")
        method = block.get("quant_method") if isinstance(block, dict) else None
        if not layers or (method == "awq") != self.is_awq:
            return tensors
        from importer.sources.schemes.gptq.layers import join_layers  # noqa: PLC0415 - as above

        made = join_layers(layers, config, {tensor.name for tensor in tensors})
        joined = (made.get(tensor.name, tensor) for tensor in tensors)
        return [tensor for tensor in joined if tensor is not None]
