"""What config.json says of MLX's quantization, and which type the shapes of arrays allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, NoReturn

from importer.codecs.spec import GROUP_SIZES, QUANT_TYPES, Mode, QuantSpec
from store.errors import InputError
from store.json import Json
from store.text import printable

BITS: Final = (1, 2, 3, 4, 5, 6, 8)
SIZES: Final = (16, 32, 64, 128)
_WORD: Final = 32
_AFFINE: Final = (4, 64)
"""Bits and group size where MLX is told none; of the other modes there is one of each."""
_FIXED: Final = {
    spec.mode: spec for spec in QUANT_TYPES.values() if spec.mode.value == spec.name
}
_SAY: Final = (
    'Say it in config.json: `"quantization": {"bits": 4, "group_size": 64}`, with an entry for '
    "each module that differs"
)


class MlxType(NamedTuple):
    """A type as MLX has it, whether the store has it or not."""

    mode: Mode
    bits: int
    group_size: int

    def __str__(self) -> str:
        words = f"{self.bits} bits in groups of {self.group_size}"
        return words if self.mode is Mode.AFFINE else f"{self.mode}, {words}"

    @property
    def spec(self) -> QuantSpec | None:
        """The store's type, or None."""
        name = f"int{self.bits}" if self.mode is Mode.AFFINE else str(self.mode)
        spec = QUANT_TYPES.get(name)
        if spec is None or self.group_size not in GROUP_SIZES[self.mode]:
            return None
        return QuantSpec(name, self.mode, self.bits, self.group_size, spec.codec)


class Packed(NamedTuple):
    """What tells the type of one weight.

    Attributes:
        module: as config.json calls it: the name without component and `.weight`.
        where: the file.
        words: in a row of packed codes.
        groups: scales in a row.
        is_affine: whether it has biases; the modes with scales of 8 bits have none.
        is_runners: whether it is spelled as Ollama does, and read as Ollama's runner does
            where nothing tells its type.
    """

    module: str
    where: str
    words: int
    groups: int
    is_affine: bool
    is_runners: bool

    def fits(self, kind: MlxType) -> bool:
        """Whether shapes and parts are those of a type."""
        is_mode = (kind.mode is Mode.AFFINE) == self.is_affine
        return is_mode and self.words * _WORD == self.groups * kind.group_size * kind.bits


class MlxConfig:
    """The types that config.json declares: for all modules, and for each."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        """Read them.

        Raises:
            InputError: one is of a kind that MLX does not have.
        """
        declared = config.get("quantization")
        if not isinstance(declared, dict):
            copy = config.get("quantization_config")
            is_copy = isinstance(copy, dict) and "quant_method" not in copy
            declared = copy if is_copy and isinstance(copy, dict) else {}
        self._bits = declared.get("bits")
        self._all = _read("quantization", declared) if _is_said(declared) else None
        self._fitting = self._other = ""
        self.modules: dict[str, MlxType | None] = {}
        for name, value in declared.items():
            if isinstance(value, dict):
                self.modules[name] = _read(f"quantization of {printable(name)}", value)
            elif value is False:
                self.modules[name] = None

    @property
    def claim(self) -> str | None:
        """What is said of all modules, or None."""
        return None if self._bits is None else f"{self._bits} bits"

    def type_of(self, packed: Packed) -> MlxType:
        """Return the type of a weight.

        A module's own entry must fit. What is said of all modules is for those without one: as
        FFAI reads it, the number of bits may then be another where the shapes say so, but not
        the group size. Where nothing is said, shapes must leave one type.

        Raises:
            InputError: none fits, or several do.
        """
        candidates = [kind for kind in _known() if packed.fits(kind)]
        if packed.module in self.modules:
            kind = self.modules[packed.module]
            if kind is None or not packed.fits(kind):
                said = "is not quantized" if kind is None else f"has {kind}"
                _contradict(packed, said, candidates)
            return kind
        if self._all is not None:
            return self._default(packed, self._all, candidates)
        if not candidates:
            _bad(packed, "weights and scales do not fit each other in any number of bits")
        if packed.is_runners:
            runners = (kind for guess in _RUNNERS for kind in candidates if kind == guess)
            return next(runners, candidates[0])
        certain = [kind for kind in candidates if kind.bits > 1] or candidates
        if len(certain) > 1:
            _bad(packed, f"its shapes fit {_listed(certain)}", _SAY)
        return certain[0]

    def _default(self, packed: Packed, kind: MlxType, candidates: list[MlxType]) -> MlxType:
        if packed.fits(kind):
            self._fitting = packed.module
            return kind
        same = [c for c in candidates if c.group_size == kind.group_size]
        if kind.mode is not Mode.AFFINE or not same:
            _contradict(packed, f"has {kind}", candidates)
        self._other = self._other or f"`{printable(packed.module)}` has {same[0]}"
        self._where = packed.where
        return same[0]

    def check(self) -> None:
        """Refuse bits that are declared for all modules and are those of none.

        Raises:
            InputError: they are.
        """
        if self._other and not self._fitting and self._bits is not None:
            raise InputError(
                f"`{self._where}`: {self._other}, and config.json says {self._all}",
                code="E_QUANT_PAIR",
                hint=_SAY,
            )


def _is_said(declared: Mapping[str, Json]) -> bool:
    return any(declared.get(key) is not None for key in ("bits", "group_size", "mode"))


def _known() -> Iterator[MlxType]:
    for bits in BITS:
        for group_size in GROUP_SIZES[Mode.AFFINE]:
            yield MlxType(Mode.AFFINE, bits, group_size)
    for spec in _FIXED.values():
        yield MlxType(spec.mode, spec.bits, spec.group_size)


_RUNNERS: Final = tuple(
    MlxType(Mode.AFFINE, *one) for one in ((4, 32), (8, 64), (4, 64), (8, 32), (8, 128))
)


def _read(where: str, table: Mapping[str, Json]) -> MlxType:
    told = table.get("mode")
    modes = {str(mode): mode for mode in Mode}
    if told is not None and (not isinstance(told, str) or told not in modes):
        _unknown(where, "mode", told, modes)
    mode = modes[told] if isinstance(told, str) else Mode.AFFINE
    fixed = _FIXED.get(mode)
    bits, group_size = _AFFINE if fixed is None else (fixed.bits, fixed.group_size)
    known = BITS if fixed is None else (fixed.bits,)
    return MlxType(
        mode,
        _number(where, table, "bits", known, bits),
        _number(where, table, "group_size", SIZES, group_size),
    )


def _number(
    where: str, table: Mapping[str, Json], key: str, known: tuple[int, ...], default: int
) -> int:
    value = table.get(key)
    if value is None:
        return default
    if type(value) is not int or value not in known:
        _unknown(where, key, value, map(str, known))
    return value


def _unknown(where: str, key: str, value: Json, known: Iterable[str]) -> NoReturn:
    words = ", ".join(known)
    raise InputError(
        f"config.json: {where}: `{key}` is {printable(str(value))}, expected one of {words}",
        code="E_CONFIG",
    )


def _listed(kinds: list[MlxType]) -> str:
    return " and ".join(map(str, kinds)) or "no type"


def _contradict(packed: Packed, said: str, candidates: list[MlxType]) -> NoReturn:
    if not candidates:
        _bad(packed, f"config.json says that it {said}, and its shapes do not fit each other")
    _bad(packed, f"config.json says that it {said}, and its shapes fit {_listed(candidates)}")


def _bad(packed: Packed, what: str, hint: str | None = None) -> NoReturn:
    raise InputError(
        f"`{packed.where}`: `{printable(packed.module)}`: {what}",
        code="E_QUANT_PAIR",
        hint=hint or "config.json may belong to other weights, or one of them is damaged",
    )
