"""FP8 under the names and shapes of those who write it."""

from __future__ import annotations

import math

import pytest

from importer.sources.inventory import read_inventory
from store.errors import InputError, UnsupportedError
from tests.importer.sources.schemes.test_scaled_hostile import source

L = "model.layers.0.mlp.up_proj"
E = "model.layers.0.mlp.experts"
F8 = "F8_E4M3"
DEEPSEEK = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}


def only(tmp_path, tensors, quantization=None):
    """The one tensor that some arrays are."""
    (found,) = read_inventory(source(tmp_path / "s", tensors, quantization)).tensors
    return found


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        (f"{L}.weight", f"{L}.weight_scale_inv"),
        (f"{L}.weight", f"{L}.weight_scale"),
        (f"{L}.weight", f"{L}.scale"),
        (f"{L}.weight", f"{L}.scale_weight"),
        (f"{L}.weight", f"{L}.qscale_weight"),
        (f"{E}.down_proj", f"{E}.down_proj_scale"),
        (f"{E}.down_proj", f"{E}.down_proj_scale_inv"),
        (f"{E}.down_proj", f"{E}.down_proj_weight_scale"),
    ],
)
@pytest.mark.parametrize("dtype", [F8, "F8_E5M2"])
def test_every_name_of_a_scale_is_known(tmp_path, name, scale, dtype):
    found = only(tmp_path, {name: (dtype, (8, 16)), scale: ("F32", ())})

    assert (found.name, found.shape, found.stored_as) == (name, (8, 16), "fp8")


@pytest.mark.parametrize("method", ["fp8", "fbgemm_fp8", None])
@pytest.mark.parametrize("scale", [("F32", ()), ("BF16", (8, 1))])
def test_a_method_that_is_declared_changes_nothing(tmp_path, method, scale):
    tensors = {f"{L}.weight": (F8, (8, 16)), f"{L}.weight_scale": scale}
    declared = method and {"quant_method": method}

    found = read_inventory(source(tmp_path / "s", tensors, declared))

    assert (found.scheme, found.is_decoded, len(found.tensors)) == ("fp8", True, 1)


@pytest.mark.parametrize(
    ("weight", "scale", "kind"),
    [
        ((576, 640), ("F32", (5, 5)), "fp8 128x128"),
        ((576, 640), ("BF16", (576, 1)), "fp8 channel"),
        ((576, 640), ("F32", (576,)), "fp8 channel"),
        ((576, 640), ("F32", (1, 640)), "fp8 channel"),
        ((576, 640), ("F32", (1,)), "fp8"),
        ((576, 640), ("F16", (1, 1)), "fp8"),
        ((64, 96), ("F32", (2, 3)), "fp8 32x32"),
        ((64, 96), ("F32", (2, 1, 3, 1)), "fp8 32x32"),
        ((64, 96), ("F8_E8M0", (64, 3)), "mxfp8"),
        ((64, 96), ("U8", (64, 3)), "mxfp8"),
        ((64, 96), ("F8_E8M0", (1, 1)), "fp8"),
        ((3, 64, 96), ("F32", ()), "fp8"),
        ((3, 64, 96), ("F32", (3,)), "fp8"),
        ((3, 64, 96), ("F32", (3, 1, 1)), "fp8"),
        ((3, 64, 96), ("F32", (3, 64)), "fp8 channel"),
        ((3, 64, 96), ("F32", (3, 1, 96)), "fp8 channel"),
        ((3, 200, 300), ("F32", (3, 2, 3)), "fp8 128x128"),
        ((16,), ("F32", (1,)), "fp8"),
    ],
)
def test_the_shapes_tell_the_block(tmp_path, weight, scale, kind):
    found = only(tmp_path, {"a.weight": (F8, weight), "a.weight_scale": scale})

    assert (found.shape, found.stored_as) == (weight, kind)
    spans = found.decoder.spans(weight, range(math.prod(weight)))
    assert [span.nbytes for span in spans] == [array.nbytes for array in found.arrays]


@pytest.mark.parametrize(
    ("weight", "scale", "kind"),
    [
        ((576, 640), (5, 5), "fp8 128x128"),
        ((64, 96), (1, 1), "fp8 128x128"),
        ((2, 200, 300), (2, 2, 3), "fp8 128x128"),
    ],
)
def test_declared_blocks_may_be_partial(tmp_path, weight, scale, kind):
    tensors = {"a.weight": (F8, weight), "a.weight_scale_inv": ("F32", scale)}

    assert only(tmp_path, tensors, DEEPSEEK).stored_as == kind


def test_experts_of_four_bits_are_mxfp4(tmp_path):
    tensors = {f"{E}.0.w1.weight": ("I8", (8, 32)), f"{E}.0.w1.scale": ("F8_E8M0", (8, 2))}

    found = only(tmp_path, tensors)

    assert (found.shape, found.stored_as, found.is_ours) == ((8, 64), "mxfp4", True)


def test_fp8_without_scales_is_plain(tmp_path):
    assert only(tmp_path, {"a.weight": (F8, (4, 4))}).is_plain


def test_a_float_with_a_learned_scale_is_plain(tmp_path):
    tensors = {"a.weight": ("BF16", (4, 4)), "a.weight_scale": ("F32", (1,))}

    found = read_inventory(source(tmp_path / "s", tensors, None))

    assert [one.name for one in found.tensors] == ["a.weight", "a.weight_scale"]


def stacked(projection, scales, weights=((0, (64, 96)), (1, (64, 96)))):
    """Experts' weights, and beside them the scales of all in one array."""
    found = {f"{E}.{number}.{projection}.weight": (F8, shape) for number, shape in weights}
    name = {"w1": "gate_up_proj", "w3": "gate_up_proj"}.get(projection, projection)
    return {**found, f"{E}.{name}_scale_inv": ("F32", scales)}


@pytest.mark.parametrize(
    ("projection", "scales", "kind", "part"),
    [
        ("w1", (2, 4, 3), "fp8 32x32", (0, 24)),
        ("w3", (2, 4, 3), "fp8 32x32", (24, 24)),
        ("w3", (2, 2, 3), "fp8 64x32", (12, 12)),
        ("w3", (2, 1, 3), "fp8 64x32", (0, 12)),
        ("w3", (2, 1, 1), "fp8", (0, 4)),
        ("down_proj", (2, 2, 3), "fp8 32x32", (0, 24)),
        ("up_proj", (2, 2, 3), "fp8 32x32", (0, 24)),
    ],
)
def test_an_expert_has_its_part_of_stacked_scales(tmp_path, projection, scales, kind, part):
    tensors = stacked(projection, scales)
    found = read_inventory(source(tmp_path / "s", tensors, None)).tensors

    assert [one.name for one in found] == [name for name in tensors if name.endswith("weight")]
    for number, tensor in enumerate(found):
        assert tensor.stored_as == kind
        begin, nbytes = part
        _, scale = tensor.arrays
        whole = scale.whole
        assert (whole.name, whole.shape) == (list(tensors)[-1], scales)
        begin += number * whole.nbytes // 2
        assert (scale.offset - whole.offset, scale.nbytes) == (begin, nbytes)


def test_declared_blocks_may_be_higher_than_gate_and_up(tmp_path):
    scales = ("F32", (2, 2, 1))
    fused = {f"{E}.gate_up_proj": (F8, (2, 128, 96)), f"{E}.gate_up_proj_scale_inv": scales}

    assert only(tmp_path, fused, DEEPSEEK).stored_as == "fp8 64x128"


@pytest.mark.parametrize("scales", [(2, 6), (1, 4, 3), (2, 4, 5)])
def test_stacked_scales_that_do_not_fit_are_refused(tmp_path, scales):
    with pytest.raises(InputError, match=r"experts\.[01]\.w1"):
        read_inventory(source(tmp_path / "s", stacked("w1", scales), None))


def test_a_row_of_scales_of_two_weights_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="gate and up of an expert share a row"):
        read_inventory(source(tmp_path / "s", stacked("w1", (2, 3, 3)), None))
