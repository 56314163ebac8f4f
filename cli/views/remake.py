"""How to have a stored model again: where it came from, or the command that makes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from importer.codecs.spec import Method
from importer.models.provenance import Provenance
from importer.recipes.recipe import Misaligned
from importer.recipes.replay import RecipeOptions

if TYPE_CHECKING:
    from importer.verification.repair import Unrepaired


def advice(model: Unrepaired) -> str:
    """Return how to have a model again that could not be repaired."""
    made, command = model.provenance, helping_command(model)
    if _is_fetched(made):
        return f"fetch it again: {command}"
    if model.source_differs:
        return f"name a good copy of its source: {command}"
    last = made.sources[-1] if made.sources else None
    if last is None:
        again = "`ingot pull`, `ingot load`"
        return f"bring it again as it came ({again}), or make it again: {command}"
    if made.is_recipe_lost:
        return f"make it again with the options that it was made with: {command}"
    if _is_gone(made):
        return f"name where its source is now: {command}"
    return f"make it again: {command}"


def helping_command(model: Unrepaired) -> str:
    """Return the line that the user types to have an unrepaired model again.

    Never one that makes a model of a source that is not what it was: that could be damage.
    """
    made = model.provenance
    if _is_fetched(made):
        return again_command(made)
    is_elsewhere = not made.is_recipe_lost and _is_gone(made)
    return (
        _repair_command(made) if model.source_differs or is_elsewhere else again_command(made)
    )


def _is_gone(made: Provenance) -> bool:
    last = made.sources[-1] if made.sources else None
    return isinstance(last, Path) and not last.exists()


def _repair_command(made: Provenance) -> str:
    return f"ingot verify {made.name} --repair --source SOURCE"


def again_command(made: Provenance) -> str:
    """Return the line that the user types to have a model again."""
    return shlex.join(again_words(made))


def again_words(made: Provenance) -> list[str]:
    """Return the words of the command that fetches a model again, or makes it."""
    if not _is_fetched(made):
        return create_words(made)
    registry = made.registry
    assert registry is not None, "what is fetched comes from one"
    named = [] if registry.name == made.name else [str(made.name)]
    return ["ingot", "pull", str(registry), *named]


def _is_fetched(made: Provenance) -> bool:
    return made.registry is not None and (made.was_pulled or not made.sources)


def create_words(made: Provenance) -> list[str]:
    """Return the words of the command that makes a model again.

    SOURCE stands for a source that nothing tells, FILE for a recipe that was a file, and
    OPTIONS for those that are lost.
    """
    words = ["ingot", "create", str(made.name)]
    words.append(str(made.sources[-1]) if made.sources else "SOURCE")
    if made.record.variant is not None:
        words += ["--variant", made.record.variant]
    if made.record.is_unpacked:
        words.append("--unpack")
    if made.is_recipe_lost:
        words.append("OPTIONS")
    elif (options := made.options()) is not None:
        words += _flags(options)
    elif made.record.recipe is not None:
        words += ["--recipe", "FILE"]  # it cannot be read any more
    if made.report:
        words.append("--report")
    return words


def _flags(options: RecipeOptions) -> Iterator[str]:
    for rule in options.rules:
        yield from ("--rule", rule)
    for role, target in options.roles.items():
        yield from (f"--{role}", target)
    if options.quantize is not None:
        yield from ("-q", options.quantize)
    if options.group_size is not None:
        yield from ("--group-size", str(options.group_size))
    if options.needs_file or options.recipe is not None:
        yield from ("--recipe", options.recipe or "FILE")
    yield from _calibration(options)
    if options.misaligned is not Misaligned.KEEP:
        yield from ("--on-misaligned", str(options.misaligned))
    if options.stacked is not None:
        yield from ("--experts", "stacked" if options.stacked else "packed")
    if options.allow_nonfinite:
        yield "--allow-nonfinite"


def _calibration(options: RecipeOptions) -> Iterator[str]:
    if options.calibrate.method not in {None, Method.MINMAX}:
        yield from ("--calibrate", str(options.calibrate.method))
    if options.calibrate.symmetric:
        yield "--symmetric"
    if options.imatrix:
        # The store has the file, under the name of its digest.
        yield from ("--imatrix", options.imatrix)
