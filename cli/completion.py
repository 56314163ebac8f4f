"""What may stand at the cursor: commands, flags, models, types, presets, variants, files."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
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


_EMPTY: Final = Choices(())


def answer(shell: str, words: Sequence[str], breaks: str = "") -> list[str]:
    """Return the lines that the script of a shell reads.

    The first says whether paths may stand there, too; each other is a word and its meaning.

    Args:
        shell: `bash`, `zsh` or `fish`.
        words: after `ingot`, up to the cursor; for bash the whole line up to there.
        breaks: the characters at which bash breaks words, besides blanks.
    """
    if shell == "bash":
        words = _split(words[0] if words else "")[1:]
    if not words:
        return [NOTHING]
    *before, current = words
    found = choices(before, current)
    # What bash puts in is only what follows the last of its breaks: of `m:la`, `la`.
    cut = max((current.rfind(one) for one in breaks if one in ":="), default=-1) + 1
    lines = [found.more]
    for word, meaning in found.words:
        if shell == "bash":
            lines.append(shlex.quote(word)[cut:] if cut == 0 else word[cut:])
        elif shell == "zsh":
            lines.append(
                f"{word.replace(chr(92), chr(92) * 2).replace(':', chr(92) + ':')}:{meaning}"
            )
        else:
            lines.append(f"{word}\t{meaning}")
    return lines


def choices(before: Sequence[str], current: str) -> Choices:
    """Return what the word at the cursor may be.

    Args:
        before: the words after `ingot` and before it.
        current: what there is of it.
    """
    from typer.main import get_command

    from cli.main import command_word, make_app

    word = command_word(list(before))
    group: Any = get_command(make_app([word] if word else []))
    if word is None:
        return _first(group, before, current)
    command = group.commands.get(word)
    return _EMPTY if command is None else _of_command(command, word, before, current)


def _of_command(
    command: Any,  # noqa: ANN401 - typer's, without a public type
    word: str,
    before: Sequence[str],
    current: str,
) -> Choices:
    call = _Call.read(command, before[before.index(word) + 1 :])
    if call.waiting is not None:
        return _starting(_values(word, call.waiting, before, call, current), current)
    flag, equals, value = current.partition("=")
    if equals and flag.startswith("--"):
        option = _option(command, flag)
        found = _values(word, option, before, call, value) if option is not None else _EMPTY
        return _starting(found._replace(words=_joined(found.words, f"{flag}=")), current)
    if current.startswith("-"):
        return _starting(_flags(command, call.given), current)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if call.arguments >= len(arguments) and not (arguments and arguments[-1].nargs == -1):
        return _EMPTY
    argument = arguments[min(call.arguments, len(arguments) - 1)]
    return _starting(_values(word, argument, before, call, current), current)


class _Call(NamedTuple):
    """What has been typed of a call.

    Attributes:
        given: options, by name.
        arguments: how many.
        waiting: the option whose value is at the cursor, or None.
        words: the arguments.
    """

    given: frozenset[str]
    arguments: int
    waiting: Any
    words: tuple[str, ...]

    @classmethod
    def read(cls, command: Any, words: Sequence[str]) -> _Call:  # noqa: ANN401 - typer's, without a public type
        """Read the words behind a command."""
        given: set[str] = set()
        arguments: list[str] = []
        waiting = None
        for word in words:
            if waiting is not None:
                waiting = None
            elif word.startswith("-") and len(word) > 1:
                option = _option(command, word.partition("=")[0])
                if option is not None:
                    given.add(option.name)
                    if not option.is_flag and "=" not in word:
                        waiting = option
            else:
                arguments.append(word)
        return cls(frozenset(given), len(arguments), waiting, tuple(arguments))


def _option(command: Any, flag: str) -> Any:  # noqa: ANN401 - as above
    options = (one for one in command.params if one.param_type_name == "option")
    return next((one for one in options if flag in one.opts), None)


def _first(group: Any, before: Sequence[str], current: str) -> Choices:  # noqa: ANN401 - as above
    from cli.views.help import summary_of

    if before and before[-1] == "--store":
        return Choices((), FILES)
    if current.startswith("-"):
        return _starting(_flags(group, frozenset()), current)
    visible = ((name, one) for name, one in group.commands.items() if not one.hidden)
    words = tuple((name, summary_of(one.help or "")) for name, one in visible)
    return _starting(Choices(words), current)


def _flags(command: Any, given: frozenset[str]) -> Choices:  # noqa: ANN401 - as above
    words = [
        (flag, str(one.help or "").partition(". ")[0])
        for one in command.params
        if one.param_type_name == "option" and not one.hidden
        if one.multiple or one.name not in given
        for flag in one.opts
        if flag.startswith("--")
    ]
    return Choices((*words, ("--help", "Explain the command.")))


def _values(
    word: str,
    param: Any,  # noqa: ANN401 - as above
    before: Sequence[str],
    call: _Call,
    current: str,
) -> Choices:
    """Return what a parameter may be; what nothing is known of is a path or free text."""
    if named := getattr(param.type, "choices", ()):
        return Choices(tuple((str(one), "") for one in named))
    if param.param_type_name == "argument" and (word, param.name) in _MODELS:
        return _models(before, is_path=(word, param.name) in _OR_PATHS)
    if param.name in _VALUES:
        return _VALUES[param.name](call, current)
    return Choices((), FILES if param.name in _PATHS else NOTHING)


_MODELS: Final = frozenset(
    {
        ("create", "name"),
        ("create", "source"),
        ("show", "name"),
        ("list", "prefix"),
        ("cp", "source"),
        ("cp", "target"),
        ("rm", "names"),
        ("export", "name"),
        ("diff", "a"),
        ("diff", "b"),
        ("verify", "names"),
    }
)
_OR_PATHS: Final = frozenset(
    {("create", "source"), ("export", "name"), ("diff", "a"), ("diff", "b")}
)
_PATHS: Final = frozenset(
    {"store", "file", "dest", "source", "export", "imatrix", "html", "list_", "path"}
)


def _models(before: Sequence[str], *, is_path: bool) -> Choices:
    from cli.commands.options import STORE_VARIABLE, open_store
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
        pass  # a shell that is being typed in is no place for errors
    return Choices(tuple((name, "") for name in names), FILES if is_path else NOTHING)


def _types(_: _Call, __: str) -> Choices:
    from importer.codecs.spec import REQUESTABLE

    return Choices(tuple((name, "") for name in REQUESTABLE))


def _targets(_: _Call, __: str) -> Choices:
    from importer.codecs.spec import TARGETS

    return Choices(tuple((name, "") for name in TARGETS))


def _rule(_: _Call, current: str) -> Choices:
    glob, equals, _wanted = current.rpartition("=")
    return Choices(_joined(_targets(_, "").words, f"{glob}=")) if equals else _EMPTY


def _presets(_: _Call, __: str) -> Choices:
    folder = Path(__file__).parents[1] / "importer" / "recipes" / "presets"
    return Choices(tuple((path.stem, "") for path in sorted(folder.glob("*.toml"))), FILES)


def _variants(call: _Call, _: str) -> Choices:
    """Return the variants that the names of the files of a local source tell."""
    from importer.sources.containers import FORMATS
    from importer.sources.roles import role_of

    place = Path(call.words[1] if len(call.words) > 1 else ".")
    found: set[str] = set()
    try:
        for path in place.iterdir():
            weights = role_of(path.name, FORMATS).weights
            if weights is not None and (label := weights.variant):
                found.add(label)
    except OSError:
        return _EMPTY
    return Choices(tuple((name, "") for name in sorted(found)))


def _commands(_: _Call, __: str) -> Choices:
    from cli.main import names_of_commands

    return Choices(tuple((name, "") for name in names_of_commands()))


def _group_sizes(_: _Call, __: str) -> Choices:
    return Choices((("32", ""), ("64", ""), ("128", "")))


_VALUES: Final = MappingProxyType[str, Callable[[_Call, str], Choices]](
    {
        "quantize": _types,
        "embedding": _targets,
        "lm_head": _targets,
        "vision": _targets,
        "rule": _rule,
        "recipe": _presets,
        "variant": _variants,
        "group_size": _group_sizes,
        "command": _commands,
    }
)


def _joined(words: Sequence[tuple[str, str]], before: str) -> tuple[tuple[str, str], ...]:
    return tuple((f"{before}{word}", meaning) for word, meaning in words)


def _starting(found: Choices, current: str) -> Choices:
    return found._replace(words=tuple(one for one in found.words if one[0].startswith(current)))


def _split(line: str) -> list[str]:
    """Split the line up to the cursor as a shell does; the last word may be empty."""
    for closing in ("", "'", '"'):
        try:
            words = shlex.split(line + closing)
        except ValueError:
            continue
        is_new = not line or line[-1].isspace()
        return [*words, ""] if is_new and not closing else words
    return [*line.split(), ""]


def lines_of(words: Sequence[str]) -> Iterator[str]:
    """Yield what `ingot __complete SHELL [BREAKS] WORD...` prints."""
    shell, *rest = words or [""]
    breaks = ""
    if shell == "bash" and rest:
        breaks, *rest = rest
    yield from answer(shell, rest, breaks)
