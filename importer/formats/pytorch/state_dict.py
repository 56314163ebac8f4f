"""Find the tensors of a model in a checkpoint: which dictionary is the state dict."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.formats.pytorch.problems import malformed, unread
from importer.formats.pytorch.values import Tensor
from store import limits
from store.text import is_printable, printable

_NESTS: Final = ("state_dict", "model", "module")
_DEPTH: Final = 4
_NAMED: Final = 5
_OF_HQQ: Final = "W_q"
"""HQQ saves a dictionary for each layer, in which this is the codes."""


class StateDict(NamedTuple):
    """The tensors of a model.

    Attributes:
        tensors: by name, in the order of the file.
        notes: what of the checkpoint is not the model's.
    """

    tensors: Mapping[str, Tensor]
    notes: tuple[str, ...]


def find_state_dict(where: str, value: object) -> StateDict:
    """Return the tensors of a checkpoint, out of `state_dict`, `model` or `module`.

    Raises:
        InputError: a name that no tensor can have.
        UnsupportedError: it is not clear which tensors are the model's.
    """
    notes: list[str] = []
    left: list[object] = []
    search = _Search()
    path = ""
    for _ in range(_DEPTH):
        if not isinstance(value, dict):
            unread(where, "it does not hold a dictionary of tensors")
        inner = [key for key in _NESTS if isinstance(value.get(key), dict)]
        inner = [key for key in inner if search.finds(value[key])]
        if not inner and any(isinstance(item, Tensor) for item in value.values()):
            tensors = _tensors(where, value, search, left)
            if left:
                notes.append(f"{where}: left out what is not a tensor: {_shown(left)}")
            return StateDict(tensors, tuple(notes))
        beside = {key: one for key, one in value.items() if key not in inner[:1]}
        others = search.holders(beside)
        if len(inner) != 1:
            return _unclear(where, value, inner, others)
        path = f"{path}.{inner[0]}" if path else inner[0]
        if others:
            notes.append(
                f"{where}: the tensors are those of `{path}`, without {_shown(others)}"
            )
        if len(others) <= _NAMED:  # else there are more that were not looked at
            left += [key for key in beside if key not in others]
        value = value[inner[0]]
    return unread(where, f"its state dict is nested in more than {_DEPTH} dictionaries")


def _unclear(
    where: str,
    value: Mapping[object, object],
    inner: Sequence[object],
    others: Sequence[object],
) -> StateDict:
    """Return no tensors where there are none, and refuse others."""
    for key in others:
        layer = value[key]
        if isinstance(layer, dict) and _OF_HQQ in layer:
            unread(where, f"`{printable(str(key))}` is quantized by hqq")
    if not others:
        return StateDict({}, ())
    shown = _shown([*inner[:1], *others])
    return unread(
        where, f"it holds tensors in {shown}, and it is not clear which are the model's"
    )


def _tensors(
    where: str, values: Mapping[object, object], search: _Search, left: list[object]
) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            tensors[_checked(where, name)] = value
        elif search.finds(value):
            unread(where, f"`{printable(str(name))}` holds tensors below the state dict's own")
        else:
            left.append(name)
    return tensors


class _Search:
    """Looks for tensors in containers, which may be in each other any number of times."""

    def __init__(self) -> None:
        self._without: set[int] = set()

    def finds(self, value: object) -> bool:
        """Return whether there is a tensor anywhere in a value."""
        seen: set[int] = set()
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, Tensor):
                return True
            is_new = id(one) not in seen and id(one) not in self._without
            if isinstance(one, (dict, list, tuple)) and is_new:
                seen.add(id(one))
                waiting += _members(one)
        self._without |= seen
        return False

    def holders(self, values: Mapping[object, object]) -> list[object]:
        """Return the first keys whose values hold tensors, a few more than are named."""
        holders = (key for key, value in values.items() if self.finds(value))
        return list(itertools.islice(holders, _NAMED + 1))


def _checked(where: str, name: object) -> str:
    if not isinstance(name, str):
        shown = f"`{printable(str(name))}`, which is not text"
        malformed(where, f"the key of a tensor is {shown}", "E_NAME")
    if not name or not is_printable(name):
        message = f"tensor name `{printable(name)}` is empty or unprintable"
        malformed(where, message, "E_NAME")
    if len(name.encode()) > limits.TENSOR_NAME_BYTES:
        message = f"`{printable(name)}` is longer than {limits.TENSOR_NAME_BYTES} bytes"
        malformed(where, f"tensor name {message}", "E_NAME")
    return name


def _members(
    value: dict[object, object] | list[object] | tuple[object, ...],
) -> Iterator[object]:
    members = value.values() if isinstance(value, dict) else value
    return (one for one in members if isinstance(one, (dict, list, tuple)))


def _shown(keys: Sequence[object]) -> str:
    shown = ", ".join(f"`{printable(str(key))}`" for key in keys[:_NAMED])
    return f"{shown} and more" if len(keys) > _NAMED else shown
