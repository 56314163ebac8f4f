"""A tensor blob's header, and whether it is what a manifest says of it."""

from __future__ import annotations

from collections.abc import Iterator

from store import tensorfile
from store.fs import File
from store.manifest import Layer
from store.store import Store
from store.text import printable


def read_header(store: Store, file: File, size: int, where: str) -> tensorfile.Header:
    """Read the header of a blob of `size` bytes.

    Raises:
        InputError: it is malformed; the message begins with `where`.
    """
    prefix = store.fs.read(file, tensorfile.LENGTH_BYTES, 0)
    length = tensorfile.header_length(prefix, size, where)
    text = store.fs.read(file, length, tensorfile.LENGTH_BYTES)
    return tensorfile.parse_header(text, size, where)


def layer_mismatches(layer: Layer, header: tensorfile.Header) -> Iterator[str]:
    """Compare what a manifest says of a tensor layer with the blob's header."""
    shown = printable(layer.name)
    entries = {entry.name: entry for entry in header.entries}
    # `data` is the single key of an older form of the format.
    main = entries.get(layer.name) or (entries.get("data") if len(entries) == 1 else None)
    if main is None:
        strays = [name for name in entries if not name.startswith(f"{layer.name}.")]
        if strays or not entries:
            yield f"layer `{shown}` has a blob with the tensors {sorted(strays)[:3]}"
        return
    if layer.name in entries and any(
        name != layer.name and not name.startswith(f"{layer.name}.") for name in entries
    ):
        yield f"layer `{shown}` has a blob with tensors of other names"
    if main.dtype != "U32" and len(entries) == 1:
        if layer.dtype not in {None, main.dtype}:
            yield f"layer `{shown}` says {printable(str(layer.dtype))}, its blob {main.dtype}"
        if layer.shape not in {None, main.shape}:
            yield f"layer `{shown}` says {list(layer.shape or ())}, its blob {list(main.shape)}"
