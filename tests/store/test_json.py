from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import limits
from store.json import JsonError, dumps, loads, sorted_keys
from store.text import is_printable
from tests.strategies import clean_texts, json_documents


def nested(depth):
    return b"[" * depth + b"]" * depth


REFUSED = {
    "invalid UTF-8": (b'"\xff"', "E_JSON_UTF8"),
    "byte order mark": (b"\xef\xbb\xbf{}", "E_JSON"),
    "nothing": (b"", "E_JSON"),
    "garbage after it": (b"{} x", "E_JSON"),
    "a NUL after it": (b"{}\x00", "E_JSON"),
    "a second document": (b"{}{}", "E_JSON"),
    "a comment": (b"{} // x", "E_JSON"),
    "a trailing comma": (b"[1,]", "E_JSON"),
    "a control character": (b'"\x1b"', "E_JSON"),
    "a duplicate key": (b'{"a":1,"a":1}', "E_JSON_DUPLICATE"),
    "a duplicate key in disguise": (b'{"a":1,"\\u0061":1}', "E_JSON_DUPLICATE"),
    "a duplicate key within": (b'{"b":{"a":1,"a":2}}', "E_JSON_DUPLICATE"),
    "NaN": (b"NaN", "E_JSON_NUMBER"),
    "infinity": (b"[-Infinity]", "E_JSON_NUMBER"),
    "a fraction": (b"[1.5]", "E_JSON_NUMBER"),
    "an exponent": (b"[1e3]", "E_JSON_NUMBER"),
    "5000 digits": (b"1" * 5000, "E_JSON_NUMBER"),
    "a negative zero": (b"[-0]", "E_JSON_NUMBER"),
    "a lone surrogate": (b'"\\ud800"', "E_JSON_UTF8"),
    "a lone surrogate as key": (b'{"\\udc00":1}', "E_JSON_UTF8"),
    "one level too deep": (nested(limits.JSON_DEPTH + 1), "E_JSON_DEPTH"),
    "100 000 levels": (nested(100_000), "E_JSON_DEPTH"),
}


@pytest.mark.parametrize(("data", "code"), REFUSED.values(), ids=REFUSED)
def test_loads_refuses(data, code):
    with pytest.raises(JsonError) as caught:
        loads(data)

    assert caught.value.code == code


@pytest.mark.parametrize("depth", [1, limits.JSON_DEPTH])
def test_nesting_is_accepted_up_to_the_limit(depth):
    assert loads(nested(depth)) == json.loads(nested(depth))


def test_floats_are_accepted_where_they_are_asked_for():
    assert loads(b"[1.5,1e3]", floats=True) == [1.5, 1000.0]


def test_only_documents_of_real_models_may_have_a_negative_zero():
    assert loads(b'{"-0": [1, -0]}', constants=True) == {"-0": [1, 0]}
    assert loads(b'{"layer-0": [-1, -0.0]}', floats=True) == {"layer-0": [-1, 0.0]}
    with pytest.raises(JsonError):
        loads(b"[-0]", floats=True)


def test_a_float_that_is_infinite_is_refused():
    with pytest.raises(JsonError):
        loads(b"[1e999]", floats=True)


def test_constants_are_accepted_where_they_are_asked_for():
    assert loads(b"[Infinity]", constants=True) == [float("inf")]


def test_a_pair_of_surrogates_is_one_character():
    assert loads(b'"\\ud83e\\udd99"') == "🦙"


@given(st.binary(max_size=40) | json_documents.map(lambda value: json.dumps(value).encode()))
def test_loads_is_total(data):
    try:
        value = loads(data)
    except JsonError:
        return
    assert value == json.loads(data)


@pytest.mark.parametrize("key", ["\\u001b]0;x", "\\ud800", "\\u202e"])
def test_a_refusal_can_be_printed(key):
    with pytest.raises(JsonError) as caught:
        loads(f'{{"{key}":1,"{key}":2}}'.encode())

    assert is_printable(str(caught.value))


@given(json_documents)
def test_what_is_written_reads_back(document):
    assert loads(dumps(document)) == document


@given(json_documents)
def test_what_is_written_is_what_go_escapes(document):
    text = dumps(document).decode()

    assert not any(char in text for char in "<>&\u2028\u2029")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, True, None], "b": {}}, '{"a":[1,true,null],"b":{}}'),
        ("<a>&b", r'"\u003ca\u003e\u0026b"'),
        ("\u2028\u2029", r'"\u2028\u2029"'),
        ('"\\/', r'"\"\\/"'),
        ("\b\f\n\r\t", r'"\b\f\n\r\t"'),
        ("\x00\x1f", r'"\u0000\u001f"'),
        ("\x7fé🦙", '"\x7fé🦙"'),
        (2**64, "18446744073709551616"),
    ],
)
def test_dumps_writes_as_go_marshals(value, text):
    assert dumps(value) == text.encode()


@pytest.mark.parametrize("value", [0.5, 1.0, float("nan"), [{"a": (1, 2.0)}]])
def test_floats_are_not_written(value):
    with pytest.raises(ValueError, match="float"):
        dumps(value)


@given(st.dictionaries(clean_texts, st.integers()))
def test_keys_are_sorted_by_their_bytes(mapping):
    keys = [key.encode() for key in sorted_keys(mapping)]

    assert keys == sorted(keys)


def test_keys_beyond_the_basic_plane_come_last():
    assert list(sorted_keys({"🦙": 1, "\uffff": 2, "a": 3})) == ["a", "\uffff", "🦙"]
