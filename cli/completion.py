"""What may stand at the cursor: commands, flags, models, types, presets, variants, files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cli.candidates import EMPTY, FILES, NOTHING, Choices, joined, values_of


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

    from cli.app import command_word, make_app

    word = command_word(list(before))
    group: Any = get_command(make_app([word] if word else []))
    if word is None:
        return _first(group, before, current)
    command = group.commands.get(word)
    return EMPTY if command is None else _of_command(command, word, before, current)


def _of_command(
    command: Any,  # noqa: ANN401 - typer's, without a public type
    word: str,
    before: Sequence[str],
    current: str,
) -> Choices:
    call = _Call.read(command, before[before.index(word) + 1 :])
    if call.waiting is not None:
        return _starting(values_of(word, call.waiting, before, call.words, current), current)
    flag, equals, value = current.partition("=")
    if equals and flag.startswith("--"):
        option = _option(command, flag)
        found = (
            values_of(word, option, before, call.words, value) if option is not None else EMPTY
        )
        return _starting(found._replace(words=joined(found.words, f"{flag}=")), current)
    if current.startswith("-"):
        return _starting(_flags(command, call.given), current)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if call.arguments >= len(arguments) and not (arguments and arguments[-1].nargs == -1):
        return EMPTY
    argument = arguments[min(call.arguments, len(arguments) - 1)]
    return _starting(values_of(word, argument, before, call.words, current), current)


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
