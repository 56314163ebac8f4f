"""Errors: every code has a hint and a line in docs/errors.md, each exit code a whole message.

python tests/test_errors.py    write the table of codes in docs/errors.md again
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

import store.errors
from cli.hints import _FAMILIES, HINTS
from store.errors import IngotError
from tests.cli.runner import run
from tests.importer.builders import MODELS, REPOSITORY, model, write

PAGE = REPOSITORY / "docs" / "errors.md"
BEGIN, END = "| code | exit | what helps |\n|---|---|---|\n", "\n\nErrors go to stderr"
LLAMA = MODELS / "tiny-llama"


class Raised(NamedTuple):
    """What the source says of a code: exit codes, hints as texts, and whether all have one."""

    exits: set[int]
    hints: dict[str, None]
    are_hinted: list[bool]


def trees():
    for room in ("cli", "importer", "store"):
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            yield ast.parse(path.read_text(encoding="utf-8"))


def raised():
    """Each code that is raised anywhere."""
    exits = {
        name: one.exit_code
        for name, one in vars(store.errors).items()
        if isinstance(one, type) and issubclass(one, IngotError)
    }
    modules = list(trees())
    for node in (node for tree in modules for node in tree.body):
        if isinstance(node, ast.ClassDef) and node.name not in exits:
            # errors of a room: each is one of the store's
            of = [exits[base.id] for base in node.bases if _named(base) in exits]
            exits |= {node.name: of[0]} if of else {}
    found: dict[str, Raised] = {}
    shared = {
        name: exit_
        for tree in modules
        for name, exit_, _ in _helpers(tree, exits)
        if not name.startswith("_")
    }
    for tree in modules:
        constants = {
            _named(getattr(node, "target", None) or node.targets[0]): node.value
            for node in tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        }
        helpers = {name: exit_ for name, exit_, _ in _helpers(tree, exits)}
        for _, exit_, code in _helpers(tree, exits):
            if code is not None:
                found.setdefault(code, Raised(set(), {}, [])).exits.add(exit_)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                _add(found, node, exits | shared | helpers, constants)
    return found


def _add(found, node, exits, constants):
    named = {word.arg: word.value for word in node.keywords}
    codes = [named["code"]] if "code" in named else node.args
    for code in codes:
        if not (isinstance(code, ast.Constant) and str(code.value).startswith("E_")):
            continue
        one = found.setdefault(code.value, Raised(set(), {}, []))
        if _named(node.func) in exits:
            one.exits.add(exits[_named(node.func)])
        if "code" in named:
            one.are_hinted.append("hint" in named)
        hint = _text(named.get("hint"), constants)
        if hint is not None:
            one.hints[hint] = None


def _helpers(tree, exits):
    """Functions that raise one error with the code that they are given, or else their own."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        last = node.args.args[-1].arg if node.args.args else ""
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or _named(call.func) not in exits:
                continue
            if any(one.arg == "code" and _named(one.value) == "code" for one in call.keywords):
                default = (
                    node.args.defaults[-1] if last == "code" and node.args.defaults else None
                )
                yield node.name, exits[call.func.id], getattr(default, "value", None)


def _named(node):
    return node.id if isinstance(node, ast.Name) else None


def _text(node, constants):
    """A hint as it is in the source, with `…` for what depends on the case; None for others."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            texts = [_text(part, constants) for part in parts]
            return "".join("…" if text is None else text for text in texts)
        case ast.FormattedValue(value=value):
            return _text(value, constants) if _named(value) in constants else "…"
        case ast.Name(id=name) if name in constants:
            return _text(constants[name], {})
    return None


def table():
    """The rows of docs/errors.md: of each code its exit codes and its hint."""
    return "\n".join(
        f"| `{code}` | {', '.join(map(str, sorted(one.exits)))} | {_hint(code, one)} |"
        for code, one in sorted(raised().items())
    )


def _hint(code, one):
    family = _FAMILIES.get("_".join(code.split("_")[:2]))
    hints = [text for text in one.hints if text != "…"] or [family or "depends on the case"]
    hints = [HINTS[code]] if code in HINTS else hints
    return "; or: ".join(hints).replace("|", "\\|")


def test_every_code_has_a_hint():
    lacking = [
        code
        for code, one in raised().items()
        if code not in HINTS and not all(one.are_hinted) and code != "E_BUG"
    ]

    assert lacking == []


def test_every_code_has_an_exit_code():
    assert [code for code, one in raised().items() if not one.exits] == []


def test_the_page_lists_every_code():
    text = PAGE.read_text(encoding="utf-8")

    assert text.partition(BEGIN)[2].partition(END)[0] == table(), "run this file as a script"


def sources(place):
    """Things that are wrong, each in its own way."""
    write(place / "cut", {"model.safetensors": b"\x08\0\0\0\0\0\0\0{}"})
    write(place / "keras", {"model.h5": b"x"})
    write(place / "dtype", {"model.safetensors": _of_dtype("Q4")})
    model(place / "odd", {"a.weight": ("BF16", (4, 7))})
    write(place, {"bad.toml": b"[[rule]]\n", "list.toml": b"[[model]]\n"})


def _of_dtype(dtype):
    from tests.importer.builders import framed

    return framed({"a": {"dtype": dtype, "shape": [8], "data_offsets": [0, 8]}}, bytes(8))


CALLS = {
    "create x {llama} -q int9": (2, ("`int9`", "expected one of int2", "hint: ")),
    "create x {llama} --jobs 0": (2, ("`--jobs 0`", "expected an integer of 1", "hint: ")),
    "create ../x {llama}": (2, ("`../x`", "expected the name", "hint: ")),
    "create x {llama} --rule *.nope=int4": (2, ("`*.nope`", "no tensor matches", "hint: ")),
    "create x {place}/cut": (3, ("`model.safetensors`", "expected", "hint: ")),
    "create x {llama} --recipe {place}/bad.toml": (
        3,
        ("bad.toml`", "expected `match`", "hint"),
    ),
    "create x {place}/odd --rule *=int4 --strict": (3, ("`a.weight`", "7 % 32", "hint: ")),
    "sync {place}/list.toml": (3, ("list.toml`", "expected `name` and `source`", "hint: ")),
    "create x {place}/keras": (4, ("`model.h5`", "hint: ")),
    "create x {place}/dtype": (4, ("`a`", "`Q4`", "hint: ")),
    "show nothing": (9, ("`nothing:latest`", "not found", "hint: ")),
    "create x {place}/nowhere": (9, ("nowhere`", "does not exist", "hint: ")),
    "show kept --system": (9, ("`kept:latest`", "no system", "hint: ")),
    "create x {llama} --recipe nope": (9, ("`nope`", "neither a file nor a preset", "hint: ")),
    "create kept {llama} --no-clobber": (2, ("`kept:latest`", "already", "hint: ")),
    "prune": (2, ("`prune`", "expected one of", "hint: `ingot gc`")),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_error_says_what_which_expected_got_and_what_helps(filled, tmp_path, call):
    code, told = CALLS[call]
    sources(tmp_path)
    words = [word.format(llama=LLAMA, place=tmp_path) for word in call.split()]

    text = run(*words, store=filled).failed(code)

    assert [word for word in told if word not in text] == []
    assert re.match(r"error: [^A-Z]|error: `", text)
    assert not text.partition("\n")[0].endswith(".")


def test_one_command_line_serves_models_with_and_without_a_part(filled):
    # A text model has no tower, and one whose output is tied has no head of its own.
    told = run("create", "x", LLAMA, "-q", "int4", "--vision", "int8", store=filled).succeeded()

    assert "the type that was asked for it decides nothing" in told.stderr
    # The hint against a rule that finds nothing is a command that does list the names.
    words = ("create", "x", LLAMA, "--dry-run")
    text = run(*words, "--rule", "*.nope=int4", store=filled).failed(2)
    assert "hint: Without the rule, `--dry-run --json` lists every name" in text
    names = [one["name"] for one in run(*words, "--json", store=filled).document["tensors"]]
    assert "model.layers.0.mlp.gate_proj.weight" in names


def test_a_plan_shows_the_conditions_of_its_rules_and_only_those_that_decided(filled):
    out = run("create", "x", LLAMA, "-q", "int4", "--dry-run", store=filled).succeeded().stdout

    head = next(line for line in out.splitlines() if "MATCHES" in line)
    assert head.split() == ["MATCHES", "WHERE", "TYPE", "TENSORS", "WHY"]
    assert re.search(r"2-D|elements|divides", out)
    section = out.partition("MATCHES")[2].partition(" of it decided nothing")[0]
    counts = re.findall(r" (?:int\d|keep) +(\d+)\b", section)
    assert sum(map(int, counts)) == 21
    assert re.search(r"rules? of it decided nothing", out)


def test_messages_are_whole_sentences_of_one_model_or_many(filled, tmp_path):
    for number, verb in ((1, "names 1 file that is missing"), (2, "names 2 files that are")):
        files = {f"{n}.safetensors": f"{n}.safetensors" for n in range(number)}
        index = {"weight_map": {f"a{n}": file for n, file in enumerate(files)}}
        place = write(tmp_path / str(number), {"model.safetensors.index.json": index})

        assert verb in run("create", "x", place, store=filled).failed(3)


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
