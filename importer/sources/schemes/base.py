"""What a quantization scheme has to do: recognize its arrays, and join them to tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor


class Clue(NamedTuple):
    """One array of a checkpoint, and what is known of the others.

    Attributes:
        name: of the array, such as `model.norm.weight`.
        dtype: as safetensors calls it, such as `F8_E4M3`.
        stem: the name up to its last dot, or empty.
        last: the name after its last dot.
        dtypes: of all arrays, by name.
        method: the `quant_method` that config.json declares, or empty.
    """

    name: str
    dtype: str
    stem: str
    last: str
    dtypes: Mapping[str, str]
    method: str


class Scheme(Protocol):
    """How one kind of quantized weight is stored as several arrays.

    One file with a class like this, and one line in `importer/sources/schemes/registry.py`,
    are a new scheme. Schemes read no weights: names, shapes, dtypes and config.json decide.
    `show` recognizes schemes and starts quickly, so that a module imports what joining needs
    (codecs, `SourceTensor`) in `join`. No scheme is asked about a model whose arrays are all
    floats of 16 bits or more and whose configuration declares nothing
    (`importer.sources.joined.may_be_quantized`).
    """

    @property
    def decodes(self) -> bool:
        """Whether `join` makes logical tensors; else arrays are imported as they are."""
        ...

    def recognizes(self, clue: Clue) -> bool:
        """Return whether an array shows that weights are stored by this scheme.

        It is asked about the arrays of a model until one says so, for stored models, too;
        but not about `*.weight` and `*.bias` in BF16, F16 or F32, which are ordinary unless
        another array says otherwise. A claim of config.json alone is not enough: it may be
        about other files.

        Example:
            >>> Mlx().recognizes(Clue("w.weight", "U32", "w", "weight", dtypes, ""))
            True
        """

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Iterable[SourceTensor]:
        """Make logical tensors of stored arrays: `qweight`, `qzeros`, `scales` -> one tensor.

        It sees every directory's arrays once, recognized or not, after the schemes before it
        in the mapping. Each array comes out again in exactly one tensor; those of other
        schemes as they are. A scheme that cannot decode its arrays yet returns `tensors`.

        Args:
            tensors: of one directory with weights, in the order of the files.
            config: the directory's `config.json`, or empty.

        Raises:
            InputError: arrays are missing, or contradict each other or the configuration.
            UnsupportedError: the scheme is known and this form of it is not.

        Example:
            >>> [tensor.name for tensor in scheme.join(arrays, config)]
            ['model.layers.0.mlp.up_proj.weight', 'model.norm.weight']
        """
