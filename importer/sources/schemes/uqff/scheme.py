"""The layers of UQFF: data, and small entries beside them that say how it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.formats.uqff.names import is_shard
from importer.sources.schemes.base import Clue
from store.errors import InputError
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

_TAG: Final = ".weight.format"
_TAG_DTYPE: Final = "U8"
_VERSION: Final = "uqff.version.major"


class Uqff:
    """Layers as mistral.rs writes them, each with the tag of its family."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array is the tag of a layer."""
        return clue.dtype == _TAG_DTYPE and clue.name.endswith(_TAG)

    def join(
        self, tensors: Sequence[SourceTensor], _: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor of each layer; what no type of the store holds keeps its entries.

        Args:
            tensors: of one directory.

        Raises:
            InputError: entries are missing, or contradict each other.
            UnsupportedError: a family, or a form of one, that mistral.rs does not read.
        """
        if not any(map(_is_of_uqff, tensors)):
            return tensors
        if version := next((one for one in tensors if one.own_name == _VERSION), None):
            raise InputError(
                f"`{version.file.path}` is a shard of UQFF, expected weights in safetensors",
                code="E_UQFF_SHARD",
                hint="Name it as mistral.rs does: `q4k-0.uqff`, beside `residual.safetensors`",
            )
        from importer.sources.schemes.uqff.layers import join_layers  # noqa: PLC0415

        return join_layers(tensors)


def _is_of_uqff(tensor: SourceTensor) -> bool:
    # By the name first: a model may have 250 000 tensors.
    if not tensor.name.endswith((_TAG, _VERSION)):
        return False
    is_tag = tensor.dtype == _TAG_DTYPE and not tensor.shape
    return is_tag or is_shard(tensor.file.path) or tensor.own_name == _VERSION
