"""Targets for what a user asks for: recipes, rules, types, sources; and reports of quality."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

from importer.codecs.spec import KEEP, parse_target
from importer.modelfile.go_template import check_template
from importer.modelfile.grammar import parse
from importer.modelfile.instructions import read_modelfile
from importer.modelfile.layers import messages_bytes
from importer.modelfile.parameters import encode
from importer.modelfile.template_tokens import TemplateError
from importer.models.quality import quality_bytes, read_quality
from importer.recipes.document import from_document, spelled, to_document, to_toml
from importer.recipes.options import parse_options
from importer.recipes.recipe import PLAIN, Recipe
from importer.recipes.toml_file import read_recipe
from importer.sources.location import HubRepository, parse_source
from store.errors import IngotError
from store.json import JsonError, dumps, loads
from store.text import is_printable
from tests.fuzz.scratch import SCRATCH

_FACTS = {
    "architecture": ["LlamaForCausalLM"],
    "class": ["LlamaForCausalLM"],
    "kind": ["language model"],
}


def recipe(data: bytes) -> None:
    """A recipe's TOML: what we accept can be recorded and printed, and is read as the same."""
    path = SCRATCH / f"{os.getpid()}.toml"
    path.write_bytes(data)
    try:
        found = read_recipe(str(path))
        target = parse_target("int4") if found.asks else None
        resolved = found.resolve(target, None, _FACTS)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    path.write_text("\n".join(to_toml(_recorded(resolved))), "utf-8")
    assert read_recipe(str(path)).resolve(None, None, _FACTS) == resolved


def recipe_document(data: bytes) -> None:
    """A recipe in a configuration, which may be of another hand."""
    try:
        document = loads(data, floats=True)
    except JsonError:
        return
    if not isinstance(document, dict):
        return
    try:
        found = from_document(document)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    _recorded(found)


def modelfile(data: bytes) -> None:
    """A Modelfile: what it asks for is documents, and an error says where it is wrong."""
    try:
        found = read_modelfile(data, "Modelfile")
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        assert "line " in shown
        return
    for instruction in parse(data, "Modelfile"):
        assert instruction.place.line >= 1 <= instruction.place.column
    assert loads(encode(found.use.parameters), floats=True) is not None
    assert loads(messages_bytes(found.use.messages)) is not None


def template(data: bytes) -> None:
    """A template of Go: it is one, or an error says where it is not."""
    text = data.decode("utf-8", "replace")
    place = 1, 1
    try:
        check_template(text)
    except TemplateError as refused:
        place = refused.line, refused.column
    assert 1 <= place[0] <= text.count("\n") + 1
    assert place[1] >= 1


def rule(data: bytes) -> None:
    """`--rule`: a rule becomes part of a recipe, and is read back as the same."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        (found,) = parse_options(rules=[text]).rules
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    _recorded(Recipe("rules", (found, *PLAIN.rules)))
    found.matches("model.layers.0.self_attn.q_proj.weight")


def type_name(data: bytes) -> None:
    """`-q` and its like: a type's own spelling is read as the same."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = parse_target(text)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    for spelling in (str(found), spelled(found)) if found else (KEEP,):
        assert parse_target(spelling) == found


def source(data: bytes) -> None:
    """SOURCE: a repository's address is read as the same, without its variant."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = parse_source(text)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    if isinstance(found, HubRepository):
        assert parse_source(str(found)) == found._replace(variant=None)


def quality(data: bytes) -> None:
    """A report of quality: what we accept has measures, and is read as the same."""
    try:
        found = read_quality(data)
    except IngotError as refused:
        shown = str(refused)
        assert is_printable(shown)
        return
    assert read_quality(quality_bytes(found)) == found
    known = [one.deviation for one in found if one.deviation is not None]
    for deviation in (*known, *([type(known[0]).total(known)] if known else ())):
        assert deviation.rmse >= 0
        assert not math.isnan(deviation.sqnr)
        assert isinstance(deviation.cosine, float)


def _recorded(found: Recipe) -> dict[str, object]:
    document = to_document(found)
    assert loads(dumps(document)) == document
    assert from_document(document) == found
    return document


TARGETS: dict[str, Callable[[bytes], None]] = {
    "modelfile": modelfile,
    "template": template,
    "recipe": recipe,
    "recipe_document": recipe_document,
    "rule": rule,
    "type_name": type_name,
    "source": source,
    "quality": quality,
}
