from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.names import ModelName
from store.paths import why_unsafe
from store.text import is_printable
from tests.strategies import model_names, texts

HOST, OWNER = "registry.ollama.ai", "library"

# Numbers are the rows of reliability.md 3.2.
REFUSED = {
    "N01 up": "../../x",
    "N01 up within": "a/../b",
    "N01 empty part": "a//b",
    "N01 absolute": "/a",
    "N02 dots": "..",
    "N02 dot": ".",
    "N02 too many parts": "a/b/c/d/e",
    "N02 four parts": "a/b/c/d",
    "N03 device": "con",
    "N03 device in capitals": "NUL",
    "N03 device with a tag": "nul:latest",
    "N03 device with an extension": "con.txt",
    "N03 device as namespace": "aux/x",
    "N03 device as tag": "x:lpt1",
    "N03 device as host": "con.example/a/b",
    "N03 devices everywhere": "aux/lpt1:com1",
    "N03 port": "com1",
    "N03 dot at the end": "a.",
    "N03 dot at the end of a tag": "x:tag.",
    "N04 two colons": "a:b:c",
    "N04 empty tag": "a:",
    "N04 nothing but a tag": ":latest",
    "N04 nothing": "",
    "N04 slash at the end": "a/",
    "N04 81 characters": "a" * 81,
    "N04 namespace of 81": "a" * 81 + "/x",
    "N04 tag of 81": "x:" + "a" * 81,
    "N04 host of 400": "a" * 400 + "/b/c",
    "N05 homoglyph": "ll\u0430ma",
    "N05 fullwidth": "\uff4clama",
    "N05 combining": "e\u0301",
    "N05 digit of another script": "x\u0661",
    "N06 flag": "--help",
    "N06 dash": "-x",
    "N06 dash in a tag": "x:-y",
    "N08 NUL": "a\x00b",
    "N08 newline": "a\n",
    "N08 escape": "a\x1b[2J",
    "a dot in a namespace": "a.b/x",
    "a digest": "x@sha256:" + "0" * 64,
    "a blank": "a b",
    "a backslash": "a\\b",
    "hidden": ".git",
    "only a scheme": "https://",
    "a scheme before a model": "https://m",
    "a scheme before a model and a tag": "http://m:q4",
    "a scheme before a namespace": "https://n/m",
    "a scheme twice": "https://https://h/n/m",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_bad_name_is_refused(text):
    with pytest.raises(UsageError) as caught:
        ModelName.parse(text)

    assert (caught.value.code, caught.value.exit_code) == ("E_NAME", 2)


@given(texts)
def test_a_text_is_a_name_or_a_refusal_that_can_be_printed(text):
    refusal = ""
    try:
        ModelName.parse(text)
    except UsageError as error:
        refusal = str(error)

    assert is_printable(refusal)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("llama", (HOST, OWNER, "llama", "latest")),
        ("llama:8b", (HOST, OWNER, "llama", "8b")),
        ("me/llama:8b", (HOST, "me", "llama", "8b")),
        ("example.com/me/llama", ("example.com", "me", "llama", "latest")),
        ("localhost:5000/me/llama", ("localhost:5000", "me", "llama", "latest")),
        ("localhost:5000/me/llama:q4", ("localhost:5000", "me", "llama", "q4")),
        ("https://example.com/me/llama:q4", ("example.com", "me", "llama", "q4")),
        ("Qwen3.5-0.8B_x:Q4_K_M", (HOST, OWNER, "Qwen3.5-0.8B_x", "Q4_K_M")),
        ("_", (HOST, OWNER, "_", "latest")),
        ("a..b", (HOST, OWNER, "a..b", "latest")),
        ("con1", (HOST, OWNER, "con1", "latest")),
        ("a" * 80, (HOST, OWNER, "a" * 80, "latest")),
    ],
)
def test_a_name_is_read_as_ollama_reads_it(text, parts):
    assert ModelName.parse(text).parts == parts


@pytest.mark.parametrize(
    "text", ["llama:latest", "me/llama:8b", "example.com/library/llama:8b"]
)
def test_a_name_is_written_as_short_as_can_be(text):
    assert str(ModelName.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Registry.Ollama.AI/Library/llama", "llama:latest"),
        ("registry.ollama.ai/LIBRARY/Llama:8B", "Llama:8B"),
        ("REGISTRY.ollama.ai/me/llama", "me/llama:latest"),
        ("Example.com/Library/llama", "Example.com/Library/llama:latest"),
    ],
)
def test_the_default_host_and_namespace_are_known_in_any_case(text, shown):
    assert str(ModelName.parse(text)) == shown


def folded(name):
    parts = list(name.parts)
    for index, default in enumerate((HOST, OWNER)):
        if parts[index].lower() != default:
            break
        parts[index] = default
    return ModelName(*parts)


@given(model_names)
def test_a_name_parses_back_from_its_text(name):
    assert ModelName.parse(str(name)) == folded(name)


@given(model_names)
def test_the_path_of_a_name_stays_below_manifests(name):
    assert all(part not in {"", ".", ".."} and "/" not in part for part in name.parts)


@given(model_names.filter(lambda name: ":" not in name.host))
def test_the_path_of_a_name_is_safe_on_every_system(name):
    assert why_unsafe("/".join(name.parts)) is None


@given(st.tuples(*[st.text(max_size=5)] * 4))
def test_a_name_cannot_be_made_of_bad_parts(parts):
    try:
        name = ModelName(*parts)
    except UsageError:
        return
    assert ModelName.parse(str(name)) == folded(name)
