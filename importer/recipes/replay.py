"""The options that make a recorded recipe again."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from importer.codecs.spec import GROUP_SIZES, KEEP, Mode, parse_target
from importer.recipes.calibrate import NOTHING, Calibrate, shared
from importer.recipes.document import spelled
from importer.recipes.options import (
    ROLES,
    RULES_ALONE,
    ModelFacts,
    parse_options,
    parse_role,
    parse_rule,
)
from importer.recipes.recipe import PLAIN, Misaligned, Recipe
from importer.recipes.rule import Origin, Rule
from importer.recipes.toml_file import presets
from store.errors import IngotError


@dataclass(frozen=True, slots=True)
class RecipeOptions:
    """Options as `parse_options` takes them.

    Attributes:
        recipe: the name of a preset, or None.
        stacked: whether experts are, where the other options do not make it so.
        needs_file: whether the recipe was a file of the user's. That file will do, and so will
            the recorded recipe written to a file.
        imatrix: digest of the importance matrix, or empty.
    """

    quantize: str | None = None
    group_size: int | None = None
    recipe: str | None = None
    needs_file: bool = False
    rules: tuple[str, ...] = ()
    roles: Mapping[Origin, str] = field(default_factory=dict)
    misaligned: Misaligned = Misaligned.KEEP
    stacked: bool | None = None
    allow_nonfinite: bool = False
    calibrate: Calibrate = NOTHING
    imatrix: str = ""


def options_for(recipe: Recipe, facts: ModelFacts) -> RecipeOptions:
    """Return options that make the recipe of a stored model again.

    They are found by what they make, and never by words in the recipe: a preset is named
    where it resolves to the last rules, and a rule or a role where it makes that very rule.

    Example:
        The rules of `default` for int4, after one that keeps `lm_head`, give
        `RecipeOptions("int4", recipe="default", rules=("lm_head=keep",))`.
    """
    calibrate = shared(rule.target for rule in recipe.rules)
    found = _that_make_rules(recipe if calibrate is None else _uncalibrated(recipe), facts)
    return replace(
        found,
        calibrate=calibrate or NOTHING,
        misaligned=recipe.misaligned,
        stacked=None if recipe.stacked == _usually_stacked(found, facts) else recipe.stacked,
        allow_nonfinite=recipe.allow_nonfinite,
        imatrix=recipe.imatrix,
    )


def _usually_stacked(options: RecipeOptions, facts: ModelFacts) -> bool:
    """Return whether experts are stacked where nobody says how."""
    if options.needs_file:
        return False
    made = parse_options(options.quantize, group_size=options.group_size, recipe=options.recipe)
    return made.resolve(facts).stacked


def _uncalibrated(recipe: Recipe) -> Recipe:
    stored = (replace(rule, target=NOTHING.apply(rule.target)) for rule in recipe.rules)
    return replace(recipe, rules=tuple(stored))


def _that_make_rules(recipe: Recipe, facts: ModelFacts) -> RecipeOptions:
    for base, rules in _bases(recipe, facts):
        count = len(recipe.rules) - len(rules)
        if count >= 0 and recipe.rules[count:] == rules:
            own = list(_of_the_user(recipe.rules[:count]))
            if len(own) == count:
                return _after(own, base)
    base = RecipeOptions(recipe.type or None, needs_file=True)
    return _after(_of_the_user(recipe.rules), base)


def _bases(
    recipe: Recipe, facts: ModelFacts
) -> Iterator[tuple[RecipeOptions, tuple[Rule, ...]]]:
    """Yield options that may be the recipe's, and the rules that they make."""
    if recipe.name in {PLAIN.name, RULES_ALONE}:
        yield RecipeOptions(), PLAIN.rules
    if recipe.name not in presets():
        return
    target = parse_target(recipe.type) if recipe.type else None
    types = (recipe.type, spelled(target)) if target else (None,)
    sizes = (None, *(() if target else GROUP_SIZES[Mode.AFFINE]))
    for quantize, group_size in itertools.product(types, sizes):
        try:
            options = parse_options(quantize, group_size=group_size, recipe=recipe.name)
            made = options.resolve(facts)
        except IngotError:
            continue
        if made.type == recipe.type:
            found = RecipeOptions(quantize, group_size, recipe.name)
            yield found, made.rules
            yield found, made.decoding().rules  # its source was packed


def _of_the_user(rules: Iterable[Rule]) -> Iterator[tuple[Origin, str]]:
    """Yield the options that make the first rules, as far as there are any in their order."""
    order = (Origin.RULE, *ROLES)
    last = 0
    for rule in rules:
        found = next(_options_of(rule), None)
        if found is None or (rank := order.index(found[0])) < last or rank == last > 0:
            return
        last = rank
        yield found


def _options_of(rule: Rule) -> Iterator[tuple[Origin, str]]:
    target = KEEP if rule.target is None else str(rule.target)
    text = f"{rule.match[0]}={target}"
    with contextlib.suppress(IngotError):  # its glob is not one that a user can ask for
        if parse_rule(text) == rule:
            yield Origin.RULE, text
    for role in ROLES:
        if parse_role(role, target) == rule:
            yield role, target


def _after(own: Iterable[tuple[Origin, str]], base: RecipeOptions) -> RecipeOptions:
    found = list(own)
    rules = tuple(text for origin, text in found if origin is Origin.RULE)
    roles: dict[Origin, str] = {origin: text for origin, text in found if origin in ROLES}
    return replace(base, rules=rules, roles=roles)
