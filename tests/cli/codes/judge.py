"""What an error says is judged: what, which, expected, got, and what helps."""

from __future__ import annotations

import json
import re

from tests.cli.runner import run


def judged(code, *words, store):
    """Judge the error that a command ends with, in JSON and in words."""
    told = run(*words, "--json", store=store)
    assert (told.stdout, told.code) != ("", 0)
    error = json.loads(told.stderr.splitlines()[-1])
    assert error["code"] == code, error
    message, hint = error["message"], error["hint"]
    # Which: something is named. What and what helps: a message and a hint, each one thought.
    assert re.search(r"`[^`]+`|\d", message) or code in _OF_THE_MACHINE, message
    assert re.match(r"[a-z`\d]|[A-Z_]+ ", message), message
    assert not message.endswith("."), message
    # Got: a Python object or its parser has no words of its own in front of a user.
    assert not re.search(r"`?None`?\b|\bobject at 0x|\bchar \d+\)|Error\(", message), message
    assert hint, message
    assert not hint.endswith("."), hint
    assert hint != message
    # Several transfers go on at once, and another one may fail first.
    text, message, hint = (
        re.sub(_BY_CHANCE, "", one) for one in (run(*words, store=store).stderr, message, hint)
    )
    assert f"error: {message.partition(',')[0]}" in text
    assert f"hint: {hint}\n" in text


_BY_CHANCE = r"sha256:[0-9a-f]{64}|/tmp/[^/`]+/[^/`]+(?=`)"
"""A blob of several, or the folder of a writer."""
_OF_THE_MACHINE = {"E_MEMORY", "E_BUG", "E_STDOUT"}
"""Which speak of the process itself, and nothing else."""
