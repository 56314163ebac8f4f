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
    # Expected and got: both, of a value that should have been another one.
    assert re.search(_BOTH, message) or code not in CONTRASTS, message
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


CONTRASTS = frozenset(
    (
        *("E_BUDGET_BITS", "E_CALIBRATE_UNUSED", "E_CLUSTER_ADDRESS", "E_CONFIG", "E_DIGEST"),
        *("E_DRAFT", "E_EVAL_KINDS", "E_EXPORT_FORMAT", "E_EXPORT_SPLIT", "E_EXPORT_TYPE"),
        *("E_GGUF_ALIGNMENT", "E_GGUF_CONTENT", "E_GGUF_NAME", "E_GGUF_TRUNCATED"),
        *("E_GGUF_VERSION", "E_GROUP_FIXED", "E_ID", "E_IMATRIX_CONTENT", "E_LIMIT"),
        *("E_NAME_TAKEN", "E_ONNX_CONTENT", "E_ONNX_TENSOR", "E_PT_CONTENT", "E_PT_PICKLE"),
        *("E_PT_TRUNCATED", "E_QUALITY", "E_QUANT_GROUP", "E_QUANT_RECIPE", "E_QUANT_TYPE"),
        *("E_RECIPE", "E_RULE", "E_SENSITIVITY", "E_STORE_PATH", "E_ST_CONTENT"),
        *("E_ARCHIVE", "E_ATTACHMENT", "E_EVAL_TOKENS", "E_GGUF_CONFIG", "E_GGUF_KIND"),
        *("E_GGUF_MODEL", "E_IMATRIX_SHAPE", "E_MANIFEST", "E_MEMORY_LIMIT"),
        *("E_REGISTRY_KIND", "E_ST_HEADER_SIZE", "E_ST_SHORT", "E_ST_SIZE"),
        *("E_ST_TRUNCATED", "E_UQFF_SHARD"),
        *("E_ST_OFFSETS", "E_ST_RANK", "E_SYNC", "E_SYNC_LOCK", "E_UQFF_KIND", "E_USAGE"),
    )
)
"""Codes of what has a wrong value: the message has it, and what was expected."""
_BOTH = r"(`[^`]*`|\d|\bempty\b).*(\bexpected \S|, the limit .*is \d)"
_BY_CHANCE = r"sha256:[0-9a-f]{64}|/tmp/[^/`]+/[^/`]+(?=`)"
"""A blob of several, or the folder of a writer."""
_OF_THE_MACHINE = {"E_MEMORY", "E_BUG", "E_STDOUT"}
"""Which speak of the process itself, and nothing else."""
