"""Every bound on what is read, so that bad input is refused early.

Sources: safetensors' own header limit; the rest is measured or generous by a factor of ten
over the largest checkpoints known (docs/formats/limits.md).
"""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 100_000_000
"""Of one safetensors header: the format's own limit."""

TENSORS_PER_FILE: Final = 250_000
"""The second reader of headers takes 1.8 KB for each, and nothing may take a gigabyte."""
TENSOR_NAME_BYTES: Final = 1024
RANK: Final = 16
DIMENSION: Final = 2**63 - 1
"""Of one dimension, and of a tensor's elements and bytes."""

JSON_DEPTH: Final = 64
CONFIG_BYTES: Final = 16 << 20
INDEX_BYTES: Final = 256 << 20
QUALITY_BYTES: Final = 64 << 20
MANIFEST_BYTES: Final = 32 << 20
TENSOR_LAYERS: Final = 100_000
"""Of one model: tensors and groups."""
LAYERS: Final = TENSOR_LAYERS + 100_000
"""Of one manifest: tensors, groups and files."""
FILES_PER_SOURCE: Final = 100_000
PATH_BYTES: Final = 1024
"""Of one relative path in a source."""

SMALL_READER_HEADER: Final = 1 << 20
"""One of Ollama's readers refuses blob headers above this."""
