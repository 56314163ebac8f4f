"""What is wrong with a call, in our words: which word, what was expected, what was meant."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from cli.environment import DEFAULT_STORE, STORE_VARIABLE
from store.errors import UsageError
from store.text import did_you_mean, meant, printable

if TYPE_CHECKING:
    import typer
    from typer.core import TyperCommand, TyperGroup

_SERVE: Final = (
    "ingot does not run models: `OLLAMA_MODELS={store} OLLAMA_NOPRUNE=1 ollama serve` does"
)
_CREATE: Final = "`ingot create NAME SOURCE`"
_HUB: Final = "`ingot create NAME hf:org/repo` imports a model from the Hugging Face Hub"

PEERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("add", "import"), f"{_CREATE} imports a model"),
        **dict.fromkeys(
            ("convert", "quantize", "quantise"),
            "`ingot create NAME SOURCE -q int4` imports and quantizes, `ingot export` converts",
        ),
        **dict.fromkeys(
            ("download", "get", "fetch"),
            f"{_HUB}; `ingot pull` gets one from a registry",
        ),
        **dict.fromkeys(("upload", "publish"), "`ingot push NAME HOST/NAMESPACE/MODEL:TAG`"),
        **dict.fromkeys(("inspect", "info", "describe", "cat"), "`ingot show NAME`"),
        **dict.fromkeys(("images", "models", "dir"), "`ingot list`"),
        **dict.fromkeys(("tag", "copy", "alias"), "`ingot cp SOURCE TARGET`"),
        **dict.fromkeys(("mv", "move", "rename"), "`ingot cp OLD NEW`, then `ingot rm OLD`"),
        **dict.fromkeys(
            ("restore", "undelete", "undo", "history"),
            "`ingot list --history` shows former versions, `ingot cp NAME@ID NAME` "
            "brings one back",
        ),
        **dict.fromkeys(("du", "usage", "disk"), "`ingot df`"),
        **dict.fromkeys(
            ("delete", "remove", "del", "rmi", "uninstall", "untag"),
            "`ingot rm NAME` removes a name, and `ingot gc` then frees the space",
        ),
        **dict.fromkeys(
            ("prune", "clean", "cleanup", "purge", "vacuum"),
            "`ingot gc` frees what no model needs",
        ),
        **dict.fromkeys(
            ("check", "fsck", "validate", "doctor", "scan"),
            "`ingot verify` compares the store with its digests",
        ),
        **dict.fromkeys(("repair", "fix"), "`ingot verify --repair`"),
        **dict.fromkeys(("plan", "preview"), f"{_CREATE[:-1]} --dry-run` prints the plan"),
        **dict.fromkeys(("ps", "run", "serve", "stop", "chat", "generate", "start"), _SERVE),
        **dict.fromkeys(
            ("login", "logout", "auth"),
            "`hf auth login` for the Hugging Face Hub, `docker login HOST` for a registry",
        ),
        "version": "`ingot --version`",
    }
)
"""What people type who know ollama, docker, hf or git, and what does that here."""


_ALIKE: Final = 0.7
"""Options are short words: `--force` is not `--forget`, `--store` or `--sort`."""
_REPLACES: Final = (
    "`ingot create` replaces what NAME stands for, and `--no-clobber` keeps it from doing so"
)
PEERS_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "gc": dict.fromkeys(("force", "all", "assume-yes"), "`--yes` frees without asking"),
        "rm": dict.fromkeys(("force", "yes", "all"), "`ingot rm` never asks; it takes globs"),
        "create": {
            **dict.fromkeys(("force", "overwrite", "replace"), _REPLACES),
            "model": "`ingot create NAME SOURCE`: the first word is the name",
            "file": "`ingot create NAME Modelfile`: a Modelfile is a SOURCE",
        },
        "": {
            **dict.fromkeys(("format", "output", "output-format"), "`--json` prints JSON"),
            **dict.fromkeys(("silent", "no-progress"), "`--quiet`, or `--progress none`"),
        },
    }
)
"""What people type behind a command who know its peers, and what does that here; `""`: any."""


def no_command(word: str, group: TyperGroup, ctx: typer.Context) -> UsageError:
    """Return the error for a word that is not a command."""
    told = PEERS.get(word.lower(), "").replace("{store}", _store())
    hint = told or did_you_mean(word, _visible(group))
    return UsageError(
        f"`{printable(word)}` is not a command, expected one of {', '.join(_visible(group))}",
        code="E_USAGE",
        hint=hint or f"`{ctx.command_path} --help` explains the commands",
    )


def twice(option: str) -> UsageError:
    """Return the error for an option that one call gives two times."""
    return UsageError(
        f"`{option}` is given twice, expected it once",
        code="E_USAGE",
        hint="Leave one of them out",
    )


def in_our_words(
    error: Exception,
    command: TyperCommand | TyperGroup,
    ctx: typer.Context,
    options: Mapping[str, Any],
    rest: Sequence[str],
) -> UsageError:
    """Return what the parser found, as an error of ours.

    The classes of the parser's errors are not public, but what they carry is the same in each.

    Args:
        error: of the parser.
        command: that it was about.
        ctx: of the call.
        options: name -> what was given, as it was typed.
        rest: the words that are neither options nor the command's arguments.
    """
    if hasattr(error, "possibilities"):
        return _no_option(str(getattr(error, "option_name", "")), command, ctx, rest)
    if hasattr(error, "option_name"):
        return _wrong_use(str(error.option_name), command, ctx)
    param = getattr(error, "param", None)
    if hasattr(error, "param_type") and param is not None:
        missing = f"{_missing(param, command)} is missing"
        return _usage(f"{missing}, expected `{shape(command, ctx)}`", ctx)
    if param is not None:
        return _bad_value(param, options.get(param.name or ""), ctx)
    unexpected = printable(" ".join(rest))
    return _usage(f"unexpected `{unexpected}`, expected `{shape(command, ctx)}`", ctx)


def _missing(param: Any, command: TyperCommand | TyperGroup) -> str:  # noqa: ANN401 - the parser's, which has no public type
    if param.param_type_name != "argument":
        return f"`{param.opts[0]}`"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    # Of `save llama` the parser takes the one word for what stands behind the names.
    behind = arguments[arguments.index(param) + 1 :] if param.nargs == -1 else []
    return " or ".join(_metavar(one).rstrip(".") for one in (param, *behind))


def shape(command: TyperCommand | TyperGroup, ctx: typer.Context) -> str:
    """Return how a command is called: `ingot create NAME [SOURCE]`."""
    words = [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    needed = (one for one in _options(command) if one.required)
    words += [f"{one.opts[0]} {_choices(one) or _metavar(one)}" for one in needed]
    return " ".join((ctx.command_path, *words))


def _usage(message: str, ctx: typer.Context, hint: str | None = None) -> UsageError:
    explains = f"`{ctx.command_path} --help` explains the command"
    return UsageError(message, code="E_USAGE", hint=hint or explains)


def _no_option(
    option: str,
    command: TyperCommand | TyperGroup,
    ctx: typer.Context,
    rest: Sequence[str],
) -> UsageError:
    # Without the dashes, in which all of them agree.
    known = [opt[2:] for one in _options(command) for opt in one.opts if opt[:2] == "--"]
    word = option[2:] if option.startswith("--") else ""
    begun = [one for one in known if word and one.startswith(word)]
    near = begun[0] if len(begun) == 1 else meant(word, [*known, "help"], _ALIKE)
    hint = f"Did you mean `--{near}`?" if near is not None else None
    for of in ("", command.name or ""):
        hint = PEERS_OPTIONS.get(of, {}).get(word) or hint
    hint = _behind(option, command, ctx, rest) or hint
    message = f"`{ctx.command_path}` has no option `{printable(option)}`"
    return _usage(message, ctx, hint)


def _behind(
    option: str,
    command: TyperCommand | TyperGroup,
    ctx: typer.Context,
    rest: Sequence[str],
) -> str | None:
    """Return the hint for an option that stands before its command, and belongs behind it."""
    commands = getattr(command, "commands", {})
    word = next((word for word in rest if word in commands), None)
    if word is None or not any(option in one.opts for one in _options(commands[word])):
        return None
    return f"It belongs behind the command: `{ctx.command_path} {word} {option}`"


def _wrong_use(
    option: str, command: TyperCommand | TyperGroup, ctx: typer.Context
) -> UsageError:
    found = next((one for one in _options(command) if option in one.opts), None)
    if found is None or found.is_flag:
        return _usage(f"`{printable(option)}` takes no value", ctx)
    return _usage(f"`{printable(option)}` needs a value, expected {_expected(found)}", ctx)


def _bad_value(param: Any, value: object, ctx: typer.Context) -> UsageError:  # noqa: ANN401 - as above
    name = param.opts[0] if param.param_type_name == "option" else _metavar(param)
    given = next((opt for opt in param.opts if opt.startswith("--")), name)
    shown = f"{given} {value}" if isinstance(value, str) else given
    choices = getattr(param.type, "choices", ())
    hint = did_you_mean(value, choices) if choices and isinstance(value, str) else None
    return _usage(f"`{printable(shown)}`: expected {_expected(param)}", ctx, hint)


def _expected(param: Any) -> str:  # noqa: ANN401 - as above
    kind = param.type
    if choices := getattr(kind, "choices", ()):
        return f"one of {', '.join(map(str, choices))}"
    least = getattr(kind, "min", None)
    more = "" if least is None else f" of {least} or more"
    if "int" in str(kind.name):
        return f"an integer{more}"
    if "float" in str(kind.name):
        return f"a number{more}"
    return str(param.metavar or "a value")


def _choices(param: Any) -> str:  # noqa: ANN401 - as above
    return "|".join(map(str, getattr(param.type, "choices", ())))


def _metavar(param: Any) -> str:  # noqa: ANN401 - as above
    return str(param.metavar or (param.name or "").upper())


def _options(command: TyperCommand | TyperGroup) -> Iterable[Any]:
    return [one for one in command.params if one.param_type_name == "option"]


def _store() -> str:
    """Return the store that the environment or the default names, as a word of a shell."""
    named = os.environ.get(STORE_VARIABLE)
    return shlex.quote(named) if named else DEFAULT_STORE


def _visible(group: TyperGroup) -> list[str]:
    return [name for name, one in group.commands.items() if not one.hidden]
