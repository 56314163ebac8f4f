"""The arrays of a directory, of which a scheme takes those that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from importer.codecs.plain import Plain
from importer.codecs.registry import stored_type
from importer.sources.file import opened, read_bytes
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.text import printable

if TYPE_CHECKING:
    from importer.codecs.base import Decoder, Shape

MOST_COLUMNS: Final = 1 << 20
"""Of a matrix: a row of 2^30 codes of FP8 took 7.3 GB. Models have rows of 2^18 at most."""
_HINT: Final = (
    "The checkpoint is incomplete or damaged, or config.json belongs to other weights"
)


class Parts:
    """Stored arrays by name, and what became of them.

    Attributes:
        arrays: those that no scheme has taken yet, by name.
    """

    def __init__(self, tensors: Sequence[SourceTensor]) -> None:
        """Begin with all, of which none is taken."""
        self._tensors = tensors
        self.arrays = {
            tensor.name: tensor
            for tensor in tensors
            if len(tensor.arrays) == 1 and tensor.is_plain and not tensor.unjoined
        }
        self._made: dict[str, SourceTensor | None] = {}

    def get(self, name: str) -> SourceTensor | None:
        """Return an array that is not taken."""
        return None if name in self._made else self.arrays.get(name)

    def ending(self, *ends: str) -> Iterator[tuple[str, str, SourceTensor]]:
        """Yield stem, end and array of each name with one of some ends, if it is not taken."""
        for name, tensor in self.arrays.items():
            end = next((end for end in ends if name.endswith(end)), None)
            if end is not None and name not in self._made:
                yield name.removesuffix(end), end, tensor

    def join(
        self, name: str, shape: Shape, arrays: Sequence[SourceTensor], decoder: Decoder
    ) -> None:
        """Make one tensor of some arrays, which stands where the first one did.

        Raises:
            InputError: another tensor has that name.
            UnsupportedError: its rows, which are decoded whole, are too long.
        """
        if shape[-1:] > (MOST_COLUMNS,) and stored_type(decoder) is None:
            raise UnsupportedError(
                f"`{arrays[0].file.path}`: `{printable(name)}` has {shape[-1]} columns, "
                f"the limit is {MOST_COLUMNS}",
                code="E_QUANT_FORMAT",
            )
        first = arrays[0]
        taken = {array.name for array in arrays}
        if name not in taken and name in self.arrays:
            contradict(first, f"and `{printable(name)}` are both there")
        stored = tuple(tensor.arrays[0] for tensor in arrays)
        made = SourceTensor(name, shape, stored, decoder, first.component)
        self._made |= dict.fromkeys(taken)
        self._made[first.name] = made

    def leave(self, array: SourceTensor, why: str) -> None:
        """Leave an array as it is, and say why."""
        self._made[array.name] = array._replace(unjoined=why)

    @property
    def tensors(self) -> Sequence[SourceTensor]:
        """What there is now: the sequence that was given where nothing was done."""
        if not self._made:
            return self._tensors
        found = (self._made.get(tensor.name, tensor) for tensor in self._tensors)
        return [tensor for tensor in found if tensor is not None]


def check_in_order(stored: Iterable[SourceTensor], made: Iterable[SourceTensor]) -> None:
    """Make sure that the parts of quantized weights have their elements one after the other.

    Decoders of quantized weights read their parts in that order: of a transposed view in
    PyTorch's files, or of varints in ONNX, they would make other values without an error.

    Args:
        stored: every array, and the weights that a container joined.
        made: what schemes made of them.

    Raises:
        UnsupportedError: a part is a view, or is spelled in another way.
    """
    out_of_order = {one.arrays[0].name: one for one in stored if _is_out_of_order(one)}
    if not out_of_order:
        return
    kept = {one.name: one for one in stored}
    for tensor in made:
        for array in tensor.arrays if kept.get(tensor.name) != tensor else ():
            if part := out_of_order.get((array.whole or array).name):
                _out_of_order(part)


def _is_out_of_order(tensor: SourceTensor) -> bool:
    return len(tensor.arrays) == 1 and tensor.is_plain and type(tensor.decoder) is not Plain


def _out_of_order(part: SourceTensor) -> NoReturn:
    raise UnsupportedError(
        f"`{part.file.path}`: `{printable(part.name)}` {list(part.shape)} belongs to a "
        "quantized weight, and its elements do not stand there one after the other, as they "
        "do not in a transposed or repeated view",
        code="E_QUANT_FORMAT",
        hint="Save a contiguous copy of it, as `tensor.contiguous()` gives it, or raw data",
    )


def read_small(tensors: Iterable[SourceTensor]) -> dict[str, bytes]:
    """Return the bytes of some plain arrays, which are numbers that stand beside weights.

    `importer.sources.schemes.contents` names them, so that dry runs over the Hub fetch them.

    Raises:
        InputError: a file changed, or ends before that.
        UnsupportedError: an array does not have its elements one after the other.
    """
    found: dict[str, bytes] = {}
    by_file: dict[str, list[SourceTensor]] = {}
    for tensor in tensors:
        by_file.setdefault(tensor.file.path, []).append(tensor)
    for these in by_file.values():
        with opened(these[0].file) as descriptor:
            for tensor in these:
                if _is_out_of_order(tensor):
                    _out_of_order(tensor)
                begin, nbytes = tensor.arrays[0].offset, tensor.arrays[0].nbytes
                found[tensor.name] = read_bytes(tensor.file, descriptor, begin, begin + nbytes)
    return found


def contradict(array: SourceTensor, what: str) -> NoReturn:
    """Raise InputError for an array that something else contradicts.

    Args:
        what: after the array's name: what is expected, and what was found.
    """
    raise InputError(
        f"`{array.file.path}`: `{printable(array.name)}` {what}",
        code="E_QUANT_PAIR",
        hint=_HINT,
    )


def told(array: SourceTensor) -> str:
    """Return name, dtype and shape of an array, for a message.

    Example:
        >>> told(scale)
        '`a.weight_scale` F32 [4, 1]'
    """
    return f"`{printable(array.name)}` {array.dtype} {list(array.shape)}"
