"""Recipes as a model's configuration holds them, and as TOML that can be read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from importer.codecs.spec import KEEP, Calibration, Method, Mode, QuantSpec, Target
from importer.recipes.recipe import Misaligned, Recipe
from importer.recipes.rule import Rule
from importer.recipes.toml_file import ALLOW, STACKED, read_document
from store.json import Json
from store.text import is_printable


def from_document(document: Mapping[str, Json]) -> Recipe:
    """Read the recipe that a model's configuration holds.

    Raises:
        InputError: the document is not a recipe.
    """
    name = document.get("name")
    found = read_document(name if isinstance(name, str) else "recipe", dict(document))
    nothing = ("architecture", "class", "kind", "format")
    return found.resolve(None, None, dict.fromkeys(nothing, ()))


def to_document(recipe: Recipe) -> dict[str, Json]:
    """Return a recipe as a model's configuration holds it; keys are sorted.

    Neither the index nor the origin of a rule is in it: two ways to the same rules make the
    same model.
    """
    document: dict[str, Json] = {"name": recipe.name}
    document["rule"] = [_rule_document(rule) for rule in recipe.rules]
    if recipe.type:
        document["type"] = recipe.type
    if recipe.misaligned is not Misaligned.KEEP:
        document["misaligned"] = str(recipe.misaligned)
    if recipe.stacked:
        document["experts"] = STACKED
    if recipe.allow_nonfinite:
        document["nonfinite"] = ALLOW
    if recipe.imatrix:
        document["imatrix"] = recipe.imatrix
    return dict(sorted(document.items()))


def to_toml(document: Mapping[str, Json]) -> Iterator[str]:
    """Yield a configuration's recipe as lines of TOML, which `read_recipe` reads."""
    for key, value in document.items():
        if key != "rule":
            yield f"{key} = {_toml(value)}"
    rules = document.get("rule")
    for rule in rules if isinstance(rules, list) else ():
        yield ""
        yield "[[rule]]"
        for key, value in rule.items() if isinstance(rule, dict) else ():
            yield f"{key} = {_toml(value)}"


def _rule_document(rule: Rule) -> dict[str, Json]:
    document: dict[str, Json] = {"match": list(rule.match), "reason": rule.reason}
    document["type"] = KEEP if rule.target is None else spelled(rule.target)
    if isinstance(rule.target, QuantSpec):
        document |= _calibration_document(rule.target.calibration)
    if rule.ndim:
        document["ndim"] = list(rule.ndim)
    if rule.dtype:
        document["dtype"] = list(rule.dtype)
    if rule.min_elements:
        document["min_elements"] = rule.min_elements
    if rule.layers:
        document["layers"] = rule.layers
    if rule.experts:
        document["experts"] = rule.experts
    if rule.fits:
        document["fits"] = True
    if rule.optional:
        document["optional"] = True
    return dict(sorted(document.items()))


def _calibration_document(calibration: Calibration) -> dict[str, Json]:
    document: dict[str, Json] = {}
    if calibration.method is not Method.MINMAX:
        document["calibrate"] = str(calibration.method)
    if calibration.symmetric:
        document["symmetric"] = True
    return document


def spelled(target: Target) -> str:
    """Return the spelling of a type, with its group size even where that is usual."""
    if isinstance(target, QuantSpec) and target.mode is Mode.AFFINE:
        return f"{target.name}/{target.group_size}"
    return str(target)


def _toml(value: Json) -> str:
    # JSON's spelling of these values is TOML's. What is not printable is escaped here: a
    # terminal must not get it, and TOML does not know how we would escape it there.
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if is_printable(char) else f"\\U{ord(char):08x}" for char in text)
