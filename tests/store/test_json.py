from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import limits
from store.json import Fault, JsonError, dumps, loads, sorted_keys
from store.text import is_printable
from tests.strategies import clean_texts, json_documents


def nested(depth):
    return b"[" * depth + b"]" * depth


REFUSED = {
    "invalid UTF-8": (b'"\xff"', Fault.UTF8),
    "byte order mark": (b"\xef\xbb\xbf{}", Fault.SYNTAX),
    "nothing": (b"", Fault.SYNTAX),
    "garbage after it": (b"{} x", Fault.SYNTAX),
    "a NUL after it": (b"{}\x00", Fault.SYNTAX),
    "a second document": (b"{}{}", Fault.SYNTAX),
    "a comment": (b"{} // x", Fault.SYNTAX),
    "a trailing comma": (b"[1,]", Fault.SYNTAX),
    "a control character": (b'"\x1b"', Fault.SYNTAX),
    "a duplicate key": (b'{"a":1,"a":1}', Fault.DUPLICATE),
    "a duplicate key in disguise": (b'{"a":1,"\\u0061":1}', Fault.DUPLICATE),
    "a duplicate key within": (b'{"b":{"a":1,"a":2}}', Fault.DUPLICATE),
    "NaN": (b"NaN", Fault.NUMBER),
    "infinity": (b"[-Infinity]", Fault.NUMBER),
    "a fraction": (b"[1.5]", Fault.NUMBER),
    "an exponent": (b"[1e3]", Fault.NUMBER),
    "5000 digits": (b"1" * 5000, Fault.NUMBER),
    "a negative zero": (b"[-0]", Fault.NUMBER),
    "a lone surrogate": (b'"\\ud800"', Fault.UTF8),
    "a lone surrogate as key": (b'{"\\udc00":1}', Fault.UTF8),
    "one level too deep": (nested(limits.JSON_DEPTH + 1), Fault.DEPTH),
    "100 000 levels": (nested(100_000), Fault.DEPTH),
}


@pytest.mark.parametrize(("data", "fault"), REFUSED.values(), ids=REFUSED)
def test_loads_refuses(data, fault):
    with pytest.raises(JsonError) as caught:
        loads(data)

    assert caught.value.fault is fault


@pytest.mark.parametrize("depth", [1, limits.JSON_DEPTH])
def test_nesting_is_accepted_up_to_the_limit(depth):
    assert loads(nested(depth)) == json.loads(nested(depth))


def test_floats_are_accepted_where_they_are_asked_for():
    assert loads(b"[1.5,1e3]", floats=True) == [1.5, 1000.0]


def test_a_negative_zero_is_a_float():
    assert repr(loads(b'{"top_p-0": [-1, -0, 0]}', floats=True)) == "{'top_p-0': [-1, -0.0, 0]}"
    with pytest.raises(JsonError):
        loads(b"[-0]")


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
