"""Laws of the code that import-linter cannot check."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODULES = sorted(
    str(path.relative_to(ROOT))
    for room in ("cli", "importer", "store")
    for path in (ROOT / room).rglob("*.py")
)
LONGEST = 300
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
VAGUE = {"utils", "util", "helpers", "helper", "managers", "manager", "misc", "common"}
WALKS_A_GRAPH = "importer/formats/pytorch/state_dict.py"
"""Its objects are alive while their places are compared, and nothing is kept by them."""


@cache
def nodes(path):
    return list(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))


def found(kind, is_wanted):
    """Where nodes of a kind are, as `path:line`."""
    return [
        f"{path}:{node.lineno}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, kind) and is_wanted(node)
    ]


def test_no_room_below_the_cli_speaks_of_flags():
    said = found(
        ast.Constant, lambda one: isinstance(one.value, str) and FLAG.search(one.value)
    )

    assert [place for place in said if not place.startswith("cli/")] == []


def test_a_file_has_300_lines_at_most():
    lines = {path: (ROOT / path).read_text(encoding="utf-8").count("\n") for path in MODULES}

    assert {path: count for path, count in lines.items() if count > LONGEST} == {}


def test_a_name_says_what_is_in_the_file():
    words = {path: set(path.removesuffix(".py").split("/")) for path in MODULES}

    assert [path for path in MODULES if VAGUE & words[path]] == []


def test_nothing_is_keyed_by_where_an_object_lies():
    # Not true in another process, and of another object once the first is gone.
    def is_id(call):
        return isinstance(call.func, ast.Name) and call.func.id == "id"

    assert {place.partition(":")[0] for place in found(ast.Call, is_id)} <= {WALKS_A_GRAPH}


def test_no_function_changes_the_state_of_its_module():
    assert found(ast.Global, lambda _: True) == []


def test_there_is_one_way_to_be_stopped():
    places = found(ast.ClassDef, lambda one: "Stopped" in one.name)

    assert [place.partition(":")[0] for place in places] == ["store/parallel.py"]


def test_only_the_entry_reads_the_command_line():
    def is_argv(node):
        return node.attr == "argv" and isinstance(node.value, ast.Name)

    assert {place.partition(":")[0] for place in found(ast.Attribute, is_argv)} <= {
        "cli/main.py"
    }
