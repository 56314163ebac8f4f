"""PyTorch's checkpoints: which files are of this format, and what tensors they hold."""

from __future__ import annotations

from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from importer.sources.base import Contents, ReadRange, Selection
from importer.sources.containers.sharded import FileContents, read_index, read_sharded
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.naming import Naming, WeightsName
from importer.sources.schemes.contents import is_needed
from importer.sources.tensor import SourceTensor, StoredArray
from store.errors import UnsupportedError

if TYPE_CHECKING:
    from importer.formats.pytorch.checkpoint import Place

# The room of the format is entered when there is such a file: its eleven modules would take
# 7 ms of every command that looks at a source.

_NAMING: Final = Naming(
    (".bin", ".pt", ".pth", ".ckpt"),
    ("pytorch_model", "diffusion_pytorch_model", "open_clip_pytorch_model"),
)
_NOT_WEIGHTS: Final = (
    *("training_args", "trainer_state", "optimizer", "scheduler", "scaler", "rng_state"),
    *("random_states", "openvino", "ggml", "tokenizer", "vocab", "merges", "spiece"),
)
"""Starts of names of other files with these endings: of a training run, of other programs."""
_NOT_OURS: Final = ".ckpt.bin"
_OTHERS_DIRECTORY: Final = ".mlpackage/"


class PyTorch:
    """What `torch.save` writes: a zip archive, or the stream of versions before 1.6."""

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take a name apart: `pytorch_model[.variant][-N-of-M].bin`, or that of an index."""
        name = path.rpartition("/")[2]
        if head is not None:
            from importer.formats.pytorch.checkpoint import is_pytorch  # noqa: PLC0415 - see the top

            return (_NAMING.parse(name) or WeightsName(name)) if is_pytorch(head) else None
        lower = name.lower()
        is_others = lower.startswith(_NOT_WEIGHTS) or lower.endswith(_NOT_OURS)
        return None if is_others or _OTHERS_DIRECTORY in path else _NAMING.parse(name)

    def members(self, index: SourceFile, there: Container[str]) -> tuple[str, ...]:
        """Return the paths of the files in an index's `weight_map`."""
        return tuple(sorted(set(read_index(index, there).values())))

    def fetch_header(self, path: str, size: int, read: ReadRange) -> None:
        """Read the directory at the end, the pickle, and the small headers of the storages.

        The arrays that schemes read, too.
        """
        from importer.formats.pytorch.checkpoint import read_checkpoint  # noqa: PLC0415 - see the top
        from importer.formats.pytorch.values import ITEM_BYTES  # noqa: PLC0415

        found = read_checkpoint(f"`{path}`", size, read)
        for name, place in found.places.items():
            nbytes = place.tensor.extent * ITEM_BYTES[place.tensor.dtype]
            if is_needed(name, nbytes):
                read(place.offset, place.offset + nbytes)

    def read(
        self, selection: Selection, files: Mapping[str, SourceFile], component: str
    ) -> Contents:
        """Read the pickles of the selected files."""
        notes: list[str] = []
        contents = read_sharded(selection, files, lambda file: _read(file, component, notes))
        return contents._replace(notes=(*contents.notes, *notes), may_tie=True)

    def cross_check(self, file: SourceFile, names: AbstractSet[str]) -> None:
        """Do nothing: the other reader is PyTorch, which runs what it reads."""


def _read(file: SourceFile, component: str, notes: list[str]) -> FileContents:
    from importer.formats.pytorch.checkpoint import read_checkpoint  # noqa: PLC0415 - see the top

    where = f"`{file.path}`"
    with opened(file) as descriptor:
        found = read_checkpoint(
            where, file.size, lambda start, end: read_bytes(file, descriptor, start, end)
        )
    notes += found.notes
    tensors = [
        _tensor(file, name, place, component, where) for name, place in found.places.items()
    ]
    # Of tied tensors the first one stays the first.
    tensors.sort(key=lambda tensor: tensor.arrays[0].offset)
    return FileContents(tensors, {})


def _tensor(
    file: SourceFile, name: str, place: Place, component: str, where: str
) -> SourceTensor:
    from importer.formats.pytorch.values import ITEM_BYTES  # noqa: PLC0415 - see the top

    tensor = place.tensor
    dtype, shape, item = tensor.dtype, tensor.shape, ITEM_BYTES[tensor.dtype]
    array = StoredArray(name, dtype, shape, file, place.offset, tensor.extent * item)
    if tensor.is_contiguous:
        if dtype == "F4":
            array = array._replace(shape=(*shape[:-1], shape[-1] * 2))
        return SourceTensor.plain(array, component)
    from importer.codecs.views.strided import Strided  # noqa: PLC0415 - few tensors are

    decoder = Strided(dtype, tensor.strides)
    if not decoder.can_read(shape):
        raise UnsupportedError(
            f"{where}: tensor `{name}` {list(shape)} is a view with strides "
            f"{list(tensor.strides)}, which ingot does not read",
            code="E_PT_STRIDES",
            hint="Save a contiguous copy of it: `tensor.contiguous()`",
        )
    array = array._replace(shape=(tensor.extent,))
    plain = SourceTensor.plain(array, component)
    return plain._replace(shape=shape, decoder=decoder)
