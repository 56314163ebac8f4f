"""A judge of quantized models: which tensors should be quantized, and what MLX makes of them.

Nothing here is shared with ingot. The rules are stated a second time, from the words in which
they were decided; what a blob must hold is what `mlx.core.quantize` makes on the CPU.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import mlx.core as mx
import numpy as np
import safetensors

from tests.zoo.readers import (
    FACTS,
    NAMESPACE,
    TENSOR,
    Checkpoint,
    Tensor,
    component_prefix,
    global_keys,
    read_source,
)

TYPES: Final = {f"int{bits}": (bits, "affine") for bits in (2, 3, 4, 5, 6, 8)} | {
    "nvfp4": (4, "nvfp4"),
    "mxfp4": (4, "mxfp4"),
    "mxfp8": (8, "mxfp8"),
}
"""Bits and MLX's mode."""
GROUPS: Final = dict.fromkeys(TYPES, 64) | {"int4": 32, "nvfp4": 16, "mxfp4": 32, "mxfp8": 32}
EIGHT_BITS: Final = {"int4": "int8", "int8": "int8"}
"""Of the family; all others have mxfp8."""
FLOATS: Final = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}
FEWEST: Final = 1024

KEPT: Final = ("embed", "norm", "ln_", "vision", "visual", "audio", "router")
MODULES: Final = (
    *("shared", "relative_attention_bias", "wte", "wpe"),  # embeddings under another name
    *("gate", "shared_expert_gate"),
)
MLA: Final = ("q_a_proj", "q_b_proj", "kv_a_proj", "kv_b_proj")
OLLAMA_KEPT: Final = ("embed", "norm", "ln_", "audio_tower", "vision", "visual")
OLLAMA_GATES: Final = (
    ".mlp.gate.weight",
    ".mixer.gate.weight",
    ".shared_expert_gate.weight",
    ".router.proj.weight",
)
OLLAMA_MORE: Final = (".v_proj", ".k_proj", "down_proj")
STACKED: Final = re.compile(
    r"((?:\w+\.){0,3}layers\.\d+\.(?:mlp|moe|mixer)\.(?:experts|shared_experts|switch_mlp))"
    r"\.(\d+)\.(.+\.weight)"
)
OLLAMA_EXPERTS: Final = (
    ".experts.",
    ".mlp.switch_mlp.",
    ".mlp.shared_experts.",
    ".mixer.shared_experts.",
)


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """What a model was created with.

    Attributes:
        recipe: `default` or `ollama`.
    """

    type: str
    recipe: str = "default"
    stacked: bool = False


class Target(NamedTuple):
    """What a tensor becomes."""

    type: str
    group_size: int


@dataclass(slots=True)
class Verdict:
    """What the judge found.

    Attributes:
        tensors: of the source.
        quantized: how many of them by type.
        misfits: that would be quantized if groups divided their last dimension.
    """

    tensors: int = 0
    quantized: Counter[str] = field(default_factory=Counter)
    misfits: int = 0
    differences: list[str] = field(default_factory=list)


class _Unit(NamedTuple):
    """A tensor that the store should have, of one or more of the source.

    Attributes:
        first: name of the first of them.
        group: that it is stored in, or None.
    """

    name: str
    first: str
    tensor: Tensor
    count: int
    group: str | None


class _Stored(NamedTuple):
    layer: Mapping[str, Any]
    metadata: Mapping[str, str]
    tensor: Tensor


def judge(source: Path, store: Path, name: str, asked: QuantizeOptions) -> Verdict:
    """Compare a stored model with its source."""
    found = read_source(source, None)
    vaes = frozenset(_vaes(source))
    pipeline = (source / "model_index.json").exists()
    stored = _read(store, name, found.components)
    stored_groups = {
        name: (one.layer, one.metadata)
        for name, one in stored.items()
        if "dtype" not in one.layer
    }
    verdict = Verdict(tensors=len(found.tensors))
    decided = []
    for unit in _units(found, stacked=asked.stacked):
        wanted = _wanted(unit.first, unit.tensor, asked, pipeline=pipeline, vaes=vaes)
        target = wanted if wanted and unit.tensor.shape[-1] % wanted.group_size == 0 else None
        if target:
            verdict.quantized[target.type] += unit.count
        elif wanted:
            verdict.misfits += unit.count
        decided.append((unit, target))
    for unit, target in _of_one_type(decided, stacked=asked.stacked):
        verdict.differences += _compare(unit, target, stored, stacked=asked.stacked)
    if not asked.stacked:
        verdict.differences += global_keys(stored_groups)
    verdict.differences += [f"{extra} is no tensor of the source" for extra in sorted(stored)]
    return verdict


def _wanted(
    full: str, tensor: Tensor, asked: QuantizeOptions, *, pipeline: bool, vaes: frozenset[str]
) -> Target | None:
    component, _, name = full.rpartition("/")
    experts = re.search(r"\.(experts|shared_experts?|shared_mlp|switch_mlp)\.", name)
    # Ollama takes a row for each expert for a matrix, and so does its recipe.
    bias = asked.recipe == "ollama" and experts is not None and name.endswith("_bias")
    matrix = len(tensor.shape) == 2 and (bias or name.endswith(".weight"))
    stack = len(tensor.shape) == 3 and experts is not None
    fits = (matrix or stack) and math.prod(tensor.shape) >= FEWEST and tensor.dtype in FLOATS
    if not fits:
        return None
    if asked.recipe == "ollama":
        return _wanted_by_ollama(name, tensor.shape[-1], asked.type)
    kind: str | None = asked.type
    module = name.removesuffix(".weight").rpartition(".")[2]
    sensitive = KEPT if pipeline or asked.type not in EIGHT_BITS else KEPT + MLA
    if component in vaes or module in MODULES or any(word in name for word in sensitive):
        kind = None
    elif not pipeline and asked.type == "int4" and "down_proj" in name:
        kind = "int8"
    return Target(kind, GROUPS[kind]) if kind else None


def _wanted_by_ollama(name: str, columns: int, asked: str) -> Target | None:
    if any(word in name for word in OLLAMA_KEPT) or name.endswith(OLLAMA_GATES):
        return None
    more = EIGHT_BITS.get(asked, "mxfp8")
    if name.endswith("lm_head.weight"):
        return Target(more, GROUPS[more])
    expert = any(word in name for word in OLLAMA_EXPERTS)
    four_bits = asked == "int4" or (asked in {"nvfp4", "mxfp4"} and not expert)
    # Where 8 bits do not fit, 4 bits may.
    fits = columns % GROUPS[more] == 0
    if four_bits and fits and any(word in name for word in OLLAMA_MORE):
        return Target(more, GROUPS[more])
    return Target(asked, 64 if asked == "int4" else GROUPS[asked])


def _vaes(source: Path) -> Iterator[str]:
    index = source / "model_index.json"
    if index.exists():
        for component, value in json.loads(index.read_bytes()).items():
            if isinstance(value, list) and str(value[1]).startswith(("Autoencoder", "VQ")):
                yield component


def _units(source: Checkpoint, *, stacked: bool) -> Iterator[_Unit]:
    if not stacked:
        for name, tensor in source.tensors.items():
            yield _Unit(name, name, tensor, 1, source.groups.get(name))
        return
    stacks: dict[str, dict[int, str]] = {}
    groups_of: dict[str, str] = {}
    for name, tensor in source.tensors.items():
        if found := STACKED.fullmatch(name):
            whole = f"{found[1]}.{found[3]}"
            stacks.setdefault(whole, {})[int(found[2])] = name
            groups_of[whole] = found[1]
        else:
            yield _Unit(name, name, tensor, 1, None)
    for whole, experts in stacks.items():
        tensors = [source.tensors[experts[number]] for number in range(len(experts))]
        first = tensors[0]
        data = b"".join(tensor.data for tensor in tensors)
        tensor = Tensor(first.dtype, (len(tensors), *first.shape), data)
        yield _Unit(whole, experts[0], tensor, len(tensors), groups_of[whole])


def _of_one_type(
    units: Iterable[tuple[_Unit, Target | None]], *, stacked: bool
) -> Iterator[tuple[_Unit, Target | None]]:
    """Leave projections of several types without a group: each has a blob of its own."""
    kinds: dict[str | None, set[Target | None]] = {}
    units = list(units)
    for unit, target in units:
        kinds.setdefault(unit.group, set()).add(target)
    for unit, target in units:
        is_mixed = stacked and len(kinds[unit.group]) > 1
        yield (unit._replace(group=None) if is_mixed else unit), target


def _compare(
    unit: _Unit, target: Target | None, stored: dict[str, _Stored], *, stacked: bool
) -> Iterator[str]:
    there = stored.pop(unit.name, None)
    if there is None:
        yield f"{unit.name} is not stored"
        return
    yield from _compare_layer(unit, there.layer)
    parts = {
        suffix: stored.pop(unit.name + suffix).tensor
        for suffix in (".scale", ".bias")
        if unit.name + suffix in stored
    }
    parts[""] = there.tensor
    # A member of a group is described by keys of its own; stacks of one type say it once.
    own = f"{unit.name}." if unit.group and not stacked else ""
    facts = [there.metadata.get(own + key) for key in FACTS]
    if len(parts) == 1:
        if target:
            yield f"{unit.name} is kept, expected {target}"
        elif there.tensor != unit.tensor:
            yield f"{unit.name} is {there.tensor}, the source has {unit.tensor}"
        return
    if facts != ([target.type, str(target.group_size)] if target else None):
        yield f"{unit.name} is {facts}, expected {target}"
        return
    expected = _quantize(unit.tensor, *facts)
    if parts != expected:
        yield f"{unit.name} is {parts}, MLX makes {expected}"


def _compare_layer(unit: _Unit, layer: Mapping[str, Any]) -> Iterator[str]:
    expected = {"name": unit.group or unit.name}
    if unit.group is None:
        expected |= {"dtype": unit.tensor.dtype, "shape": list(unit.tensor.shape)}
    said = {key: layer[key] for key in ("name", "dtype", "shape") if key in layer}
    if said != expected:
        yield f"{unit.name}: its layer says {said}, expected {expected}"


def _quantize(tensor: Tensor, kind: str, group_size: str) -> dict[str, Tensor]:
    bits, mode = TYPES[kind]
    values = mx.array(np.frombuffer(tensor.data, np.uint8)).view(FLOATS[tensor.dtype])
    made = mx.quantize(
        values.reshape(tensor.shape),
        group_size=int(group_size),
        bits=bits,
        mode=mode,
        stream=mx.cpu,
    )
    small = tensor.dtype if mode == "affine" else "U8"
    return {
        suffix: Tensor(dtype, part.shape, bytes(memoryview(part.view(mx.uint8))))
        for suffix, dtype, part in zip(
            ("", ".scale", ".bias"), ("U32", small, small), made, strict=False
        )
    }


def _read(store: Path, name: str, components: list[str]) -> dict[str, _Stored]:
    manifest = json.loads((store / NAMESPACE / name / "latest").read_bytes())
    found: dict[str, _Stored] = {}
    for layer in manifest["layers"]:
        if layer["mediaType"] == TENSOR:
            data = (store / "blobs" / layer["digest"].replace(":", "-")).read_bytes()
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            component = component_prefix(layer["name"], components)
            metadata = {
                # The global keys have no tensor's name, and so no component.
                key if key in FACTS else component + key: value
                for key, value in header.get("__metadata__", {}).items()
            }
            for own, entry in safetensors.deserialize(data):
                key = component + own
                assert key not in found, f"{key} is stored twice"
                tensor = Tensor(entry["dtype"], tuple(entry["shape"]), bytes(entry["data"]))
                found[key] = _Stored(layer, metadata, tensor)
    return found
