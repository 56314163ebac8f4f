"""AFQ's encoder as mistral.rs runs it on a CPU: `afq_quantize_op` in afq/ops.rs of 0.9.5.

Codes, scales and biases lie as MLX's do, and are other ones: the smallest value of a group is
its bias, and zero need not fall on a code. Built for Metal, mistral.rs runs MLX's kernel.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from importer.codecs.reference import Bits, Floats
from importer.codecs.reference.floats import narrow
from importer.codecs.reference.ggml.quantize.rounding import away
from importer.codecs.spec import QuantSpec

SMALLEST_RANGE: Final = np.float32(1e-12)
"""Where a group's values are nearer to each other, its scale is 1."""


def encode(values: Floats, dtype: str, spec: QuantSpec) -> tuple[Bits, ...]:
    """Return codes, scales and biases.

    The rounded scale and bias are what is stored, but codes are made with the unrounded ones.
    """
    last_code = np.float32((1 << spec.bits) - 1)
    bias = values.min(axis=1)
    width = values.max(axis=1) - bias
    scale = np.where(width < SMALLEST_RANGE, np.float32(1), width / last_code)
    quotients = (values - bias[:, None]) / scale[:, None]
    codes = np.fmin(away(quotients), last_code).astype(np.uint8)
    return codes, narrow(scale, dtype), narrow(bias, dtype)
