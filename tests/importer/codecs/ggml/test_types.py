"""The types of GGML beside the tables of gguf-py."""

from __future__ import annotations

import gguf
import pytest

from importer.codecs.ggml.types import GGML_TYPES, NAMED, REMOVED
from store.tensorfile import data_bytes

THEIRS = {int(kind): kind for kind in gguf.GGMLQuantizationType}
OUTDATED = {"Q8_1"}
"""Of these gguf-py counts 8 bytes for d and s, which libggml stores as two F16."""


@pytest.mark.parametrize("kind", GGML_TYPES.values(), ids=lambda kind: kind.name)
def test_a_type_has_the_number_and_the_size_that_gguf_py_knows(kind):
    if kind.number not in THEIRS:
        assert kind.number > max(THEIRS)  # newer than the installed gguf-py
        return
    theirs = THEIRS[kind.number]
    assert theirs.name == kind.name
    if kind.name not in OUTDATED:
        assert gguf.GGML_QUANT_SIZES[theirs] == (kind.elements, kind.nbytes)


def test_no_type_of_gguf_py_is_missing():
    assert THEIRS.keys() <= GGML_TYPES.keys()
    assert not REMOVED.keys() & GGML_TYPES.keys()
    assert {*GGML_TYPES, *REMOVED} == set(range(1 + max(GGML_TYPES)))


@pytest.mark.parametrize(
    "kind", [kind for kind in GGML_TYPES.values() if kind.is_plain], ids=lambda kind: kind.name
)
def test_a_plain_type_is_a_dtype_of_safetensors(kind):
    assert data_bytes(kind.name, (1,)) == kind.nbytes


def test_a_row_is_a_whole_number_of_blocks():
    assert NAMED["Q4_K"].row_nbytes(512) == 288
    with pytest.raises(AssertionError, match="columns in blocks of 256"):
        NAMED["Q4_K"].row_nbytes(128)
