"""Read importance matrices: of GGUF, of the format before it, and of safetensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from importer.formats.content import content_of
from importer.formats.gguf.header import Header, TensorInfo, is_gguf, read_header
from importer.formats.gguf.metadata import Array, read_array
from importer.formats.gguf.stream import Stream
from importer.formats.imatrix.matrix import FLOAT, ImportanceMatrix, malformed
from importer.formats.imatrix.safetensors import is_safetensors, read_safetensors
from importer.formats.window import ReadRange
from store import limits
from store.text import is_printable, printable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    _Floats = npt.NDArray[np.float32]

_SUMS: Final = ".in_sum2"
_COUNTS: Final = ".counts"
_DATASETS: Final = "imatrix.datasets"
_CHUNKS: Final = "imatrix.chunk_count"
_CHUNK_SIZE: Final = "imatrix.chunk_size"
_LEAST: Final = 3 * 4 + 1 + FLOAT
"""Bytes of the shortest entry: three integers, a name of a letter, and a number."""
_TEXT: Final = 1 << 16
"""Bytes of the name of a text, at most."""
_TEXTS: Final = 1 << 12
_HEAD: Final = 512


def read_matrix(where: str, size: int, read: ReadRange) -> ImportanceMatrix:
    """Read an importance matrix.

    Layouts (tools/imatrix and common/imatrix-loader.cpp of llama.cpp): GGUF with the tensors
    `NAME.in_sum2`, sums of squares, and `NAME.counts`, how many there were of each expert; or
    i32 entries, each i32 length of the name, name, i32 calls, i32 numbers, and as many float32:
    mean squares times calls. After them i32 chunks, i32 length and name of the text, if any.
    Of safetensors `read_safetensors` tells.

    Args:
        where: what to call the file in a message.
        size: of the file, in bytes.
        read: gives bytes of it.

    Raises:
        InputError: it is malformed or truncated, an entry is there twice or has numbers that
            are not finite.
        UnsupportedError: GGUF of a version, or with types, that are not read.
    """
    head = read(0, min(_HEAD, size))
    if is_gguf(head):
        return _read_gguf(where, size, read)
    if is_safetensors(head):
        return read_safetensors(where, size, read)
    return _read_entries(where, size, read)


def _read_gguf(where: str, size: int, read: ReadRange) -> ImportanceMatrix:
    header = read_header(where, size, read)
    datasets = header.metadata.get(_DATASETS)
    chunks = header.integer(_CHUNKS)
    if not isinstance(datasets, Array) or chunks is None or header.integer(_CHUNK_SIZE) is None:
        keys = f"{_DATASETS}, {_CHUNKS} and {_CHUNK_SIZE}"
        malformed(where, f"expected the keys {keys} of an importance matrix")
    if datasets.length > _TEXTS:
        malformed(where, f"{datasets.length} texts, the limit is {_TEXTS}", "E_LIMIT")
    infos = {info.name: info for info in header.tensors}
    entries = _Entries(where)
    for name, sums in infos.items():
        own = name.removesuffix(_SUMS)
        if own == name:
            if name.endswith(_COUNTS) and name.removesuffix(_COUNTS) + _SUMS not in infos:
                malformed(where, f"`{name}` without sums")
            continue
        if own + _COUNTS not in infos:
            malformed(where, f"`{name}` without counts")
        numbers = [_numbers(where, header, one, read) for one in (sums, infos[own + _COUNTS])]
        entries.add(own, _means(where, own, *numbers))
    texts = () if datasets.kind != "string" else read_array(datasets, read, size, where)
    names = tuple(map(str, texts))
    for name in names:
        if not is_printable(name):
            malformed(where, f"the name of a text, `{printable(name)}`, is not printable")
    return ImportanceMatrix(entries.found(), names, chunks)


def _numbers(where: str, header: Header, info: TensorInfo, read: ReadRange) -> _Floats:
    import numpy as np  # noqa: PLC0415 - few imports and exports read importance

    if info.kind.name != "F32":
        malformed(where, f"`{info.name}` is {info.kind.name}, expected F32")
    # What has no bytes may be anywhere.
    data = read(info.offset, info.offset + info.nbytes) if info.nbytes else b""
    return np.frombuffer(data, ">f4" if header.is_big else "<f4").astype(np.float32)


def _means(where: str, name: str, sums: _Floats, counts: _Floats) -> _Floats:
    """Divide the sums of each expert by its count; one that was never used counts evenly."""
    import numpy as np  # noqa: PLC0415

    if not counts.size or not sums.size or sums.size % counts.size:
        malformed(where, f"`{name}` has {sums.size} sums and {counts.size} counts")
    if not np.isfinite(counts).all() or np.abs(counts).max() >= 2.0**62:
        malformed(where, f"`{name}` has counts that are not finite, or too large")
    whole = np.trunc(counts + np.copysign(np.float32(0.5), counts))[:, None]
    by_expert = sums.reshape(counts.size, -1)
    with np.errstate(all="ignore"):
        return np.where(whole > 0, by_expert / whole, np.float32(1)).reshape(-1)


def _read_entries(where: str, size: int, read: ReadRange) -> ImportanceMatrix:
    stream = Stream(read, size, where)
    count = stream.number("i") if size >= FLOAT else 0
    if not 0 < count <= min(limits.TENSORS_PER_FILE, stream.left // _LEAST):
        what = content_of(read(0, min(_HEAD, size))) or f"a file that claims {count:,} entries"
        malformed(where, f"it is {what}, expected an importance matrix", "E_IMATRIX_CONTENT")
    entries = _Entries(where)
    for number in range(count):
        name = _text(stream, limits.TENSOR_NAME_BYTES, f"the name of entry {number}")
        calls, length = stream.number("i"), stream.number("i")
        if length < 1 or length * FLOAT > stream.left:
            malformed(where, f"`{name}` has {length} numbers, {stream.left} bytes are left")
        entries.add(name, _by_calls(stream.take(length * FLOAT), calls))
    chunks, text = 0, ""
    if stream.left:
        chunks = stream.number("i")
    if stream.left:
        text = _text(stream, _TEXT, "the name of the text", least=0)
    if stream.left:
        malformed(where, f"{stream.left} bytes after its end")
    return ImportanceMatrix(entries.found(), (text,) if text else (), chunks)


def _by_calls(data: bytes, calls: int) -> _Floats:
    import numpy as np  # noqa: PLC0415

    numbers = np.frombuffer(data, "<f4").astype(np.float32)
    return numbers / np.float32(calls) if calls > 0 else numbers


def _text(stream: Stream, limit: int, what: str, least: int = 1) -> str:
    length = stream.number("i")
    if not least <= length <= min(limit, stream.left):
        malformed(stream.where, f"{what} has {length} bytes, {stream.left} are left")
    try:
        text = stream.take(length).decode()
    except UnicodeDecodeError:
        malformed(stream.where, f"{what} is not UTF-8")
    if not is_printable(text):
        malformed(stream.where, f"{what}, `{printable(text)}`, is not printable")
    return text


class _Entries:
    """What was read so far; tensors with the same input share their numbers."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._found: dict[str, bytes] = {}
        self._numbers: dict[bytes, bytes] = {}

    def add(self, name: str, numbers: npt.NDArray[Any]) -> None:
        """Take the importance of a tensor's columns."""
        import numpy as np  # noqa: PLC0415

        if not name:
            malformed(self._where, "there are sums without a name")
        if name in self._found:
            malformed(self._where, f"`{name}` is there twice")
        if not np.isfinite(numbers).all():
            malformed(self._where, f"`{name}` has numbers that are not finite")
        data = numbers.astype("<f4").tobytes()
        self._found[name] = self._numbers.setdefault(data, data)

    def found(self) -> dict[str, bytes]:
        """Return all by their names; there is one at least."""
        if not self._found:
            malformed(self._where, "there is no entry")
        return self._found
