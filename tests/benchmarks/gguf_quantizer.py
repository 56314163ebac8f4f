"""Quantize a GGUF file as its own packages do: gguf-py decodes, MLX makes int4/64 of it.

python tests/benchmarks/gguf_quantizer.py SOURCE DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Write a file for each tensor, so that memory is that of the largest."""
    import gguf
    import mlx.core as mx

    source, directory = map(Path, sys.argv[1:])
    directory.mkdir(parents=True)
    (file,) = source.glob("*.gguf")
    for number, tensor in enumerate(gguf.GGUFReader(file).tensors):
        values = mx.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        made = {tensor.name: values}
        if values.ndim > 1:
            parts = mx.quantize(values.astype(mx.bfloat16), group_size=64, bits=4)
            made = dict(zip(("weight", "scales", "biases"), parts, strict=True))
        mx.save_safetensors(str(directory / f"{number}.safetensors"), made)


if __name__ == "__main__":
    main()
