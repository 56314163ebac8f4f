"""AFQ and MXFP4 as mistral.rs encodes them: the store's groups, other arithmetic."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from importer.codecs.base import Encoded, KernelSpec, Operation, Part, Runtime, Shape
from importer.codecs.grouped import Grouped
from importer.codecs.spec import Mode, QuantSpec
from store.fs import Buffer

if TYPE_CHECKING:
    from importer.codecs.reference import Arithmetic

_MODULES: Final[Mapping[Mode, str]] = MappingProxyType(
    {Mode.AFFINE: "afq", Mode.MXFP4: "uqff_mxfp4"}
)
"""Module of `importer.codecs.reference` with the arithmetic, and of `kernels` with the code."""


@dataclass(frozen=True, slots=True)
class UqffGroups:
    """Encodes values to the parts of a type of the store, with mistral.rs's arithmetic.

    Attributes:
        dtype: of the values that `encode` takes; one of `VALUE_DTYPES`.
    """

    spec: QuantSpec
    dtype: str

    @property
    def value_dtype(self) -> str:
        """The dtype of the values that are quantized."""
        return self._grouped.value_dtype

    @property
    def scale_parts(self) -> tuple[tuple[str, str], ...]:
        """Suffix and dtype of the small parts, which have one element for each group."""
        return self._grouped.scale_parts

    @property
    def is_lossless(self) -> bool:
        """Return False: values are rounded to codes."""
        return False

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic, in numpy."""
        name = f"importer.codecs.reference.{_MODULES[self.spec.mode]}"
        return cast("Arithmetic", importlib.import_module(name))

    def parts(self, shape: Shape) -> tuple[Part, ...]:
        """Return the packed codes, then the small parts."""
        return self._grouped.parts(shape)

    def unit(self, shape: Shape) -> int:  # noqa: ARG002 - a group is smaller than a row
        """Return the group size: groups are independent."""
        return self.spec.group_size

    def encode(self, values: Buffer, runtime: Runtime) -> Encoded:
        """Quantize a whole number of groups."""
        from importer.codecs import arithmetic  # noqa: PLC0415 - it imports numpy

        return arithmetic.encode(self, values, runtime.kernel(UqffKernel(self)))

    def kernels(self, operation: Operation) -> tuple[KernelSpec, ...]:
        """Return the kernel that encodes; reading is `Grouped`'s."""
        return (UqffKernel(self),) if operation is Operation.ENCODE else ()

    @property
    def _grouped(self) -> Grouped:
        return Grouped(self.spec, self.dtype)


@dataclass(frozen=True, slots=True)
class UqffKernel:
    """The kernel that encodes a type, of some group size and dtype."""

    codec: UqffGroups

    def load(self) -> Any:  # noqa: ANN401 - the contract
        """Import the module of the kernel; its code is found at the first call."""
        return importlib.import_module(
            f"importer.codecs.kernels.{_MODULES[self.codec.spec.mode]}"
        )

    def check(self, kernel: Any) -> None:  # noqa: ANN401
        """Compare the kernel with numpy on some groups.

        Raises:
            ArithmeticError: they differ.
        """
        from importer.codecs import arithmetic  # noqa: PLC0415 - it imports numpy

        arithmetic.check(Operation.ENCODE, self.codec, kernel)
