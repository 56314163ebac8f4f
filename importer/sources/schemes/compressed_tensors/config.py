"""What config.json says of compressed-tensors: groups of modules, and how each is quantized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

from importer.sources.schemes.declaration import declaration
from importer.sources.schemes.patterns import Patterns
from store.errors import InputError
from store.json import Json
from store.text import printable

_EXPRESSION: Final = "re:"
METHOD: Final = "compressed-tensors"
_BLOCKS: Final = "block"
_GROUPS: Final = ("group", "tensor_group")
_STRATEGIES: Final = ("tensor", "channel", *_GROUPS, _BLOCKS, "token", "attn_head")
_KINDS: Final = ("int", "float")
_MOST_BITS: Final = 16
_MOST: Final = 1 << 31
_AT_RUNTIME: Final = ("input", "output")
"""Where a transform is not part of the weights; those of keys and queries undo each other."""


class CtGroup(NamedTuple):
    """How the weights of some modules are quantized.

    Attributes:
        name: of the group in `config_groups`.
        targets: names, expressions (`re:`) or classes of modules.
        format: of the group, else of the model; empty where nothing is said.
        kind: `int` or `float`.
        block: rows and columns that share a scale; 0 stands for all.
    """

    name: str
    targets: tuple[str, ...]
    format: str
    bits: int
    kind: str
    block: tuple[int, int]
    is_symmetric: bool

    def __str__(self) -> str:
        height, width = self.block
        if height == 1 and width:
            words = f"in groups of {width}"
        else:
            words = {(0, 0): "by tensor", (1, 0): "by channel"}.get(
                self.block, f"in blocks of {height}x{width}"
            )
        return f"{self.kind} of {self.bits} bits {words} ({printable(self.name)})"


class CtConfig(NamedTuple):
    """What is declared.

    Attributes:
        is_declared: whether compressed-tensors is.
        groups: with quantized weights.
        ignored: names and expressions of modules that are not quantized.
        patterns: matches expressions.
        sparsity: the format of sparse weights, or empty.
        format: of the model, or empty.
        transforms: whose inverse is in the weights, and which are applied when the model runs.
    """

    is_declared: bool
    groups: tuple[CtGroup, ...]
    ignored: frozenset[str]
    sparsity: str
    format: str
    patterns: Patterns
    transforms: tuple[str, ...] = ()

    def groups_of(self, module: str) -> tuple[CtGroup, ...]:
        """Return the groups that a module may belong to: by name, expression or class.

        A name goes before expressions, of which the first by the alphabet counts, and these
        before classes, as in the library (`match_targets`). The class of a module is not
        known: of several groups it has the one that fits.
        """
        named = tuple(group for group in self.groups if module in group.targets)
        if named:
            return named
        maybe: dict[CtGroup, None] = {}
        for expression, group in self._expressions():
            matches = self._matches((expression,), module)
            if matches is not False:
                maybe[group] = None
            if matches:
                return tuple(maybe)
        of_class = (group for group in self.groups if any(map(_is_class, group.targets)))
        maybe |= dict.fromkeys(of_class)
        return tuple(maybe) or self.groups  # modules may have been renamed since

    def _expressions(self) -> list[tuple[str, CtGroup]]:
        """Return the expressions of all groups, in the library's order."""
        return sorted(
            (
                (target, group)
                for group in self.groups
                for target in group.targets
                if target.startswith(_EXPRESSION)
            ),
            key=lambda one: one[0],
        )

    def ignores(self, module: str) -> bool:
        """Return whether a module is not quantized, as far as its name tells that."""
        expressions = tuple(one for one in self.ignored if one.startswith(_EXPRESSION))
        return module in self.ignored or self._matches(expressions, module) is True

    def _matches(self, targets: tuple[str, ...], module: str) -> bool | None:
        """Return whether expressions match a name; None where they, or classes, may."""
        found = [
            self.patterns.match(target.removeprefix(_EXPRESSION), module)
            if target.startswith(_EXPRESSION)
            else None
            for target in targets
        ]
        return True if True in found else None if None in found else False


def _is_class(target: str) -> bool:
    """Return whether a target may be a class of modules, and not one of them."""
    return target.isidentifier() and target[0].isupper()


def read_config(config: Mapping[str, Json]) -> CtConfig:
    """Read `quantization_config`, or `compression_config` of older files.

    Raises:
        InputError: something of it is of another type or out of range.
    """
    said = declaration(config)
    if said.get("quant_method") != METHOD:
        return CtConfig(False, (), frozenset(), "", "", Patterns())
    whole = _text(said.get("format"))
    named = said.get("config_groups")
    groups = tuple(
        group
        for name, table in (named.items() if isinstance(named, dict) else ())
        if isinstance(table, dict) and (group := _group(name, table, whole)) is not None
    )
    ignored = said.get("ignore")
    sparse = said.get("sparsity_config")
    sparsity = _text(sparse.get("format")) if isinstance(sparse, dict) else ""
    return CtConfig(
        True,
        groups,
        frozenset(filter(None, map(_text, ignored if isinstance(ignored, list) else ()))),
        "" if sparsity == "dense" else sparsity,
        whole,
        Patterns(),
        tuple(_transforms(said.get("transform_config"))),
    )


def _transforms(said: Json) -> Iterator[str]:
    named = said.get("config_groups") if isinstance(said, dict) else None
    for name, scheme in named.items() if isinstance(named, dict) else ():
        applied = scheme.get("apply") if isinstance(scheme, dict) else None
        for one in applied if isinstance(applied, list) else ():
            if isinstance(one, dict) and one.get("location") in _AT_RUNTIME:
                yield name
                break


def _group(name: str, table: Mapping[str, Json], whole: str) -> CtGroup | None:
    weights = table.get("weights")
    if not isinstance(weights, dict):
        return None
    where = f"`config_groups` of {printable(name)}"
    targets = table.get("targets")
    kind = weights.get("type", "int")
    if kind not in _KINDS:
        _bad(where, "type", kind, "int or float")
    symmetric = weights.get("symmetric", True)
    if type(symmetric) is not bool:
        _bad(where, "symmetric", symmetric, "true or false")
    return CtGroup(
        name,
        tuple(filter(None, map(_text, targets if isinstance(targets, list) else ()))),
        _text(table.get("format")) or whole,
        _number(where, "num_bits", weights.get("num_bits", 8), _MOST_BITS),
        str(kind),
        _block(where, weights),
        symmetric,
    )


def _block(where: str, weights: Mapping[str, Json]) -> tuple[int, int]:
    size, strategy = weights.get("group_size"), weights.get("strategy")
    if strategy is None:
        # As compressed-tensors infers it.
        strategy = "tensor" if size is None else "channel" if size == -1 else "group"
    if strategy not in _STRATEGIES:
        _bad(where, "strategy", strategy, ", ".join(_STRATEGIES))
    if strategy in _GROUPS:
        return 1, _number(where, "group_size", size, _MOST)
    if strategy == _BLOCKS:
        sides = weights.get("block_structure")
        if isinstance(sides, str):  # older files have `128x128`
            sides = [int(side) if side.isdecimal() else 0 for side in sides[:20].split("x")]
        if not isinstance(sides, list) or len(sides) != 2:  # noqa: PLR2004 - rows, columns
            _bad(where, "block_structure", sides, "two numbers")
        down, across = (_number(where, "block_structure", side, _MOST) for side in sides)
        return down, across
    return (1, 0) if strategy == "channel" else (0, 0)


def _number(where: str, key: str, value: Json, most: int) -> int:
    if type(value) is not int or not 0 < value <= most:
        _bad(where, key, value, f"a number from 1 to {most}")
    return value


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _bad(where: str, key: str, value: Json, expected: str) -> NoReturn:
    raise InputError(
        f"config.json: {where}: `{key}` is {printable(str(value))}, expected {expected}",
        code="E_CONFIG",
    )
