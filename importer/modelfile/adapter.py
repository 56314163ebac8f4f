"""A LoRA adapter of PEFT: the tensors of its directory, each with the one that it changes.

PEFT (`save_pretrained`) writes `adapter_config.json` and `adapter_model.safetensors`, whose
names are those of the model's modules behind `base_model.model.`: `lora_A.weight` of shape
`[rank, in]` and `lora_B.weight` `[out, rank]` of a layer, `lora_embedding_A` `[rank, tokens]`
and `lora_embedding_B` `[width, rank]` of an embedding, a `lora_magnitude_vector`, and whole
tensors of modules that were trained, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from importer.planning.groups import stack_of
from importer.sources.configuration import ADAPTER_CONFIG
from importer.sources.document import Document
from importer.sources.inventory import Inventory, read_inventory
from store.errors import InputError, UnsupportedError
from store.text import printable

Shapes = Mapping[str, tuple[int, ...]]

_WEIGHTS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."
_LORA: Final = re.compile(
    r"(?P<module>.+)\.(?P<part>lora_[AB]|lora_embedding_[AB]|lora_magnitude_vector)"
    r"(?:\.default)?(?:\.(?P<kind>weight|bias))?",
    re.DOTALL,
)


def read_adapter(directory: Path, base: Shapes) -> Inventory:
    """Read an adapter, and make sure that every tensor of it has its base.

    Args:
        directory: that PEFT wrote, or its file of weights.
        base: the shapes of the model's tensors, by name.

    Raises:
        NotFoundError: there is no such directory.
        InputError: it is not an adapter, or not one of this model.
        UnsupportedError: it is an adapter of another kind.
    """
    if directory.name == _WEIGHTS and directory.is_file():
        directory = directory.parent
    inventory = read_inventory(directory, as_arrays=True)
    where = printable(str(directory))
    config = inventory.document(ADAPTER_CONFIG)
    if config is None:
        raise InputError(
            f"`{where}` has no `{ADAPTER_CONFIG}`, which PEFT writes", code="E_ADAPTER"
        )
    if [file.path for file in inventory.weights] != [_WEIGHTS]:
        raise UnsupportedError(
            f"`{where}` has its weights in `{printable(inventory.weights[0].path)}`, expected "
            f"`{_WEIGHTS}`",
            code="E_ADAPTER",
        )
    if (kind := config.get("peft_type")) != "LORA":
        raise UnsupportedError(
            f"the adapter is of type `{printable(str(kind))}`, expected `LORA`",
            code="E_ADAPTER",
        )
    _check({tensor.name: tensor.shape for tensor in inventory.tensors}, base, config)
    return inventory


def _check(adapter: Shapes, base: Shapes, config: Document) -> None:
    pairs: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {}
    for name, shape in adapter.items():
        if not name.startswith(_PREFIX):
            _bad(name, f"expected a name that begins with `{_PREFIX}`")
        found = _LORA.fullmatch(name, len(_PREFIX))
        if found is None:
            own = name.removeprefix(_PREFIX)
            if _base(own, base) != shape:
                _bad(name, f"the model has no `{printable(own)}` of shape {list(shape)}")
            continue
        module, part = found["module"], found["part"]
        if _base(f"{module}.weight", base) is None:
            _bad(name, f"the model has no `{printable(module)}.weight`")
        if part == "lora_magnitude_vector" or found["kind"] == "bias":
            continue
        pairs.setdefault((module, part[:-1]), {})[part[-1]] = shape
    for (module, part), shapes in pairs.items():
        weight = _base(f"{module}.weight", base)
        assert weight is not None, "looked up above"
        _check_pair(f"{_PREFIX}{module}.{part}", shapes, weight, config)


def _check_pair(
    name: str, shapes: Mapping[str, tuple[int, ...]], weight: tuple[int, ...], config: Document
) -> None:
    if shapes.keys() != {"A", "B"}:
        _bad(f"{name}{next(iter(shapes))}", "it has no counterpart")
    a, b = shapes["A"], shapes["B"]
    if min(len(a), len(b), len(weight)) < _MATRIX or a[0] != b[1]:
        _bad(f"{name}A", f"{list(a)} and {list(b)} are not of one rank")
    # An embedding is `[tokens, width]`, and GPT-2 has its matrices the other way round.
    is_turned = name.endswith("embedding_") or config.get("fan_in_fan_out") is True
    out, into = (weight[1], weight[0]) if is_turned else (weight[0], weight[1])
    if (b[0], a[1]) != (out, into):
        _bad(f"{name}A", f"{list(a)} and {list(b)} do not fit a weight of {list(weight)}")


_MATRIX: Final = 2


def _base(name: str, base: Shapes) -> tuple[int, ...] | None:
    """Return the shape of the tensor that a name means; one expert of a stack, too."""
    if name in base:
        return base[name]
    stack = stack_of(name)
    shape = None if stack is None else base.get(stack.key)
    return None if shape is None or stack is None or stack.expert >= shape[0] else shape[1:]


def _bad(name: str, what: str) -> None:
    raise InputError(f"tensor `{printable(name)}` of the adapter: {what}", code="E_ADAPTER")
