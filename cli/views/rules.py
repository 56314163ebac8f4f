"""The rules of a recipe that decided something: what they match, on which conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cli.views.table import table
from importer.planning.outcome import Outcome
from importer.recipes.recipe import Recipe
from importer.recipes.rule import Rule
from store.text import count, printable


def rule_lines(
    recipe: Recipe, tensors: Sequence[Outcome], *, is_numbered: bool
) -> Iterator[str]:
    """Yield the rules that decided about some tensors, and how many others there are.

    Args:
        is_numbered: whether there is something that names rules by their numbers.
    """
    used = Counter(tensor.decision.rule.index for tensor in tensors)
    yield f"rules of {printable(recipe.name)}, of which the first that matches decides:"
    rows = [("", "MATCHES", "WHERE", "TYPE", "TENSORS", "WHY")]
    for number, rule in enumerate(recipe.rules):
        if number in used:
            target = "keep" if rule.target is None else str(rule.target)
            globs, where = " ".join(rule.match), ", ".join(conditions(rule))
            found = f"{used[number]:,}"
            rows.append((str(number + 1), globs, where, target, found, rule.reason))
    if not is_numbered:
        rows = [("", *row[1:]) for row in rows]
    yield from table(rows, indent=2, right=(0, 4), spare=(5,), cut=(5, 1, 2))
    if unused := len(recipe.rules) - len(rows) + 1:
        yield f"  {count(unused, 'other rule')} decided nothing"


def conditions(rule: Rule) -> Iterator[str]:
    """Yield what a tensor must be, besides having a name that matches."""
    if rule.ndim:
        yield _either([f"{number}-D" for number in rule.ndim])
    if rule.dtype:
        yield _either(rule.dtype)
    if rule.min_elements:
        yield f"{rule.min_elements:,}+ elements"
    if rule.layers:
        yield f"layers {rule.layers}"
    if rule.experts:
        yield f"{rule.experts} experts in a layer"
    if rule.fits:
        yield "the group divides the rows"


def _either(words: Sequence[str]) -> str:
    *before, last = words
    return f"{', '.join(before)} or {last}" if before else last
