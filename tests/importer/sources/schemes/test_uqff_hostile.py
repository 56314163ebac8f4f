"""Layers of UQFF that are malformed, contradict themselves, or are of what nobody reads."""

from __future__ import annotations

import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.builders import safetensors, write
from tests.importer.sources.schemes import uqff_sources as uqff
from tests.importer.sources.schemes.uqff_sources import entries, scalar, u8, u32

W = f"`{uqff.WEIGHT}"
KEY = f"layer `{uqff.KEY}`"


def bias(dtype, *shape):
    return {f"{uqff.KEY}.bias": (dtype, shape)}


MALFORMED = {
    # The tag, and what is there.
    "tag of U32": (entries("plain", format=scalar(1)), f"{W}.format` is U32 []"),
    "tag in a list": (entries("plain", format=("U8", (1,))), f"{W}.format` is U8 [1]"),
    "no tag": (entries("q8_0", format=None), "` is of no layer"),
    "no data": (entries("plain", data=None), f"{KEY} has no {W}`"),
    "no shape": (entries("q8_0", shape=None), f"{KEY} (GGML) has no {W}.shape`"),
    "no scales": (entries("afq", scales=None), f"{KEY} (AFQ) has no {W}.scales`"),
    "no quant_scale": (entries("fp8", quant_scale=None), f"has no {W}.quant_scale`"),
    "no num_blocks": (entries("f8q8", num_blocks=None), f"has no {W}.num_blocks`"),
    "no zeros": (entries("hqq", zeros=None), f"has no {W}.zeros`"),
    "one more": (entries("plain", bits=u8(4)), f"{KEY} (PLAIN) has {W}.bits`, which"),
    "another family's": (entries("mxfp4", format=u8(1)), f"(PLAIN) has {W}.scales`"),
    "a layer within": (
        entries("plain") | entries("plain", f"{uqff.KEY}.weight.x"),
        f"has {W}.x.weight`",
    ),
    "of no layer": ({"model.norm.bias": ("F32", (4,))}, "`model.norm.bias` is of no layer"),
    "a bias of no layer": (bias("F32", 2), f"`{uqff.KEY}.bias` is of no layer"),
    # Numbers.
    "shape of I64": (
        entries("q8_0", shape=("I64", (2,), bytes(16))),
        f"{W}.shape` is I64 [2], expected U32 with 2 or 3 elements",
    ),
    "shape of one": (entries("q8_0", shape=u32(128)), f"{W}.shape` is U32 [1]"),
    "shape of four": (entries("q8_0", shape=u32(1, 1, 2, 64)), f"{W}.shape` is U32 [4]"),
    "shape of many": (entries("q8_0", shape=u32(*[1] * 99)), f"{W}.shape` is U32 [99]"),
    "shape of zero": (entries("q8_0", shape=u32(0, 64)), "expected no zero"),
    "shape in rows": (
        entries("q8_0", shape=("U32", (2, 1), bytes(8))),
        f"{W}.shape` is U32 [2, 1]",
    ),
    "bits of U32": (entries("afq", bits=scalar(4)), f"{W}.bits` is U32 [], expected a scalar"),
    "AFQ groups of U32": (entries("afq", group_size=scalar(64)), f"{W}.group_size` is U32"),
    "HQQ groups of U8": (entries("hqq", group_size=u8(64)), f"{W}.group_size` is U8"),
    "type in a list": (entries("q8_0", dtype=u32(8)), f"{W}.dtype` is U32 [1]"),
    # GGML.
    "GGML in rows": (entries("q8_0", data=("U8", (2, 68))), "expected U8 in one dimension"),
    "GGML of I8": (entries("q8_0", data=("I8", (136,))), "expected U8 in one dimension"),
    "GGML too short": (entries("q8_0", data=("U8", (135,))), "expected 136 bytes for [2, 64]"),
    "GGML too long": (entries("q8_0", data=("U8", (137,))), "expected 136 bytes for [2, 64]"),
    "GGML shape too large": (
        entries("q8_0", shape=u32(4294967295, 4294967295 // 32 * 32)),
        "expected 19599665427724107810 bytes",
    ),
    "GGML rows of no whole blocks": (
        entries("q8_0", data=("U8", (34,)), shape=u32(2, 16)),
        "Q8_0 has blocks of 32, and rows have 16",
    ),
    "GGML F16 too short": (entries("f16", data=("U8", (10,))), "expected 12 bytes"),
    # Plain.
    "integers": (entries("plain", data=("I32", (2, 2))), "is I32 [2, 2]: expected floats"),
    # HQQ.
    "HQQ of other rows": (entries("hqq", data=("U8", (64, 4))), "expected U8 [32, 4]"),
    "HQQ of I32": (entries("hqq", data=("I32", (32, 4))), "expected U8 [32, 4]"),
    "HQQ of other scales": (entries("hqq", scales=("F32", (1, 8))), "expected [1, 4]"),
    "HQQ of scales in a list": (entries("hqq", zeros=("F32", (4,))), "expected [1, 4]"),
    "HQQ of no groups": (entries("hqq", group_size=scalar(0)), "has no groups of 0"),
    "HQQ of other groups": (entries("hqq", group_size=scalar(7)), "has no groups of 7"),
    "HQQ of larger groups": (entries("hqq", group_size=scalar(2**31)), "has no groups of"),
    "HQQ of another shape": (entries("hqq", shape=u32(4, 128)), "expected U8 [32, 8]"),
    # FP8.
    "FP8 of scales in a list": (
        entries("fp8", dequant_w_scale=("F32", (1,))),
        "is F32 [1]: expected a scalar of F32",
    ),
    "FP8 of BF16 scales": (entries("fp8", quant_scale=("BF16", ())), "expected a scalar"),
    "FP8 in a list": (entries("fp8", data=("F8_E4M3", (6,))), "expected a matrix"),
    # AFQ.
    "AFQ of U8": (entries("afq", data=("U8", (2, 8))), "expected U32 with rows of 4 bits"),
    "AFQ of I32": (entries("afq", data=("I32", (2, 8))), "expected U32 with rows of 4 bits"),
    "AFQ in a list": (entries("afq", data=("U32", (8,))), "expected a matrix"),
    "AFQ of other bits": (entries("afq", bits=u8(8)), "expected one for each 64 of [2, 32]"),
    "AFQ of odd bits": (entries("afq", bits=u8(6)), "expected U32 with rows of 6 bits"),
    "AFQ of other groups": (entries("afq", group_size=u8(32)), "expected one for each 32"),
    "AFQ of fewer biases": (entries("afq", biases=("F16", (1, 1))), "expected one for each"),
    "AFQ of one scale": (entries("afq", scales=("F16", ())), "expected one for each 64"),
    # F8Q8.
    "F8Q8 too short": (entries("f8q8", data=("U8", (131,))), "expected 4 blocks of 33 bytes"),
    "F8Q8 in rows": (entries("f8q8", data=("U8", (4, 33))), "expected 4 blocks of 33 bytes"),
    "F8Q8 of more blocks": (entries("f8q8", num_blocks=scalar(5)), "5 blocks are declared"),
    "F8Q8 of another shape": (entries("f8q8", shape=u32(2, 65)), "expected 5 blocks"),
    # MXFP4.
    "MXFP4 of U32": (entries("mxfp4", data=("U32", (2, 8))), "expected U8 with rows"),
    "MXFP4 of half a group": (entries("mxfp4", data=("U8", (2, 24))), "whole groups of 32"),
    "MXFP4 of more scales": (entries("mxfp4", scales=("U8", (2, 4))), "expected U8, one for"),
    "MXFP4 of float scales": (entries("mxfp4", scales=("F32", (2, 2))), "expected U8, one"),
    # What is added.
    "bias of other rows": (entries("plain") | bias("F32", 3), "is F32 [3], expected [2]"),
    "bias of integers": (entries("plain") | bias("I32", 2), "is I32 [2], expected [2]"),
    "bias of one number": (entries("plain") | bias("F32"), "is F32 [], expected [2]"),
}

UNREAD = {
    "family 7": (entries("plain", format=u8(7)), f"{KEY} is of family 7, expected 0 to 6"),
    "family 255": (entries("q8_0", format=u8(255)), "is of family 255"),
    "GGML's IQ4_NL": (entries("q8_0", dtype=scalar(20)), "is of GGML's type 20 (IQ4_NL)"),
    "GGML's MXFP4": (entries("q8_0", dtype=scalar(39)), "is of GGML's type 39 (MXFP4)"),
    "no type of GGML": (entries("q8_0", dtype=scalar(4)), "is of GGML's type 4 (none)"),
    "a large type": (entries("q8_0", dtype=scalar(2**32 - 1)), "GGML's type 4294967295"),
    "AFQ in 5 bits": (entries("afq", bits=u8(5)), "is AFQ in 5 bits and groups of 64"),
    "AFQ in 0 bits": (entries("afq", bits=u8(0)), "is AFQ in 0 bits"),
    "AFQ in groups of 16": (entries("afq", group_size=u8(16)), "groups of 16"),
    "AFQ of two dtypes": (entries("afq", biases=("F32", (2, 1))), "F16 and biases of F32"),
    "AFQ of F64": (
        entries("afq", scales=("F64", (2, 1)), biases=("F64", (2, 1))),
        "has scales of F64",
    ),
    "HQQ in 3 bits": (entries("hqq", bits=u8(3)), "is HQQ in 3 bits"),
    "HQQ along rows": (entries("hqq", axis=u8(1)), "groups that mistral.rs does not decode"),
    "HQQ in one group": (entries("hqq", channel_wise=u8(0)), "groups that mistral.rs does"),
    "HQQ of two dtypes": (entries("hqq", zeros=("F16", (1, 4))), "zero points of F16"),
    "HQQ of experts": (entries("hqq", shape=u32(2, 2, 64)), "has all experts"),
    "FP8 of experts": (entries("fp8", data=("F8_E4M3", (2, 2, 3))), "has all experts"),
    "F8Q8 of experts": (entries("f8q8", shape=u32(2, 1, 50)), "has all experts"),
    "FP8 of another dtype": (entries("fp8", dtype=scalar(6)), "is FP8 of type 6"),
    "FP8 of E5M2": (entries("fp8", data=("F8_E5M2", (2, 3))), "is FP8 of type 9"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_layers_are_refused(tmp_path, name):
    layer, message = MALFORMED[name]
    with pytest.raises(InputError) as caught:
        read_inventory(uqff.model(tmp_path, layer))

    assert caught.value.code == "E_UQFF_LAYER"
    assert message in str(caught.value)
    assert "`q4k-0.uqff`" in str(caught.value)


@pytest.mark.parametrize("name", UNREAD)
def test_what_mistral_rs_does_not_read_is_refused_by_name(tmp_path, name):
    layer, message = UNREAD[name]
    with pytest.raises(UnsupportedError) as caught:
        read_inventory(uqff.model(tmp_path, layer))

    assert caught.value.code == "E_UQFF_KIND"
    assert message in str(caught.value)


def test_a_shard_of_another_name_is_said_to_be_one(tmp_path):
    files = {"model.safetensors": uqff.shard(entries("plain"))}
    with pytest.raises(InputError, match=r"`model\.safetensors` is a shard of UQFF"):
        read_inventory(write(tmp_path, files))


def test_a_tensor_that_is_called_like_a_tag_is_none(tmp_path):
    files = {"model.safetensors": safetensors({"x.weight.format": ("F32", (2,))})}
    (tensor,) = read_inventory(write(tmp_path, files)).tensors

    assert tensor.is_plain
