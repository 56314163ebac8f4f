"""The mixtures of llama-quantize: which tensor gets which type."""

from __future__ import annotations

import json

import pytest

from fixtures.gguf.mixtures import CASES, TYPES, runs, tensors_of
from importer.exports.gguf.mixtures import (
    Facts,
    by_block,
    fitting,
    is_quantized,
    mixed_types,
    trimmed,
)
from importer.exports.gguf.types import FILE_TYPES
from importer.exports.gguf.weighting import importance_of
from importer.formats.imatrix.matrix import ImportanceMatrix
from store.errors import InputError, UsageError
from tests.importer.builders import REPOSITORY
from tests.importer.exports.exporting import planned
from tests.importer.exports.gguf_checkpoints import checkpoint

GOLDEN = json.loads((REPOSITORY / "fixtures" / "gguf" / "mixtures.json").read_bytes())


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", CASES)
def test_every_tensor_gets_the_type_that_llama_quantize_gives_it(name, kind):
    layers, heads, shared, experts, _, _ = CASES[name]
    tensors = sorted(tensors_of(CASES[name]).items(), key=lambda one: by_block(one[0]))
    is_falcon = name.startswith("falcon")
    facts = Facts(layers, experts, heads // shared, is_llama=not is_falcon, is_falcon=is_falcon)

    found = mixed_types(tensors, kind, FILE_TYPES[kind].kind, facts)

    kept = {
        one: "F32" if len(shape) == 1 or "gate_inp" in one else "F16" for one, shape in tensors
    }
    made = {one: made or kept[one] for (one, _), made in zip(tensors, found, strict=True)}
    assert runs(made) == GOLDEN[name][kind]


def test_an_importance_matrix_changes_the_first_layers():
    tensors = [(f"blk.{n}.ffn_down.weight", (256, 256)) for n in range(16)]

    plain = mixed_types(tensors, "Q4_0", "Q4_0", Facts(16))
    weighted = mixed_types(tensors, "Q4_0", "Q4_0", Facts(16, is_weighted=True))

    assert set(plain) == {"Q4_0"}
    assert weighted == ["Q4_1"] * 2 + ["Q4_0"] * 14


@pytest.mark.parametrize(
    ("kind", "columns", "expected"),
    [("Q4_K", 256, "Q4_K"), ("Q4_K", 96, "Q5_0"), ("Q4_K", 80, "F16"), ("Q8_0", 80, "F16")],
)
def test_rows_that_are_not_whole_blocks_get_another_type(kind, columns, expected):
    assert fitting(kind, (4, columns)) == expected


def test_a_matrix_of_one_row_counts_as_a_vector():
    assert trimmed((1, 1, 64)) == (64,)
    assert not is_quantized("blk.0.ffn_gate_inp_shexp.weight", (1, 64))


def test_two_bits_are_not_made_without_an_importance_matrix():
    with pytest.raises(UsageError, match="Q2_K_S"):
        importance_of(None, "blk.0.attn_q.weight", (256, 256), "Q2_K_S", "Q2_K")
    assert importance_of(None, "output.weight", (256, 256), "Q2_K_S", "Q2_K") is None
    empty = ImportanceMatrix({}, (), 0)
    with pytest.raises(InputError, match=r"blk\.0"):
        importance_of(empty, "blk.0.attn_q.weight", (256, 256), "Q2_K_S", "Q2_K")


def test_the_plan_counts_tensors_whose_rows_are_too_short(tmp_path):
    source = checkpoint(tmp_path / "in", "llama")

    k, two, eight = (
        planned(None, tmp_path / "o", "gguf", source=source, q=kind)[1].write
        for kind in ("q4_k_m", "q2_k", "q8_0")
    )

    # As llama-quantize: "15 of 21 tensor(s) required fallback quantization".
    why = "their rows are not multiples of 256"
    assert k.notes == (
        f"13 tensors in Q5_0 instead of Q4_K: {why}",
        f"2 tensors in Q8_0 instead of Q6_K: {why}",
    )
    assert two.notes[0].startswith("9 tensors in Q4_0 instead of Q2_K")
    assert eight.notes == ()
