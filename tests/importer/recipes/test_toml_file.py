"""Recipe files: presets and those of users, read strictly."""

from __future__ import annotations

import os
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.hints import hint_for
from importer.codecs.spec import parse_target
from importer.recipes.depths import Depths
from importer.recipes.recipe import Misaligned
from importer.recipes.rule import Rule
from importer.recipes.toml_file import presets, read_document, read_recipe
from store.errors import InputError, NotFoundError
from store.text import printable
from tests.importer.builders import REPOSITORY

NO_FACTS = {"architecture": [], "class": [], "kind": [], "format": []}
RULE = '[[rule]]\nmatch = "*.weight"\ntype = "int4"\n'


def read(tmp_path, content, name="mine.toml"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_recipe(str(path))


def resolve(found, target=None, group_size=None, **facts):
    return found.resolve(target, group_size, NO_FACTS | facts)


def test_a_preset_is_of_this_directory():
    assert presets() == [
        "budget",
        "default",
        "downcast",
        "linears",
        "mixed_2_6",
        "mixed_3_4",
        "mixed_3_6",
        "mixed_4_6",
        "mlx",
        "ollama",
        "repack",
        "uniform",
    ]


@pytest.mark.parametrize("name", presets())
@pytest.mark.parametrize("kind", ["model", "pipeline", "sentence"])
def test_a_preset_decides_on_everything_and_no_rule_must(name, kind):
    found = read_recipe(name)
    target = parse_target("int4") if found.asks else None

    recipe = resolve(found, target, kind=[kind])

    assert recipe.name == found.name == name
    assert recipe.rules[-1].takes_all
    assert not any(rule.takes_all for rule in recipe.rules[:-1])
    assert all(rule.optional and rule.reason for rule in recipe.rules)


def test_every_key_is_read(tmp_path):
    found = read(
        tmp_path,
        """
        name = "kind"
        type = "q4"
        group_size = 128
        misaligned = "adjust"
        experts = "stacked"
        nonfinite = "allow"

        [[rule]]
        match = ["*.a", "b"]
        type = "requested"
        reason = "because"
        ndim = [2, 3]
        dtype = "BF16"
        min_elements = 7
        layers = "0-3,5"
        optional = true

        [[rule]]
        match = "*.c"
        type = "int8"

        [[rule]]
        match = "*.d"
        type = "int8/32"

        [[rule]]
        match = "*.e"
        type = "mxfp8"
        """,
    )

    recipe = resolve(found, parse_target("int6"))

    assert (recipe.name, recipe.type, recipe.misaligned) == ("kind", "int6/128", "adjust")
    assert (recipe.stacked, recipe.allow_nonfinite) == (True, True)
    assert recipe.rules == (
        Rule(
            ("*.a", "b"),
            parse_target("int6/128"),
            "because",
            (2, 3),
            ("BF16",),
            7,
            "0-3,5",
            optional=True,
        ),
        Rule(("*.c",), parse_target("int8/128"), "as the recipe says"),
        Rule(("*.d",), parse_target("int8/32"), "as the recipe says"),
        Rule(("*.e",), parse_target("mxfp8"), "as the recipe says"),
        Rule(("*",), None, "no rule matches", optional=True),
    )


def test_what_is_left_out_is_what_create_does_without_it(tmp_path):
    found = read(tmp_path, RULE)

    assert (found.name, found.type, found.group_size) == ("mine", "", None)
    assert (found.misaligned, found.stacked, found.allow_nonfinite) == (
        Misaligned.KEEP,
        False,
        False,
    )


@pytest.mark.parametrize(
    "condition", ["", "ndim = [2]", 'dtype = "F32"', "min_elements = 9", 'layers = "0"']
)
def test_there_is_always_a_rule_that_decides(tmp_path, condition):
    found = read(tmp_path, f'[[rule]]\nmatch = "*"\ntype = "int8"\n{condition}\n')

    recipe = resolve(found)

    decision = recipe.decide("a", "U8", (3,), Depths(()))
    assert decision.target is None
    assert decision.fits == bool(condition)
    assert len(recipe.rules) == (2 if condition else 1)


@pytest.mark.parametrize(
    ("when", "facts", "applies"),
    [
        ('architecture = "Llama*"', {"architecture": ["LlamaForCausalLM", "llama"]}, True),
        (
            'architecture = ["x", "llama"]',
            {"architecture": ["LlamaForCausalLM", "llama"]},
            True,
        ),
        ('architecture = "llama"', {"architecture": ["mllama"]}, False),
        ('architecture = "*"', {}, False),
        ('kind = "pipeline"', {"kind": ["pipeline"]}, True),
        ('kind = "pipeline"', {"kind": ["model"]}, False),
        ('type = "int?"', {}, True),
        ('type = ["nvfp4", "int8"]', {}, False),
        ('kind = "model", type = "int4"', {"kind": ["model"]}, True),
        ('kind = "model", type = "int8"', {"kind": ["model"]}, False),
    ],
)
def test_all_conditions_must_be_met_by_one_of_their_globs(tmp_path, when, facts, applies):
    found = read(tmp_path, f'[[rule]]\nmatch = "*"\ntype = "requested"\nwhen = {{ {when} }}\n')

    recipe = resolve(found, parse_target("int4"), **facts)

    assert (recipe.rules[0].target is not None) == applies


BAD = {
    "not UTF-8": (b'name = "\xff"\n', "utf-8"),
    "not TOML": ("rule: - x\n", "line 1"),
    "empty": ("", r"no [[rule]]"),
    "no rule": ('name = "x"\n', r"no [[rule]]"),
    "a rule that is a table": ('[rule]\nmatch = "a"\n', r"`rule` is written [[rule]]"),
    "rules that are no tables": ("rule = [1, 2]\n", "rule 1: expected a table"),
    "no match": ('[[rule]]\ntype = "int4"\n', "rule 1: expected `match`"),
    "no glob": ('[[rule]]\nmatch = []\ntype = "int4"\n', "expected `match`"),
    "an empty glob": ('[[rule]]\nmatch = ["a", ""]\ntype = "int4"\n', "expected `match`"),
    "no type": (f'{RULE}[[rule]]\nmatch = "a"\n', "rule 2: expected `match`"),
    "a long glob": (f'[[rule]]\nmatch = "{"*a" * 513}"\ntype = "int4"\n', "longer than a name"),
    "match of numbers": ('[[rule]]\nmatch = [1]\ntype = "int4"\n', "`match` is neither text"),
    "a type that is no text": ('[[rule]]\nmatch = "a"\ntype = 4\n', "`type` is not text"),
    "no such type": ('[[rule]]\nmatch = "a"\ntype = "fp8"\n', "`fp8` is not a type"),
    "no such group size": ('[[rule]]\nmatch = "a"\ntype = "int4/7"\n', "in groups of 7"),
    "type of a file": (f'type = "int9"\n{RULE}', "`int9` is not a type"),
    "group size of a file": (f"group_size = 7\n{RULE}", "`group_size` is 7"),
    "a huge group size": (f"group_size = {10**4000}\n{RULE}", "`group_size` is 1000"),
    "an integer that Python refuses": (f"group_size = {'9' * 5000}\n{RULE}", "digits"),
    "a negative number": (f"{RULE}min_elements = -1\n", "`min_elements` is not an integer"),
    "a boolean as a number": (f"{RULE}min_elements = true\n", "`min_elements` is not an"),
    "a float": (f"{RULE}min_elements = 1e3\n", "`min_elements` is not an integer"),
    "ndim of text": (f'{RULE}ndim = ["2"]\n', "`ndim` is not a list of integers"),
    "ndim of booleans": (f"{RULE}ndim = [true]\n", "`ndim` is not a list of integers"),
    "a number as ndim": (f"{RULE}ndim = 2\n", "`ndim` is not a list of integers"),
    "optional of text": (f'{RULE}optional = "no"\n', "`optional` is neither true nor false"),
    "layers": (f'{RULE}layers = "0..3"\n', "layers `0..3`, expected 0-3,28-31 or first-last"),
    "misaligned": (f'misaligned = "skip"\n{RULE}', "expected adjust or error or keep"),
    "experts": (f"experts = 1\n{RULE}", "`experts` is not text"),
    "nonfinite": (f'nonfinite = "yes"\n{RULE}', "expected allow or error"),
    "an unknown key": (f"grup_size = 64\n{RULE}", "`grup_size` is not a key"),
    "an unknown key of a rule": (f'{RULE}mach = "a"\n', "rule 1: `mach` is not a key"),
    "an unknown condition": (f'{RULE}when = {{ arch = "x" }}\n', "rule 1: when: `arch` is not"),
    "a condition of numbers": (f"{RULE}when = {{ kind = 1 }}\n", "`kind` is neither text"),
    "when as text": (f'{RULE}when = "llama"\n', "rule 1: when: expected a table"),
    "escape codes": (f'"\\u001b]0;x\\u0007" = 1\n{RULE}', r"`\x1b]0;x\x07` is not a key"),
    "escape codes in a type": ('[[rule]]\nmatch = "a"\ntype = "\\u001b[2J"\n', r"\x1b[2J"),
    "deep arrays": ("a = " + "[" * 60_000, ""),
    "a deep key": ("a." * 30_000 + "a = 1\n", "64 parts"),
    "a deep quoted key": ('"a" . ' * 10_000 + "a = 1\n", "64 parts"),
    "a deep table": ("[" + "a." * 30_000 + "a]\n", "64 parts"),
    "a key twice": (f"{RULE}{RULE[9:]}", "line 4"),
    "a NUL": ('name = "\x00"\n', "line 1"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_is_no_recipe_is_one_clean_error(tmp_path, what):
    content, expected = BAD[what]

    started = time.perf_counter()
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)

    assert time.perf_counter() - started < 5  # a load of 10 included; tomllib alone takes 40 s
    message = str(caught.value)
    assert message.startswith(f"recipe `{printable(str(tmp_path / 'mine.toml'))}`: ")
    assert expected in message
    assert len(message) < 500
    assert message.isprintable()
    assert (caught.value.code, caught.value.exit_code) == ("E_RECIPE", 3)
    assert hint_for(caught.value)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (f"grup_size = 64\n{RULE}", "Did you mean `group_size`?"),
        (f'{RULE}mach = "a"\n', "Did you mean `match`?"),
        ('[[rule]]\nmtch = "a"\ntype = "int4"\n', "Did you mean `match`?"),
        ('[[rule]]\nmatch = "a"\ntpye = "int4"\n', "Did you mean `type`?"),
        (f'{RULE}when = {{ archtecture = "x" }}\n', "Did you mean `architecture`?"),
        ('[[rule]]\nmatch = "a"\ntype = "nvpf4"\n', "Did you mean `nvfp4`?"),
    ],
)
def test_a_misspelled_key_or_type_is_asked_about(tmp_path, content, hint):
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)

    assert caught.value.hint == hint


def test_a_misspelled_preset_is_asked_about():
    with pytest.raises(NotFoundError) as caught:
        read_recipe("mixed36")

    assert caught.value.hint.startswith("Did you mean `mixed_3_6`? The presets are budget, ")


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    with pytest.raises(InputError, match="more than 1048576 bytes") as caught:
        read(tmp_path, b"#" * (2 << 20))

    assert caught.value.code == "E_LIMIT"
    assert read(tmp_path, RULE + "#" * ((1 << 20) - len(RULE))).asks is False


@pytest.mark.parametrize("name", ["none", "default.toml", "a\x00b", "", "/", "f/x"])
def test_a_recipe_that_is_not_there_is_told(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text(RULE)

    with pytest.raises(NotFoundError) as caught:
        read_recipe(name)
    assert caught.value.exit_code == 9
    assert "mixed_4_6" in caught.value.hint


def test_a_recipe_s_name_is_text_whatever_the_file_is_called(tmp_path):
    path = tmp_path / "a\udcff.toml"
    path.write_text(RULE)

    assert read_recipe(str(path)).name == "a\N{REPLACEMENT CHARACTER}"


def test_a_preset_s_name_is_the_preset_s(tmp_path, monkeypatch):
    (tmp_path / "uniform").write_text(RULE)
    monkeypatch.chdir(tmp_path)

    assert read_recipe("uniform").asks
    assert not read_recipe("./uniform").asks


def test_a_recipe_can_be_piped():
    reader, writer = os.pipe()
    os.write(writer, RULE.encode())
    os.close(writer)

    assert not read_recipe(f"/dev/fd/{reader}").asks
    os.close(reader)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(
        ["*", "int4", "requested", "keep", "0-3", "more-bits", "adjust", "stacked", "allow"]
    ),
    lambda child: st.lists(child, max_size=3)
    | st.dictionaries(st.sampled_from(["architecture", "kind", "type", "x"]), child),
    max_leaves=4,
)  # fmt: skip
_keys = st.sampled_from(
    ["match", "type", "reason", "ndim", "dtype", "min_elements", "layers", "optional", "when"]
)
_documents = st.fixed_dictionaries(
    {"rule": st.lists(st.dictionaries(_keys, _values, max_size=4), max_size=2) | _values},
    optional=dict.fromkeys(["name", "type", "group_size", "misaligned", "experts"], _values),
)


@given(_documents)
def test_any_document_is_a_recipe_or_bad_input(document):
    try:
        found = read_document("x", document)
    except InputError:
        return
    recipe = resolve(found, parse_target("int4"))
    recipe.decide("a.weight", "BF16", (2, 64), Depths(()))


def test_the_documented_example_is_a_recipe(tmp_path):
    page = (REPOSITORY / "docs" / "recipes.md").read_text(encoding="utf-8")
    found = read(tmp_path, re.search(r"^```toml .*\n([^`]*)```", page, re.MULTILINE)[1])

    recipe = resolve(found, parse_target("int4"))

    assert found.name == "careful"
    assert [str(rule.target) for rule in recipe.rules] == ["int8", "int4/64", "None"]
    assert all(f"`{name}`" in page for name in presets())
