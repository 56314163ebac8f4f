"""Errors: every code has a hint and a line in docs/errors.md, each exit code a whole message.

python tests/test_errors.py    write the table of codes in docs/errors.md again
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import pytest

from cli.hints import _FAMILIES, HINTS
from tests.cli.raised import raised
from tests.cli.runner import run
from tests.importer.builders import MODELS, REPOSITORY, model, write

PAGE = REPOSITORY / "docs" / "errors.md"
BEGIN, END = "| code | exit | what helps |\n|---|---|---|\n", "\n\nErrors go to stderr"
_UNKNOWN = "depends on the case"
LLAMA = MODELS / "tiny-llama"


def table():
    """The rows of docs/errors.md: of each code its exit codes and its hint."""
    return "\n".join(
        f"| `{code}` | {', '.join(map(str, sorted(one.exits)))} | {_hint(code, one)} |"
        for code, one in sorted(raised().items())
    )


def _hint(code, one):
    family = _FAMILIES.get("_".join(code.split("_")[:2]))
    hints = [text for text in one.hints if text != "…"] or [family or _UNKNOWN]
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


def test_the_page_says_of_every_code_what_helps():
    assert [line for line in table().splitlines() if _UNKNOWN in line] == []


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
    section = out.partition("MATCHES")[2].partition(" other rule")[0]
    counts = re.findall(r" (?:int\d|keep) +(\d+)\b", section)
    assert sum(map(int, counts)) == 21
    assert re.search(r"\d other rules? decided nothing", out)


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
