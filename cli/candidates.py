"""What an argument or an option may be: models, types, presets, variants, commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

FILES: Final = "files"
"""What the shell completes itself."""
NOTHING: Final = "nothing"


class Choices(NamedTuple):
    """What a word may be.

    Attributes:
        words: each with what it means.
        more: `files` where the shell should add paths, else `nothing`.
    """

    words: tuple[tuple[str, str], ...]
    more: str = NOTHING


EMPTY: Final = Choices(())


def values_of(
    word: str,
    param: Any,  # noqa: ANN401 - typer's, without a public type
    before: Sequence[str],
    arguments: Sequence[str],
    current: str,
) -> Choices:
    """Return what a parameter may be; what nothing is known of is a path or free text.

    Args:
        word: the command.
        param: of it.
        before: all words before the cursor.
        arguments: of the command, among them.
        current: what there is of the word at the cursor.
    """
    if named := getattr(param.type, "choices", ()):
        if (word, param.name) == ("show", "sort") and "--quality" not in before:
            named = [one for one in named if str(one) in _OF_TENSORS]
        return Choices(tuple((str(one), "") for one in named))
    if param.param_type_name == "argument" and (word, param.name) in _MODELS:
        return _models(before, is_path=(word, param.name) in _OR_PATHS)
    if (word, param.name) == ("export", "quantize"):
        return _export_types(before, current)
    if param.name in _VALUES:
        return _VALUES[param.name](arguments, current)
    return Choices((), FILES if param.name in _PATHS else NOTHING)


_OF_TENSORS: Final = frozenset({"name", "size"})
"""The orders of tensors of which no quality is shown."""
_MODELS: Final = frozenset(
    {
        ("create", "name"),
        ("create", "source"),
        ("show", "name"),
        ("list", "pattern"),
        ("ls", "pattern"),
        ("cp", "source"),
        ("cp", "target"),
        ("rm", "names"),
        ("push", "name"),
        ("save", "names"),
        ("save", "dest"),
        ("export", "name"),
        ("diff", "a"),
        ("diff", "b"),
        ("eval", "a"),
        ("eval", "b"),
        ("imatrix", "checkpoint"),
        ("verify", "names"),
    }
)
_OR_PATHS: Final = frozenset(
    {
        ("create", "source"),
        ("save", "dest"),  # where another name may stand, too
        ("export", "name"),
        ("diff", "a"),
        ("diff", "b"),
        ("eval", "a"),
        ("eval", "b"),
        ("imatrix", "checkpoint"),
    }
)
_PATHS: Final = frozenset(
    {
        "store",
        "file",
        "dest",
        "source",
        "export",
        "imatrix",
        "html",
        "list_",
        "output",
        "path",
        "text",
    }
)


def _models(before: Sequence[str], *, is_path: bool) -> Choices:
    from cli.commands.options import open_store
    from cli.environment import STORE_VARIABLE
    from store.errors import IngotError

    root = os.environ.get(STORE_VARIABLE) or None
    for number, one in enumerate(before):
        if one == "--store" and number + 1 < len(before):
            root = before[number + 1]
        elif one.startswith("--store="):
            root = one.partition("=")[2]
    names: list[str] = []
    try:
        store = open_store(root)
        names = sorted(str(one.name) for one in store.catalog.entries() if one.name)
    except (IngotError, OSError):
        pass  # an error would be printed into the line that somebody is typing
    return Choices(tuple((name, "") for name in names), FILES if is_path else NOTHING)


def _types(_: Sequence[str], __: str) -> Choices:
    from importer.codecs.spec import REQUESTABLE

    return Choices(tuple((name, "") for name in REQUESTABLE))


def _export_types(before: Sequence[str], current: str) -> Choices:
    """Return the types of the format behind `--to`; uqff takes several, with commas."""
    formats = [word for flag, word in pairwise(before) if flag == "--to"]
    formats += [word.partition("=")[2] for word in before if word.startswith("--to=")]
    match formats[-1:]:
        case ["gguf"]:
            from importer.exports.gguf.types import ALIASES, FILE_TYPES

            names = (*FILE_TYPES, *ALIASES)
            is_upper = current[:1].isupper()
            return Choices(tuple((name if is_upper else name.lower(), "") for name in names))
        case ["uqff"]:
            from importer.exports.uqff.types import TYPES

            given, comma, _ = current.rpartition(",")
            return Choices(joined([(name, "") for name in TYPES], given + comma))
        case ["hf"]:
            return EMPTY
        case _:
            return _types((), "")


def _targets(_: Sequence[str], __: str) -> Choices:
    from importer.codecs.spec import TARGETS

    return Choices(tuple((name, "") for name in TARGETS))


def _allowed(_: Sequence[str], current: str) -> Choices:
    from importer.recipes.budget import ALLOWED

    given, comma, _word = current.rpartition(",")
    return Choices(joined([(name, "") for name in ALLOWED], given + comma))


def _rule(_: Sequence[str], current: str) -> Choices:
    glob, equals, _wanted = current.rpartition("=")
    return Choices(joined(_targets(_, "").words, f"{glob}=")) if equals else EMPTY


def _presets(_: Sequence[str], __: str) -> Choices:
    folder = Path(__file__).parents[1] / "importer" / "recipes" / "presets"
    return Choices(tuple((path.stem, "") for path in sorted(folder.glob("*.toml"))), FILES)


def _variants(words: Sequence[str], _: str) -> Choices:
    """Return the variants that the names of the files of a local source tell."""
    from importer.sources.containers import FORMATS
    from importer.sources.roles import role_of

    place = Path(words[1] if len(words) > 1 else ".")
    found: set[str] = set()
    try:
        for path in place.iterdir():
            weights = role_of(path.name, FORMATS).weights
            if weights is not None and (label := weights.variant):
                found.add(label)
    except OSError:
        return EMPTY
    return Choices(tuple((name, "") for name in sorted(found)))


def _commands(_: Sequence[str], __: str) -> Choices:
    from cli.app import names_of_commands

    return Choices(tuple((name, "") for name in names_of_commands()))


def _group_sizes(_: Sequence[str], __: str) -> Choices:
    return Choices((("32", ""), ("64", ""), ("128", "")))


_VALUES: Final = MappingProxyType[str, Callable[[Sequence[str], str], Choices]](
    {
        "quantize": _types,
        "embedding": _targets,
        "lm_head": _targets,
        "vision": _targets,
        "rule": _rule,
        "allow": _allowed,
        "recipe": _presets,
        "variant": _variants,
        "group_size": _group_sizes,
        "command": _commands,
    }
)


def joined(words: Sequence[tuple[str, str]], before: str) -> tuple[tuple[str, str], ...]:
    """Return words with something before each."""
    return tuple((f"{before}{word}", meaning) for word, meaning in words)
