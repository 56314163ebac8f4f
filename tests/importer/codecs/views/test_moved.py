"""What moves rows and columns: the converter's own formulas, undone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.codecs.ggml.decoder import Ggml
from importer.codecs.ggml.types import NAMED
from importer.codecs.plain import Plain
from importer.codecs.registry import has_blocks, transcoder_for
from importer.codecs.runtime import NUMPY
from importer.codecs.scaled.factor import Scaled
from importer.codecs.views.regrouped import Regrouper
from importer.codecs.views.rotated import Rotated
from importer.codecs.views.transposed import Transposed
from importer.codecs.views.undone import Change, Undone
from importer.codecs.views.woven import Pattern, Strand, Woven
from tests.importer.codecs import laws

few = settings(max_examples=max(5, settings.default.max_examples // 3))
INNERS = {"F16": (Plain("F16"), 1), "U8": (Plain("U8"), 1), "Q8_0": (Ggml("Q8_0"), 32)}
inners = st.sampled_from(sorted(INNERS))
small = st.integers(1, 4)


class Case(NamedTuple):
    subject: object


def make(inner, rows, width, rng):
    """Stored rows, and their values as the inner decoder gives them."""
    kind = NAMED.get(str(inner)) if isinstance(inner, Ggml) else None
    if kind is not None:
        stored = rng.bytes(rows * kind.row_nbytes(width))
    else:
        stored = rng.bytes(rows * width * (1 if inner.value_dtype == "U8" else 2))
    values = inner.decode([stored], (rows, width), range(rows * width), NUMPY)
    item = memoryview(values).nbytes // max(rows * width, 1)
    return stored, np.frombuffer(values, f"V{max(item, 1)}").reshape(rows, width)


def check(subject, shape, stored, want, data):
    assert subject.can_read(shape)
    places = data.draw(laws.cuts(Case(subject), shape))
    laws.check_decoder(Case(subject), shape, stored, places, NUMPY)
    laws.check_is_a_value(subject)
    whole = [0, math.prod(shape)]
    assert laws.decoded(subject, shape, stored, whole, NUMPY) == want.tobytes()


@few
@given(inners, small, small, small, st.data())
def test_a_rotated_head_gets_its_halves_back(name, heads, half, columns, data):
    inner, multiple = INNERS[name]
    rows, width = heads * half * 2, columns * multiple
    stored, values = make(inner, rows, width, np.random.default_rng(rows))
    # What the converter did: reshape(heads, 2, half, …).swapaxes(1, 2).
    want = values.reshape(heads, half, 2, width).swapaxes(1, 2).reshape(rows, width)
    again = want.reshape(heads, 2, half, width).swapaxes(1, 2).reshape(rows, width)
    assert again.tobytes() == values.tobytes()
    check(Rotated(inner, half * 2, width), (rows, width), [stored], want, data)


@few
@given(inners, st.lists(small, min_size=1, max_size=4), small, small, st.data())
def test_woven_rows_take_turns(name, counts, times, columns, data):
    inner, multiple = INNERS[name]
    width = columns * multiple
    rng = np.random.default_rng(sum(counts))
    made = [make(inner, count * times, width, rng) for count in counts]
    turns = [
        values[turn * count : (turn + 1) * count]
        for turn in range(times)
        for (_, values), count in zip(made, counts, strict=True)
    ]
    strands = tuple(Strand(number, count) for number, count in enumerate(counts))
    woven = Woven((inner,) * len(counts), (Pattern(strands, times),), width)
    want = np.concatenate(turns)
    check(woven, want.shape, [stored for stored, _ in made], want, data)


@few
@given(small, small, small, small, st.data())
def test_patterns_follow_each_other(before, runs, groups, each, data):
    """As of Qwen3.5: q and k first, and then the heads of v by their key head."""
    inner, width = Plain("F16"), 3
    rng = np.random.default_rng(before)
    start = make(inner, before, width, rng)
    heads = [make(inner, groups * each, width, rng) for _ in range(runs)]
    values = np.stack([v.reshape(groups, each, width) for _, v in heads], axis=1)
    want = np.concatenate([start[1], values.reshape(-1, width)])
    strands = tuple(Strand(1 + run, each) for run in range(runs))
    patterns = (Pattern((Strand(0, before),), 1), Pattern(strands, groups))
    woven = Woven((inner,) * (runs + 1), patterns, width)
    check(woven, want.shape, [start[0], *(stored for stored, _ in heads)], want, data)


@few
@given(small, small, small, st.data())
def test_rotated_rows_are_woven_in_whole_heads(groups, each, half, data):
    """As of InternLM2: q, k and v of a group, of which q and k are turned."""
    inner, width, head = Plain("F16"), 2, half * 2
    rng = np.random.default_rng(groups)
    q = make(inner, groups * each * head, width, rng)
    k, v = (make(inner, groups * head, width, rng) for _ in range(2))

    def turned(values):
        return values.reshape(-1, half, 2, width).swapaxes(1, 2)

    parts = [
        turned(q[1]).reshape(groups, -1, width),
        turned(k[1]).reshape(groups, -1, width),
        v[1].reshape(groups, -1, width),
    ]
    want = np.concatenate(parts, axis=1).reshape(-1, width)
    rotated = Rotated(inner, head, width)
    strands = (Strand(0, each * head), Strand(1, head), Strand(2, head))
    woven = Woven((rotated, rotated, inner), (Pattern(strands, groups),), width)
    check(woven, want.shape, [q[0], k[0], v[0]], want, data)


@few
@given(inners, st.tuples(small, small, small, small), st.data())
def test_matrices_are_transposed(name, sizes, data):
    """As of GPT-OSS: gates and ups in turn, matrices the other way around."""
    matrices, first, second, columns = sizes
    inner, multiple = INNERS[name]
    width, rows = columns * multiple, first + second
    rng = np.random.default_rng(rows)
    made = [make(inner, matrices * count, width, rng) for count in (first, second)]
    values = [v.reshape(matrices, -1, width) for _, v in made]
    want = np.concatenate(values, axis=1).swapaxes(1, 2)
    pattern = Pattern((Strand(0, first), Strand(1, second)), 1)
    subject = Transposed(Woven((inner, inner), (pattern,), width))
    stored = [one for one, _ in made]
    check(subject, (matrices, width, rows), stored, np.ascontiguousarray(want), data)


def test_a_large_matrix_is_transposed_in_tiles():
    inner, rows, width = Plain("F16"), 1000, 1024
    stored, values = make(inner, rows, width, np.random.default_rng(1))
    subject = Transposed(Woven((inner,), (Pattern((Strand(0, rows),), 1),), width))
    shape = (width, rows)
    assert subject.unit(shape) == 256 * rows
    (span,) = subject.spans(shape, range(256 * rows, 512 * rows))
    assert span == (512, 512 * rows, rows, 2048)
    places = [*range(0, rows * width + 1, 256 * rows)]
    made = laws.decoded(subject, shape, [stored], places, NUMPY)
    assert made == values.T.tobytes()


@few
@given(inners, st.tuples(small, small, small, small), st.data())
def test_columns_are_regrouped(name, sizes, data):
    """As of Qwen3.5's out_proj."""
    rows, groups, runs, columns = sizes
    inner, multiple = INNERS[name]
    width = groups * runs * columns * multiple
    stored, values = make(inner, rows, width, np.random.default_rng(rows))
    parts = values.reshape(rows, runs, groups, -1)
    want = np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(rows, width)
    subject = Regrouper(inner, groups, runs, columns * multiple)
    check(subject, (rows, width), [stored], want, data)


@pytest.mark.parametrize("make_subject", ["rotated", "woven", "regrouped"])
def test_rows_of_blocks_move_without_being_decoded(make_subject):
    """The same order for the bytes: decoding after is decoding before."""
    inner, rows, width = Ggml("Q8_0"), 8, 64
    stored, _ = make(inner, rows, width, np.random.default_rng(2))
    pattern = Pattern((Strand(0, 3), Strand(1, 1)), 2)
    subject, arrays = {
        "rotated": (Rotated(inner, 4, width), [stored]),
        "woven": (
            Woven((inner, inner), (pattern,), width),
            [stored[: 6 * 68], stored[6 * 68 :]],
        ),
        "regrouped": (Regrouper(inner, 2, 1, 32), [stored]),
    }[make_subject]
    moves = transcoder_for(None, subject)
    assert [part[1:] for part in moves.parts((rows, width))] == [("U8", (rows, 68))]
    laws.check_transcoder(Case(moves), (rows, width), arrays, [0, rows * width], NUMPY)
    made = moves.convert(arrays, (rows, width), range(rows * width), NUMPY)
    values = inner.decode(made.parts, (rows, width), range(rows * width), NUMPY)
    want = subject.decode(arrays, (rows, width), range(rows * width), NUMPY)
    assert bytes(values) == bytes(want)


def test_what_moves_values_keeps_no_blocks():
    inner = Ggml("Q4_K")
    turn = Pattern((Strand(0, 4),), 1)
    transposed = Transposed(Woven((inner,), (turn,), 256))
    both = Pattern((Strand(0, 1), Strand(1, 1)), 4)
    for subject in (
        transposed,
        Woven((transposed, inner), (both,), 4),
        Woven((inner, Ggml("Q6_K")), (both,), 256),
        Regrouper(inner, 2, 1, 128),
        Rotated(Plain("F16"), 2, 4),
    ):
        assert not has_blocks(subject) or subject.is_plain


@pytest.mark.parametrize(
    ("subject", "shape"),
    [
        (Rotated(Plain("F16"), 3, 4), (6, 4)),
        (Rotated(Plain("F16"), 4, 4), (6, 4)),
        (Rotated(Plain("F16"), 0, 4), (6, 4)),
        (Rotated(Plain("F16"), 1 << 20, 1 << 10), (1 << 20, 1 << 10)),
        (Rotated(Ggml("Q4_K"), 2, 128), (4, 128)),
        (Woven((Plain("F16"),), (Pattern((Strand(0, 3),), 2),), 4), (7, 4)),
        (Regrouper(Plain("F16"), 2, 2, 2), (4, 9)),
        (
            Transposed(Woven((Plain("F16"),), (Pattern((Strand(0, 1 << 25),), 1),), 4)),
            (4, 1 << 25),
        ),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_not_read(subject, shape):
    assert not subject.can_read(shape)


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_one_is_taken_away_again(dtype):
    values = np.array([1, 1.5, -2, 0, 1.0078125], "<f4")
    stored = {
        "F32": values.tobytes(),
        "F16": values.astype("<f2").tobytes(),
        "BF16": (values.view("<u4") >> 16).astype("<u2").tobytes(),
    }[dtype]
    subject = Undone(Plain(dtype), Change.PLUS_ONE)
    laws.check_decoder(Case(subject), (5,), [stored], [0, 2, 5], NUMPY)
    made = subject.decode([stored], (5,), range(5), NUMPY)
    assert np.frombuffer(made, "<f4").tolist() == (values - 1).tolist()
    assert subject.value_dtype == "F32"


def test_a_factor_multiplies_every_value():
    inner, rows, width = Ggml("Q8_0"), 3, 64
    stored, _ = make(inner, rows, width, np.random.default_rng(6))
    subject = Scaled(inner, Plain("F32"))
    factor = np.float32(0.3)
    places = [0, 32, 96, rows * width]
    arrays = [stored, factor.tobytes()]
    laws.check_decoder(Case(subject), (rows, width), arrays, places, NUMPY)
    laws.check_is_a_value(subject)
    made = laws.decoded(subject, (rows, width), arrays, [0, rows * width], NUMPY)
    values = inner.decode([stored], (rows, width), range(rows * width), NUMPY)
    want = np.frombuffer(values, "<f4") * factor
    assert np.array_equal(np.frombuffer(made, "<f4"), want, equal_nan=True)


def test_the_logarithm_is_the_nearest_float():
    rng = np.random.default_rng(3)
    values = np.concatenate(
        [
            np.exp(rng.uniform(-80, 80, 20_000)).astype("<f4"),
            np.float32(1) + rng.uniform(-0.01, 0.01, 5_000).astype("<f4"),
            np.array([1, 2, 0.5, 1e-45, 3.4e38], "<f4"),
        ]
    ).astype("<f4")
    subject = Undone(Plain("F32"), Change.MINUS_EXP)
    made = subject.decode([(-values).tobytes()], values.shape, range(len(values)), NUMPY)
    want = np.log(values.astype(np.longdouble)).astype("<f4")
    assert np.array_equal(np.frombuffer(made, "<f4"), want)


def test_the_logarithm_of_what_is_none():
    values = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan], "<f4")
    subject = Undone(Plain("F32"), Change.MINUS_EXP)
    made = subject.decode([values.tobytes()], (6,), range(6), NUMPY)
    found = np.frombuffer(made, "<f4")
    assert found[:2].tolist() == [-np.inf, -np.inf]
    assert np.isnan(found[[2, 3, 5]]).all()
    assert found[4] == np.inf
