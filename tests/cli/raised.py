"""What the source says of each code: its exit codes, and the hints of its errors."""

from __future__ import annotations

import ast
import functools
from typing import NamedTuple

import store.errors
from store.errors import IngotError
from tests.importer.builders import REPOSITORY


class Raised(NamedTuple):
    """What the source says of a code: exit codes, hints as texts, and whether all have one."""

    exits: set[int]
    hints: dict[str, None]
    are_hinted: list[bool]


class Module(NamedTuple):
    """A module of ours: its dotted name, and what it holds."""

    name: str
    tree: ast.Module


def modules_of_ours():
    for room in ("cli", "importer", "store"):
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
            yield Module(name, ast.parse(path.read_text(encoding="utf-8")))


@functools.cache
def raised():
    """Each code that is raised anywhere."""
    exits = {
        name: one.exit_code
        for name, one in vars(store.errors).items()
        if isinstance(one, type) and issubclass(one, IngotError)
    }
    modules = list(modules_of_ours())
    for node in (node for module in modules for node in module.tree.body):
        if isinstance(node, ast.ClassDef) and node.name not in exits:
            # errors of a room: each is one of the store's
            of = [exits[base.id] for base in node.bases if _named(base) in exits]
            exits |= {node.name: of[0]} if of else {}
    found: dict[str, Raised] = {}
    answers = {module.name: dict(_answers(module.tree)) for module in modules}
    helpers_of = {
        module.name: {
            one.name: one
            for one in _helpers(
                module.tree, exits, _constants(module.tree) | _visible(module, answers)
            )
        }
        for module in modules
    }
    for module in modules:
        constants = _constants(module.tree) | _visible(module, answers)
        helpers = helpers_of[module.name]
        for helper in helpers.values():
            if helper.code is not None:
                one = found.setdefault(helper.code, Raised(set(), {}, []))
                one.exits.add(helper.exit)
                one.hints.update({helper.hint: None} if helper.hint else {})
        for node, known in _calls(module.tree, constants):
            _add(found, node, exits, _visible(module, helpers_of), known)
    return found


def _visible(module, by_module):
    """What a module has of something that others have, too: its own and what it imports."""
    found = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            there = by_module.get(node.module, {})
            names = {one.name: one.asname or one.name for one in node.names}
            found |= {mine: there[name] for name, mine in names.items() if name in there}
    return found | by_module[module.name]


def _constants(tree):
    """What the names of a module stand for, as nodes."""
    return {
        _named(getattr(node, "target", None) or node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
    }


def _answers(tree):
    """Functions that give one text, as nodes; what they are called with depends on the case."""
    constants = _constants(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return):
            value = node.body[-1].value
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                value = constants.get(_named(value.func.value), value)  # TEXT.format(…)
            yield node.name, value


def _calls(tree, constants):
    """Each call with a code, and what names stand for there: what its function gave last."""
    inside = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if _has_code(node) and id(node) not in inside:
                inside.add(id(node))
                given = [
                    one
                    for one in ast.walk(function)
                    if isinstance(one, ast.Assign) and one.lineno < node.lineno
                ]
                given.sort(key=lambda one: one.lineno)
                yield node, constants | {_named(one.targets[0]): one.value for one in given}
    for node in ast.walk(tree):
        if _has_code(node) and id(node) not in inside:
            yield node, constants


def _has_code(node):
    if not isinstance(node, ast.Call):
        return False
    values = (*node.args, *(word.value for word in node.keywords))
    return any(isinstance(one, ast.Constant) and "E_" in str(one.value) for one in values)


def _add(found, node, exits, helpers, constants):
    named = {word.arg: word.value for word in node.keywords}
    codes = [named["code"]] if "code" in named else node.args
    helper = helpers.get(_named(node.func))
    for code in codes:
        if not (isinstance(code, ast.Constant) and str(code.value).startswith("E_")):
            continue
        one = found.setdefault(code.value, Raised(set(), {}, []))
        if _named(node.func) in exits:
            one.exits.add(exits[_named(node.func)])
        elif helper is not None:
            one.exits.add(helper.exit)
        if "code" in named:
            one.are_hinted.append("hint" in named)
        hint = _text(named.get("hint"), constants)
        if hint is None and "hint" not in named and helper is not None:
            hint = helper.hint
        if hint is not None:
            one.hints[hint] = None


class Helper(NamedTuple):
    """A function that raises one error, and what is said where its caller says nothing."""

    name: str
    exit: int
    code: str | None
    hint: str | None


def _helpers(tree, exits, constants):
    """Functions that raise one error with the code that they are given, or else their own."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        args = node.args.args
        defaults = dict(
            zip((one.arg for one in args[::-1]), node.args.defaults[::-1], strict=False)
        )
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or _named(call.func) not in exits:
                continue
            named = {one.arg: one.value for one in call.keywords}
            if _named(named.get("code")) == "code":
                code = defaults.get("code") if args and args[-1].arg == "code" else None
                hint = _text(named.get("hint"), constants | defaults)
                value = getattr(code, "value", None)
                yield Helper(node.name, exits[call.func.id], value, hint)


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
            text = _text(value, constants) if isinstance(value, (ast.Name, ast.Call)) else None
            return "…" if text is None else text
        case ast.Call(func=ast.Name(id=name)):
            return _text(constants.get(name), {})
        case ast.Name(id=name) if name in constants:
            rest = {key: value for key, value in constants.items() if key != name}
            return _text(constants[name], rest)
    return None
