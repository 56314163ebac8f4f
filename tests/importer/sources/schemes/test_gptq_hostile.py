"""Arrays and configurations in GPTQ's and AWQ's form that contradict each other."""

from __future__ import annotations

import numpy as np
import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.builders import model, write

PAIR, CONFIG, FORMAT = "E_QUANT_PAIR", "E_CONFIG", "E_QUANT_FORMAT"
ORDER = (np.arange(64) // 32).astype("<i4").tobytes()
STEM = "model.layers.0.mlp.up_proj"
Q, Z, S = ("I32", (8, 32)), ("I32", (2, 4)), ("F16", (2, 32))
BIAS = {f"{STEM}.bias": ("F16", (32,))}
CLAIM = {"quant_method": "gptq", "bits": 4, "group_size": 32}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}


def layer(qweight=Q, qzeros=Z, scales=S, g_idx=("I32", (64,), ORDER), stem=STEM):
    """64 columns and 32 rows of 4 bits in groups of 32; None leaves an array out."""
    parts = {"qweight": qweight, "qzeros": qzeros, "scales": scales, "g_idx": g_idx}
    return {f"{stem}.{name}": part for name, part in parts.items() if part is not None}


def order(*groups):
    return ("I32", (len(groups),), np.array(groups, "<i4").tobytes())


def awq(qweight=("I32", (64, 4)), qzeros=Z, scales=S):
    return layer(qweight, qzeros, scales, None)


def gemv(qweight=("I32", (32, 8)), qzeros=("I32", (32, 4)), scales=("F16", (32, 32))):
    return layer(qweight, qzeros, scales, None)


BAD = {
    "bits": (layer(), CLAIM | {"bits": 8}, PAIR, "8 bits in groups of 32 in config.json"),
    "group": (layer(), CLAIM | {"group_size": 64}, PAIR, "groups of 64"),
    "one group": (layer(), CLAIM | {"group_size": -1}, PAIR, "groups of -1"),
    "bits of a module": (
        layer(), CLAIM | {"dynamic": {r"+:.*\.up_proj": {"bits": 8}}}, PAIR, "8 bits",
    ),
    "group of a module": (
        layer(), CLAIM | {"dynamic": {r".*up_proj$": {"group_size": 16}}}, PAIR, "groups of 16",
    ),
    "bits of no pattern": (
        layer(), CLAIM | {"dynamic": {"(?!x).*": {"bits": 8}}, "bits": 2}, PAIR, "8 bits",
    ),
    "excluded": (layer(), CLAIM | {"dynamic": {"-:.*up_proj": {}}}, PAIR, "excludes it"),
    "excluded last": (
        layer(), CLAIM | {"dynamic": {".*": {"bits": 4}, "-:.*up_proj": {}}}, PAIR, "excludes",
    ),
    "9 bits": (layer(), CLAIM | {"bits": 9}, CONFIG, "`bits` is 9"),
    "1 bit": (layer(), CLAIM | {"bits": 1}, CONFIG, "`bits` is 1"),
    "bits as a word": (layer(), CLAIM | {"bits": "4"}, CONFIG, "`bits` is 4"),
    "true bits": (layer(), CLAIM | {"bits": True}, CONFIG, "`bits` is True"),
    "two bits": (layer(), CLAIM | {"w_bit": 8}, CONFIG, "contradict each other"),
    "group 0": (layer(), CLAIM | {"group_size": 0}, CONFIG, "`group_size` is 0"),
    "group -2": (layer(), CLAIM | {"group_size": -2}, CONFIG, "`group_size` is -2"),
    "huge group": (layer(), CLAIM | {"group_size": 1 << 70}, CONFIG, "`group_size`"),
    "a fraction": (layer(), CLAIM | {"group_size": 32.0}, CONFIG, "expected an integer"),
    "bits of a pattern": (layer(), CLAIM | {"dynamic": {"x": {"bits": 99}}}, CONFIG, "`x`"),
    "two formats": (
        layer(), CLAIM | {"format": "gptq", "checkpoint_format": "gptq_v2"}, CONFIG, "gptq_v2",
    ),
    "another method": (layer(), AWQ, PAIR, "is gemm in config.json, and its shapes fit gptq"),
    "awq as gptq": (awq(("I32", (64, 4))), CLAIM, PAIR, "is gptq in config.json"),
    "gemv as gemm": (gemv(), AWQ, PAIR, "is gemm in config.json, and its shapes fit gemv"),
    "no zero points": (layer(qzeros=None), CLAIM, PAIR, "has no `qzeros`"),
    "no scales": (layer(scales=None), CLAIM, PAIR, "has no `scales`"),
    "no order, and it is said": (layer(g_idx=None), CLAIM | {"desc_act": True}, PAIR, "g_idx"),
    "no order, and others have one": (
        layer() | layer(g_idx=None, stem="b"), CLAIM, PAIR, "`b` has no `g_idx`",
    ),
    "the weight, too": (
        layer() | {f"{STEM}.weight": ("F16", (32, 64))}, CLAIM, PAIR, "a second time",
    ),
    "rows": (layer(scales=("F16", (2, 31))), CLAIM, PAIR, "do not fit each other"),
    "groups": (layer(scales=("F16", (3, 32))), CLAIM, PAIR, "do not fit each other"),
    "columns": (layer(("I32", (9, 32))), CLAIM, PAIR, "do not fit each other"),
    "words of zero points": (layer(qzeros=("I32", (2, 9))), CLAIM, PAIR, "do not fit"),
    "more columns than words": (layer(g_idx=order(*[0] * 65)), CLAIM, PAIR, "do not fit"),
    "more groups than columns": (
        layer(("I32", (8, 32)), ("I32", (65, 4)), ("F16", (65, 32))), CLAIM, PAIR, "do not fit",
    ),
    "a vector": (layer(("I32", (256,))), CLAIM, PAIR, "of shape [256]"),
    "three dimensions": (layer(("I32", (1, 8, 32))), CLAIM, PAIR, "of shape [1, 8, 32]"),
    "nothing": (layer(("I32", (0, 32))), CLAIM, PAIR, "of shape [0, 32]"),
    "a matrix of groups": (layer(g_idx=("I32", (8, 8), ORDER)), CLAIM, PAIR, "[8, 8]"),
    "a group of none": (layer(g_idx=order(*[0] * 63, 2)), CLAIM, PAIR, "up to 2, and 2 groups"),
    "a negative group": (layer(g_idx=order(*[0] * 63, -1)), CLAIM, PAIR, "`g_idx` of -1"),
    "a huge group": (layer(g_idx=order(*[0] * 63, 2**31 - 1)), CLAIM, PAIR, "2147483647"),
    "awq that is not whole": (
        awq(("I32", (65, 4))), AWQ, PAIR, "do not fit each other",
    ),
    "awq in other groups": (awq(), AWQ | {"group_size": 64}, PAIR, "groups of 64"),
    "awq in other bits": (awq(), AWQ | {"bits": 3}, PAIR, "3 bits"),
    "awq with an order": (
        awq() | {f"{STEM}.g_idx": ("I32", (64,), ORDER)}, AWQ, PAIR, "do not fit each other",
    ),
    "gemv in other groups": (
        gemv(), AWQ | {"version": "gemv", "group_size": 128}, PAIR, "groups of 128",
    ),
    "gemv in no groups": (
        gemv(), AWQ | {"version": "gemv", "group_size": 48}, PAIR, "groups of 48",
    ),
    "3 bits of odd rows": (
        layer(("I32", (6, 30)), ("I32", (2, 3)), ("F16", (2, 30))), CLAIM | {"bits": 3}, PAIR,
        "multiples of 32",
    ),
}  # fmt: skip

UNKNOWN = {
    "marlin": (layer(), CLAIM | {"checkpoint_format": "marlin"}, "marlin"),
    "marlin by its flag": (layer(), CLAIM | {"is_marlin_format": True}, "marlin"),
    "bitblas": (layer(), CLAIM | {"format": "bitblas"}, "bitblas"),
    "gemv_fast": (awq(), AWQ | {"version": "gemv_fast"}, "gemv_fast"),
    "gemv_fast by its dtype": (awq(("I16", (8, 256))), AWQ, "I16"),
    "llm-awq": (awq(), AWQ | {"backend": "llm-awq"}, "llm-awq"),
    "gptq with awq's layout": (awq(), CLAIM | {"format": "gemm"}, "gemm"),
    "auto-round": (layer(), CLAIM | {"quant_method": "auto-round"}, "auto-round"),
    "a method that is a list": (layer(), CLAIM | {"quant_method": [1]}, "quant_method"),
    "words of 16 bits": (layer(("I16", (16, 32))), CLAIM, "I16"),
    "words of 16 bits, as said": (layer(), CLAIM | {"pack_dtype": "int16"}, "int16"),
    "scales of 64 bits": (layer(scales=("F64", (2, 32))), CLAIM, "F64"),
    "groups of 64 bits": (layer(g_idx=("I64", (64,))), CLAIM, "I64"),
    "rotated": (layer(), CLAIM | {"rotation": "hadamard"}, "rotation"),
    "an embedding": (layer(stem="model.embed_tokens"), CLAIM, "quantized embedding"),
    "zero points of two kinds": (layer(), None, "no configuration"),
    "two numbers of bits": (
        layer(("I32", (6, 4)), ("I32", (2, 1)), ("F16", (2, 4)), None),
        {"quant_method": "gptq"}, "nothing decides",
    ),
    "more columns than there can be": (
        awq(("I32", (1 << 19, 1)), ("I32", (1 << 14, 1)), ("F16", (1 << 14, 8))), AWQ, "262144",
    ),
}  # fmt: skip


def source(directory, tensors, declared):
    return model(directory, tensors | BIAS, {"quantization_config": declared})


@pytest.mark.parametrize("what", BAD)
def test_what_contradicts_itself_is_refused(tmp_path, what):
    tensors, declared, code, words = BAD[what]

    with pytest.raises(InputError) as caught:
        read_inventory(source(tmp_path, tensors, declared))

    assert (caught.value.code, caught.value.exit_code) == (code, 3)
    assert words in str(caught.value)


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_decoded_is_refused_by_name(tmp_path, what):
    tensors, declared, words = UNKNOWN[what]

    with pytest.raises(UnsupportedError) as caught:
        read_inventory(source(tmp_path, tensors, declared))

    assert (caught.value.code, caught.value.exit_code) == (FORMAT, 4)
    assert words in str(caught.value)


def types(directory):
    found = read_inventory(directory).tensors
    return {one.name: (one.stored_as, one.shape) for one in found if not one.is_plain}


NAME = f"{STEM}.weight"


@pytest.mark.parametrize(
    ("tensors", "declared", "expected"),
    [
        (layer(), {"quant_method": "gptq"}, "gptq int4/32"),
        (layer(g_idx=order(*[1] * 32, *[0] * 32)), CLAIM, "gptq int4/32 act-order"),
        (layer(g_idx=order(*[0, 1] * 32)), {"quant_method": "gptq"}, "gptq int4/32 act-order"),
        (layer(g_idx=order(*[0] * 48, *[1] * 16)), {"quant_method": "gptq"}, "gptq int4/48"),
        (layer(g_idx=None), CLAIM | {"bits": None}, "gptq int4/32"),
        (layer(), CLAIM | {"dynamic": {"(?!x).*": {"bits": 8}}}, "gptq int4/32"),
        (layer(), CLAIM | {"bits": 8, "dynamic": {".*up": {"bits": 4}}}, "gptq int4/32"),
        (layer(), CLAIM | {"dynamic": {"up_proj": {"bits": 8}}}, "gptq int4/32"),
        (layer(), CLAIM | {"dynamic": [1], "meta": {"dynamic": 3}}, "gptq int4/32"),
        (awq(), AWQ, "awq int4/32"),
        (awq(), AWQ | {"version": "GEMM"}, "awq int4/32"),
        (awq(), {"quant_method": "awq"}, "awq int4/32"),
        (awq(), {"w_bit": 4, "q_group_size": 32, "zero_point": True}, "awq int4/32"),
        (awq(), None, "awq int4/32"),
        (gemv(), AWQ | {"version": "gemv"}, "awq int4/32"),
        (gemv(), None, "awq int4/32"),
    ],
)
def test_where_the_configuration_is_silent_shapes_decide(tmp_path, tensors, declared, expected):
    assert types(source(tmp_path, tensors, declared)) == {NAME: (expected, (32, 64))}


@pytest.mark.parametrize(("word", "less_one"), [(0x77777777, True), (0x88888888, False)])
def test_symmetric_zero_points_say_how_they_are_stored(tmp_path, word, less_one):
    zeros = ("I32", (2, 4), np.full(8, word, "<u4").tobytes())
    directory = source(tmp_path, layer(qzeros=zeros), None)

    (found,) = [one for one in read_inventory(directory).tensors if not one.is_plain]

    assert found.decoder.less_one is less_one


@pytest.mark.parametrize(
    ("name", "declared", "less_one"),
    [
        ("quantize_config.json", {"bits": 4, "group_size": 32, "desc_act": False}, True),
        ("quantize_config.json", {"bits": 4, "checkpoint_format": "gptq_v2"}, False),
        ("quant_config.json", CLAIM | {"format": "gptq_v2"}, False),
    ],
)
def test_the_block_may_be_in_a_file_of_its_own(tmp_path, name, declared, less_one):
    directory = write(model(tmp_path, layer(), {}), {name: declared})

    (found,) = read_inventory(directory).tensors

    assert found.decoder.less_one is less_one


def test_the_block_of_config_json_comes_first(tmp_path):
    directory = model(tmp_path, layer(), {"quantization_config": CLAIM})
    write(directory, {"quantize_config.json": CLAIM | {"checkpoint_format": "gptq_v2"}})

    (found,) = read_inventory(directory).tensors

    assert found.decoder.less_one is True


def test_awqs_own_file_says_what_it_is(tmp_path):
    own = {"zero_point": True, "q_group_size": 32, "w_bit": 4, "version": "GEMM"}
    directory = write(model(tmp_path, awq(), {}), {"quant_config.json": own})

    assert types(directory) == {NAME: ("awq int4/32", (32, 64))}
    assert read_inventory(directory).scheme == "awq"
