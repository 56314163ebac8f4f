"""The keys that say what a file is: `general.*`, as llama.cpp's converter writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from importer.exports.gguf.documents import Documents
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.tensors import Tensor
from importer.formats.gguf.metadata import Value

_GENERATION: Final = "generation_config.json"
_SAMPLING: Final = (
    ("top_k", "i32", ("top_k",)),
    ("top_p", "f32", ("top_p",)),
    ("min_p", "f32", ("min_p",)),
    ("xtc_probability", "f32", ("xtc_probability",)),
    ("xtc_threshold", "f32", ("xtc_threshold",)),
    ("temp", "f32", ("temperature",)),
    ("penalty_last_n", "i32", ("penalty_last_n",)),
    ("penalty_repeat", "f32", ("penalty_repeat", "repetition_penalty")),
    ("mirostat", "i32", ("mirostat",)),
    ("mirostat_tau", "f32", ("mirostat_tau",)),
    ("mirostat_eta", "f32", ("mirostat_eta",)),
)
_UNITS: Final = ((1e12, 1e-12, "T"), (1e9, 1e-9, "B"), (1e6, 1e-6, "M"))
_SMALLEST: Final = (1e3, 1e-3, "K")
_LARGEST: Final = 1 << 31
_STACK: Final = 3


def general(
    name: str, documents: Documents, tensors: Sequence[Tensor], kind: str = "model"
) -> Metadata:
    """Return the keys before those of the architecture.

    Args:
        name: of the model.
        documents: how text is sampled is in one of them.
        tensors: are counted.
        kind: of the file, as `general.type` says it.
    """
    made: Metadata = {"general.type": Value("string", kind)}
    told = documents.parse(_GENERATION)
    for key, number, names in _SAMPLING:
        found = next((told[name] for name in names if name in told), None)
        if isinstance(found, bool) or not isinstance(found, int | float):
            continue
        if number == "i32" and (not isinstance(found, int) or abs(found) >= _LARGEST):
            continue
        value = found if number == "i32" else float(found)
        made[f"general.sampling.{key}"] = Value(number, value)
    made["general.name"] = Value("string", name)
    label = size_label(tensors)
    if label:
        made["general.size_label"] = Value("string", label)
    return made


def size_label(tensors: Sequence[Tensor]) -> str:
    """Return the number of parameters, rounded: `8x1.3B` where there are 8 experts.

    Of an expert's parameters those of one are counted.
    """
    total = shared = of_one = experts = stacks = 0
    for tensor in tensors:
        count = math.prod(tensor.shape)
        total += count
        if "_exps." in tensor.name and len(tensor.shape) >= _STACK:
            number = tensor.shape[-2 if ".bias" in tensor.name else -_STACK]
            of_one += count // number
            experts += number
            stacks += 1
        else:
            shared += count
    if not total:
        return ""
    if stacks:
        return f"{experts // stacks}x{_rounded(shared + of_one)}"
    return _rounded(total)


def _rounded(count: int) -> str:
    # The converter multiplies by the inverse, which does not round as a division does.
    _, inverse, suffix = next((one for one in _UNITS if count > one[0]), _SMALLEST)
    scaled = count * inverse
    digits = max(2 - len(str(round(scaled)).lstrip("0")), 0)
    return f"{scaled:.{digits}f}{suffix}"
