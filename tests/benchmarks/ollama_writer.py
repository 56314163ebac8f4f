"""Import a checkpoint the way Ollama's Go writer does it, tensor after tensor, in Python.

    python tests/benchmarks/ollama_writer.py SOURCE STORE [int4|int8|mxfp8|nvfp4|mxfp4]

What it stands for is the order of reads and writes: a plain tensor is copied into a temporary
blob by 32 KiB, hashed on the way, and renamed. One that is quantized is first copied into a
temporary safetensors file, which MLX loads, quantizes and saves; the result is read back
whole, written to a temporary blob, hashed and renamed. Nothing is synced. Every matrix whose
rows are whole groups is quantized, as the recipe `uniform` and `mlx_lm.convert` do.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

COPY_BYTES: Final = 32 * 1024
"""Of Go's `io.Copy`."""
ALIGNMENT: Final = 8
TYPES: Final = {
    "int4": (64, 4, "affine"),
    "int8": (64, 8, "affine"),
    "mxfp8": (32, 8, "mxfp8"),
    "nvfp4": (16, 4, "nvfp4"),
    "mxfp4": (32, 4, "mxfp4"),
}
"""Type -> elements of a group, bits, and MLX's mode."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as a stream: its safetensors header, then bytes of `file` from `offset`."""

    name: str
    shape: tuple[int, ...]
    header: bytes
    file: IO[bytes]
    offset: int
    nbytes: int

    def pieces(self) -> Iterator[bytes]:
        """Read it as a safetensors file of its own, by `COPY_BYTES`."""
        yield self.header
        self.file.seek(self.offset)
        left = self.nbytes
        while left:
            piece = self.file.read(min(COPY_BYTES, left))
            left -= len(piece)
            yield piece


def tensors(source: Path) -> Iterator[Tensor]:
    """Yield every tensor of the directory's safetensors files."""
    for path in sorted(source.glob("*.safetensors")):
        with path.open("rb", buffering=0) as file:
            length = int.from_bytes(file.read(8), "little")
            entries: dict[str, dict[str, Any]] = json.loads(file.read(length))
            entries.pop("__metadata__", None)
            for name, entry in sorted(entries.items()):
                start, end = entry["data_offsets"]
                alone = {"dtype": entry["dtype"], "shape": entry["shape"]}
                alone["data_offsets"] = [0, end - start]
                text = json.dumps({name: alone}, separators=(",", ":"), sort_keys=True)
                header = text.encode() + b" " * (-len(text) % ALIGNMENT)
                yield Tensor(
                    name,
                    tuple(entry["shape"]),
                    len(header).to_bytes(8, "little") + header,
                    file,
                    8 + length + start,
                    end - start,
                )


def write_blob(pieces: Iterator[bytes], blobs: Path) -> dict[str, object]:
    """Hash and write the pieces, and rename the file to its digest unless that is there."""
    sha256 = hashlib.sha256()
    size = 0
    with tempfile.NamedTemporaryFile(dir=blobs, buffering=0, delete=False) as file:
        for piece in pieces:
            file.write(piece)
            sha256.update(piece)
            size += len(piece)
    target = blobs / f"sha256-{sha256.hexdigest()}"
    if target.exists():
        Path(file.name).unlink()
    else:
        Path(file.name).rename(target)
    return {"digest": f"sha256:{sha256.hexdigest()}", "size": size}


def quantized(tensor: Tensor, quant_type: str, blobs: Path) -> bytes:
    """Quantize the tensor through two temporary files; give the second one's content."""
    import mlx.core as mx

    group_size, bits, mode = TYPES[quant_type]
    with (
        tempfile.NamedTemporaryFile(dir=blobs, suffix=".safetensors", buffering=0) as spilled,
        tempfile.NamedTemporaryFile(dir=blobs, suffix=".safetensors") as saved,
    ):
        for piece in tensor.pieces():
            spilled.write(piece)
        weights = mx.load(spilled.name)[tensor.name]
        parts = mx.quantize(weights, group_size=group_size, bits=bits, mode=mode)
        names = (tensor.name, f"{tensor.name}.scale", f"{tensor.name}.bias")
        arrays = dict(zip(names, parts, strict=False))
        mx.eval(arrays)
        metadata = {"quant_type": quant_type, "group_size": str(group_size)}
        mx.save_safetensors(saved.name, arrays, metadata)
        return Path(saved.name).read_bytes()


def write(source: Path, store: Path, quant_type: str | None) -> list[dict[str, object]]:
    """Write every tensor as a blob of its own, and a manifest; give its layers."""
    blobs = store / "blobs"
    blobs.mkdir(parents=True)
    layers = []
    for tensor in tensors(source):
        pieces = tensor.pieces()
        if quant_type is not None and _fits(tensor, TYPES[quant_type][0]):
            pieces = iter([quantized(tensor, quant_type, blobs)])
        layers.append({"name": tensor.name, **write_blob(pieces, blobs)})
    (store / "manifest.json").write_text(json.dumps({"layers": layers}))
    return layers


def _fits(tensor: Tensor, group_size: int) -> bool:
    return len(tensor.shape) > 1 and tensor.shape[-1] % group_size == 0


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if sys.argv[3:] else None)
