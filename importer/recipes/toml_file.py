"""Recipes as TOML: the presets that ship with ingot, and files of users in the same format."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from importer.codecs.spec import (
    GROUP_SIZES,
    Method,
    Mode,
    QuantSpec,
    Target,
    with_group_size,
)
from importer.recipes.calibrate import NOTHING, Calibrate
from importer.recipes.depths import Layers, ranges
from importer.recipes.recipe import Misaligned, Recipe
from importer.recipes.rule import Origin, Rule
from importer.recipes.toml_table import Table, bad_recipe, document_of
from store import limits
from store.errors import InputError, NotFoundError
from store.text import did_you_mean, printable

REQUESTED: Final = "requested"
"""In place of a type: the one that the user asked for."""

_PRESETS: Final = Path(__file__).parent / "presets"
_LARGEST: Final = 1 << 20
_CONDITIONS: Final = ("architecture", "class", "format", "kind", "type")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
STACKED, PACKED, ALLOW = "stacked", "packed", "allow"


class _Draft(NamedTuple):
    """A rule before it is known what was asked for, and of what.

    Attributes:
        names_group: whether its type has a group size of its own, as in `int4/64`.
        when: condition -> globs, of which one must match.
        calibrate: what it asks for itself.
    """

    rule: Rule
    names_group: bool
    when: Mapping[str, tuple[str, ...]]
    calibrate: Calibrate


class RecipeTemplate(NamedTuple):
    """A recipe as it was written.

    Attributes:
        name: of the preset, or of the file.
        type: that is asked for where the user asks for none, as it is spelled.
        group_size: of affine types that name none; None for each type's own.
        calibrate: for rules that ask for nothing themselves.
        drafts: its rules.
        imatrix: digest of an importance matrix, or empty.
    """

    name: str
    type: str
    group_size: int | None
    misaligned: Misaligned
    stacked: bool
    allow_nonfinite: bool
    calibrate: Calibrate
    drafts: tuple[_Draft, ...]
    imatrix: str = ""

    @property
    def asks(self) -> bool:
        """Whether a rule gives a tensor the type that the user asks for."""
        return any(draft.rule.is_requested for draft in self.drafts)

    def resolve(
        self,
        asked: Target,
        group_size: int | None,
        facts: Mapping[str, Sequence[str]],
        calibrate: Calibrate = NOTHING,
    ) -> Recipe:
        """Return the rules as they are for one model.

        Args:
            asked: the type, or None where no rule asks for one.
            group_size: the user's, or None.
            facts: what conditions look at: `architecture`, `class` and `kind`.
            calibrate: the user's, for rules that ask for nothing themselves.

        Raises:
            UsageError: the type does not have the group size.
        """
        usual = self.group_size if group_size is None or self.asks else group_size
        if isinstance(asked, QuantSpec):
            asked = with_group_size(asked, group_size) if group_size else _grouped(asked, usual)
        known = {**facts, "type": [asked.name] if asked else []}
        rules = []
        for draft in self.drafts:
            if all(_any_matches(globs, known[what]) for what, globs in draft.when.items()):
                is_requested = draft.rule.is_requested
                target = asked if is_requested else draft.rule.target
                if not (is_requested or draft.names_group):
                    target = _grouped(target, usual)
                wanted = draft.calibrate.or_else(calibrate).or_else(self.calibrate)
                target = wanted.apply(target)
                rules.append(replace(draft.rule, target=target, calibrate=wanted))
        if not (rules and rules[-1].takes_all):
            rules.append(
                Rule(("*",), None, "no rule matches", optional=True, origin=Origin.REST)
            )
        return Recipe(
            self.name,
            tuple(rules),
            str(asked) if asked else self.type,
            self.misaligned,
            self.stacked,
            self.allow_nonfinite,
            self.imatrix,
        )


def presets() -> list[str]:
    """Return the names of the recipes that ship with ingot."""
    return sorted(path.stem for path in _PRESETS.glob("*.toml"))


def read_recipe(name: str) -> RecipeTemplate:
    """Read a preset, or a file of the user's.

    Args:
        name: of the preset, or the path of the file.

    Raises:
        NotFoundError: there is neither.
        InputError: the file is not a recipe.
    """
    if name in presets():
        return _parse(name, (_PRESETS / f"{name}.toml").read_bytes(), is_preset=True)
    path = Path(name)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError) as error:
        all_of_them = f"The presets are {', '.join(presets())}"
        raise NotFoundError(
            f"there is no recipe `{printable(name)}`, neither a file nor a preset",
            code="E_RECIPE",
            hint=" ".join(filter(None, (did_you_mean(name, presets()), all_of_them))),
        ) from error
    if len(data) > _LARGEST:
        raise InputError(
            f"recipe `{printable(name)}` has more than {_LARGEST} bytes", code="E_LIMIT"
        )
    # The name of a file need not be UTF-8; that of a recipe is text in a configuration.
    called = os.fsencode(path.name).decode(errors="replace")
    return _parse(called.removesuffix(".toml"), data, is_preset=False, place=name)


def _grouped(target: Target, group_size: int | None) -> Target:
    usual = isinstance(target, QuantSpec) and target.mode is Mode.AFFINE and group_size
    return with_group_size(target, group_size) if usual else target  # type: ignore[arg-type]


def _any_matches(globs: Sequence[str], words: Sequence[str]) -> bool:
    return any(fnmatchcase(word, glob) for glob in globs for word in words)


def _parse(name: str, data: bytes, *, is_preset: bool, place: str = "") -> RecipeTemplate:
    document = document_of(data, lambda why: bad_recipe(place or name, why))
    return read_document(name, document, is_preset=is_preset, place=place)


def read_document(
    name: str, document: dict[str, Any], *, is_preset: bool = False, place: str = ""
) -> RecipeTemplate:
    """Read a recipe from its TOML document, parsed already.

    Args:
        name: of a recipe that does not name itself.
        place: the path to name in an error; the name where there is none.

    Raises:
        InputError: the document is not a recipe.
    """
    told = place or name
    table = Table(told, "", document)
    drafts = tuple(
        _draft(Table(told, f"rule {number}: ", rule), is_preset=is_preset)
        for number, rule in enumerate(table.tables("rule"), 1)
    )
    if not drafts:
        table.end(_TOP)  # most often because it is misspelled
        bad_recipe(told, "it has no [[rule]]")
    group_size = table.integer("group_size", 0)
    sizes = GROUP_SIZES[Mode.AFFINE]
    if group_size and group_size not in sizes:
        table.bad(f"`group_size` is {group_size}, expected {' or '.join(map(str, sizes))}")
    misaligned = table.word("misaligned", Misaligned.KEEP, set(Misaligned))
    stacked = table.word("experts", PACKED, {PACKED, STACKED})
    nonfinite = table.word("nonfinite", "error", {"error", ALLOW})
    found = RecipeTemplate(
        table.text("name", name),
        table.text("type", ""),
        group_size or None,
        Misaligned(misaligned),
        stacked == STACKED,
        nonfinite == ALLOW,
        _calibrate(table),
        drafts,
        table.text("imatrix", ""),
    )
    if found.imatrix and not _DIGEST.fullmatch(found.imatrix):
        table.bad(f"`imatrix` is `{found.imatrix}`, expected sha256: and 64 digits")
    if found.type:
        table.target(found.type)
    table.end()
    return found


_TOP: Final = (
    "calibrate", "experts", "group_size", "imatrix", "misaligned", "name", "nonfinite",
    "symmetric", "type",
)  # fmt: skip
"""What a recipe may say beside its rules."""
_KEYS: Final = (
    "calibrate", "dtype", "experts", "factor", "fits", "layers", "min_elements", "ndim",
    "optional", "reason", "symmetric", "when",
)  # fmt: skip
"""What a rule may say beside its globs and type."""


def _draft(table: Table, *, is_preset: bool) -> _Draft:
    match = table.texts("match")
    wanted = table.text("type", "")
    if not match or not all(match) or not wanted:
        table.end(_KEYS)  # most often because a key is misspelled
        table.bad("expected `match` (globs) and `type`")
    if any(len(glob) > limits.TENSOR_NAME_BYTES for glob in match):
        table.bad("a glob is longer than a name may be")
    layers = table.text("layers", "")
    if layers and layers not in set(Layers):
        try:
            list(ranges(layers))
        except ValueError:
            table.bad(
                f"layers `{layers}`, expected 0-3,28-31 or {' or '.join(Layers)}",
                did_you_mean(layers, Layers),
            )
    ndim = table.integers("ndim")
    rule = Rule(
        match,
        None if wanted == REQUESTED else table.target(wanted),
        table.text("reason", "as the recipe says"),
        ndim,
        table.texts("dtype"),
        table.integer("min_elements", 0),
        layers,
        table.boolean("fits", default=False),
        table.boolean("optional", is_preset),
        table.integer("experts", 0),
        is_requested=wanted == REQUESTED,
        factor=table.positive("factor", 1.0),
        origin=Origin.PRESET if is_preset else Origin.FILE,
    )
    when = {
        key: globs
        for key in _CONDITIONS
        if (globs := table.table("when", _CONDITIONS).texts(key))
    }
    calibrate = _calibrate(table)
    table.end()
    return _Draft(rule, "/" in wanted, when, calibrate)


def _calibrate(table: Table) -> Calibrate:
    return Calibrate(
        Method(table.word("calibrate", "", set(Method))) if table.has("calibrate") else None,
        table.boolean("symmetric", default=False) if table.has("symmetric") else None,
    )
