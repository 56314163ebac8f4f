"""Where the bytes of a model are: by component, by layers, by what tensors do in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from importer.models.description import Description
from importer.models.places import role_of
from importer.sources.stored.tensors import StoredTensor

_LAYER: Final = re.compile(
    r"(?:^|.*?[./])(?:layers|layer|blocks|block|resblocks|h|blk|transformer_blocks"
    r"|single_transformer_blocks|down_blocks|up_blocks|stages)\.([0-9]{1,9})\."
)
_ONE_STACK: Final = "layer"
"""What layers are called where there is one stack of them; else the stack's name."""


class Node(NamedTuple):
    """A part of a model.

    Attributes:
        name: of the component, such as `layers 0-31`, or what its tensors do.
        repeats: layers that it stands for, which all have as much; 1 for everything else.
        types: of the tensors, those with the most bytes first.
        nbytes: of all of them, headers not counted.
    """

    name: str
    repeats: int
    tensors: int
    types: tuple[str, ...]
    nbytes: int
    parts: tuple[Node, ...] = ()


def tree_of(model: Description) -> Node:
    """Return where a model's bytes are: component, layers, role."""
    prefixes = sorted((f"{name}/" for name in model.record.components), key=len, reverse=True)
    components: dict[str, list[StoredTensor]] = {}
    for tensor in model.tensors:
        prefix = next((one for one in prefixes if tensor.name.startswith(one)), "")
        components.setdefault(prefix.rstrip("/"), []).append(tensor)
    if len(components) > 1:
        parts = tuple(
            _node(name or ".", found, _stacks(found)) for name, found in components.items()
        )
    else:
        parts = tuple(part for found in components.values() for part in _stacks(found))
    return _node(str(model.name), model.tensors, _by_size(parts))


def _stacks(tensors: Iterable[StoredTensor]) -> tuple[Node, ...]:
    """Part tensors into stacks of layers and what is outside of them."""
    stacks: dict[str, dict[int, list[StoredTensor]]] = {}
    rest: list[StoredTensor] = []
    for tensor in tensors:
        found = _LAYER.match(tensor.name)
        if found is None:
            rest.append(tensor)
        else:
            stack = tensor.name[: found.start(1) - 1]
            stacks.setdefault(stack, {}).setdefault(int(found[1]), []).append(tensor)
    nodes = [
        node
        for stack, layers in stacks.items()
        for node in _layers(stack if len(stacks) > 1 else _ONE_STACK, stack, layers)
    ]
    return (*nodes, *_roles(rest, ""))


def _layers(title: str, stack: str, layers: Mapping[int, list[StoredTensor]]) -> list[Node]:
    """Join layers that follow each other and have the same types and bytes for each role."""
    runs: list[tuple[object, list[int]]] = []
    for number in sorted(layers):
        parts = _roles(layers[number], stack)
        alike = tuple((part.name, part.types, part.nbytes) for part in parts)
        if runs and runs[-1][0] == alike and runs[-1][1][-1] == number - 1:
            runs[-1][1].append(number)
        else:
            runs.append((alike, [number]))
    nodes = []
    for _, numbers in runs:
        found = [tensor for number in numbers for tensor in layers[number]]
        last = f"-{numbers[-1]}" if len(numbers) > 1 else ""
        several = "s" if last and title == _ONE_STACK else ""
        name = f"{title}{several} {numbers[0]}{last}"
        nodes.append(_node(name, found, _roles(found, stack))._replace(repeats=len(numbers)))
    return nodes


def _roles(tensors: Iterable[StoredTensor], stack: str) -> tuple[Node, ...]:
    roles: dict[str, list[StoredTensor]] = {}
    for tensor in tensors:
        name = tensor.name.removeprefix(stack) if stack else tensor.name
        roles.setdefault(role_of(name), []).append(tensor)
    return _by_size(_node(role, found) for role, found in roles.items())


def _node(name: str, tensors: Iterable[StoredTensor], parts: tuple[Node, ...] = ()) -> Node:
    found = list(tensors)
    types: dict[str, int] = {}
    for tensor in found:
        types[tensor.type_name] = types.get(tensor.type_name, 0) + tensor.nbytes
    ordered = tuple(sorted(types, key=lambda kind: (-types[kind], kind)))
    return Node(name, 1, len(found), ordered, sum(types.values()), parts)


def _by_size(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: -node.nbytes))
