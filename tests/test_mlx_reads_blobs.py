"""What MLX loads from a blob it multiplies with, and the product is as near as the type allows.

The error of a code is at most half of the step between two codes, and spread evenly within it,
so that of a product x·w, where `step` is that of each weight and n the largest integer code, is

- at most sum(|x| step / 2); for integers sum(|x| step n/(n-1)), because MLX changes the scale
  so that the extreme of a group has a code of its own: by at most 1/(n-1), at the cost of the
  other end of the group, which then lies up to n/(n-1) steps beyond the last code;
- of root mean square sqrt(sum(x² step²) / 12).
"""

import numpy as np
import pytest

from importer.codecs.spec import QUANT_TYPES
from importer.recipes.options import parse_options
from store import MediaType, ModelName, Store
from tests.importer import builders

mx = pytest.importorskip("mlx.core")

ROUNDING = {"BF16": 2**-9, "F16": 2**-12, "F32": 2**-25}
"""The largest relative error of a number in each dtype."""
MLX = {"BF16": mx.bfloat16, "F16": mx.float16, "F32": mx.float32}
NAMES = {
    "model.layers.0.self_attn.q_proj.weight": (96, 256),
    **{f"model.layers.0.mlp.experts.{n}.up_proj.weight": (32, 128) for n in range(12)},
}
NAME = next(iter(NAMES))
STACK = "model.layers.0.mlp.experts.up_proj.weight"

each_dtype = pytest.mark.parametrize("dtype", MLX)
each_type = pytest.mark.parametrize("spec", QUANT_TYPES.values(), ids=QUANT_TYPES)


def normal(name, shape, dtype):
    """Weights as a layer has them, rounded to `dtype`."""
    generator = np.random.default_rng(len(name) + sum(name.encode()))
    return mx.array(generator.standard_normal(shape, np.float32)).astype(MLX[dtype])


def load(tmp_path, spec, dtype):
    """Import a model; give the weights of its source, and all that MLX loads from its blobs."""
    weights = {name: normal(name, shape, dtype) for name, shape in NAMES.items()}
    tensors = {
        name: (dtype, NAMES[name], bytes(memoryview(array.view(mx.uint8))))
        for name, array in weights.items()
    }
    source = builders.model(tmp_path / "model", tensors)
    with Store(tmp_path / "store") as store:
        builders.create(store, source, recipe=parse_options(spec.name, stacked=True))
        layers = store.catalog.get(ModelName.parse("m")).parse().layers
        loaded = {}
        for layer in layers:
            if layer.media_type == MediaType.TENSOR:
                path = store.layout.blobs / f"sha256-{layer.digest.hex}"
                loaded |= mx.load(str(path), format="safetensors")
    weights[STACK] = mx.stack([weights.pop(name) for name in NAMES if name != NAME])
    return {name: np.array(array.astype(mx.float32)) for name, array in weights.items()}, loaded


def multiply(values, loaded, name, spec):
    """Multiply with the transposed weights, as a layer does; every expert gets all values."""
    batch = loaded[name].shape[:-2]  # MLX 0.32.4 takes the first matrix for values without one
    return mx.quantized_matmul(
        mx.broadcast_to(values, (*batch, *values.shape)),
        loaded[name],
        loaded[f"{name}.scale"],
        loaded.get(f"{name}.bias"),
        transpose=True,
        group_size=spec.group_size,
        bits=spec.bits,
        mode=spec.mode.value,
        stream=mx.cpu,
    )


def steps(weights, spec):
    """The distance of the codes around each weight, from the weights alone."""
    groups = weights.reshape(-1, spec.group_size).astype(float)
    if spec.has_bias:
        step = np.ptp(groups, axis=1, keepdims=True) / (2**spec.bits - 1)
        return np.broadcast_to(step, groups.shape).reshape(weights.shape)
    largest = np.abs(groups).max(axis=1, keepdims=True)
    scale = 2.0 ** np.ceil(np.log2(largest / (6 if spec.bits == 4 else 448)))
    if spec.mode == "nvfp4":
        codes = mx.to_fp8(mx.array(largest / 6, mx.float32), stream=mx.cpu)
        scale = np.array(mx.from_fp8(codes, mx.float32, stream=mx.cpu))
    scaled = np.abs(groups) / scale
    if spec.bits == 4:  # E2M1: 0, .5, 1, 1.5, 2, 3, 4, 6
        step = np.select([scaled < 2, scaled < 4], [0.5, 1.0], 2.0)
    else:  # E4M3: 3 bits of mantissa, exponents from -6
        step = 2.0 ** (np.maximum(np.frexp(scaled)[1] - 1, -6) - 3)
    return (step * scale).reshape(weights.shape)


def worst(weights, spec, dtype):
    """The largest error that each weight may have."""
    step = steps(weights, spec)
    if not spec.has_bias:
        # Weights are scaled in their own dtype, which may tip one that lies between codes.
        return step / 2 + 2 * ROUNDING[dtype] * np.abs(weights)
    codes = 2**spec.bits - 1
    # The scale is stored in the dtype of the weights, and multiplied by up to `codes`.
    return step * codes / (codes - 1) * (1 + codes * ROUNDING[dtype])


@each_dtype
@each_type
def test_the_parts_have_the_shapes_that_mlx_multiplies_with(tmp_path, spec, dtype):
    weights, loaded = load(tmp_path, spec, dtype)
    for name, (*outer, columns) in ((name, found.shape) for name, found in weights.items()):
        small = (*outer, columns // spec.group_size)
        expected = {name: (mx.uint32, (*outer, columns * spec.bits // 32))}
        expected[f"{name}.scale"] = (MLX[dtype] if spec.has_bias else mx.uint8, small)
        if spec.has_bias:
            expected[f"{name}.bias"] = (MLX[dtype], small)

        parts = {key: loaded.pop(key) for key in expected}
        product = multiply(mx.ones((5, columns), MLX[dtype]), parts, name, spec)

        assert {key: (part.dtype, part.shape) for key, part in parts.items()} == expected
        assert (product.dtype, product.shape) == (MLX[dtype], (*outer[:-1], 5, outer[-1]))
    assert loaded == {}


@each_dtype
@each_type
def test_no_product_is_further_off_than_steps_allow(tmp_path, spec, dtype):
    weights, loaded = load(tmp_path, spec, dtype)
    for name, source in weights.items():
        columns = source.shape[-1]
        ordinary = np.random.default_rng(1).standard_normal((7, columns), np.float32)
        # Products with the unit vectors are the weights, one by one.
        inputs = np.concatenate([ordinary, np.eye(columns, dtype=np.float32)])

        found = np.array(multiply(mx.array(inputs), loaded, name, spec).astype(mx.float32))

        transposed = np.swapaxes(source, -1, -2).astype(float)
        allowed = np.swapaxes(worst(source, spec, dtype), -1, -2)
        bound = np.abs(inputs) @ allowed
        # Sums of n products in F32: Higham, Accuracy and Stability, (3.4).
        bound += columns * 2.0**-23 * (np.abs(inputs) @ (np.abs(transposed) + allowed))
        error = np.abs(found - inputs @ transposed)
        share = error / bound
        product, unit = share[..., :7, :].max(), share[..., 7:, :].max()
        print(f"{spec.name} {dtype} {source.shape}: {product:.3f} of the bound, {unit:.3f}")
        assert (error <= bound).all()


@each_type
def test_the_error_of_products_is_what_even_rounding_gives(tmp_path, spec):
    weights, loaded = load(tmp_path, spec, "F32")
    source = weights[NAME]
    inputs = np.random.default_rng(2).standard_normal((64, source.shape[-1]), np.float32)

    found = np.array(multiply(mx.array(inputs), loaded, NAME, spec))

    errors = found - inputs.astype(float) @ source.T
    expected = np.sqrt((inputs.astype(float) ** 2 @ steps(source, spec).T ** 2) / 12)
    ratio = np.sqrt(np.mean((errors / expected) ** 2))
    rmse = np.sqrt(np.mean(errors**2) / np.mean((inputs @ source.T) ** 2))
    print(f"{spec.name}: {ratio:.3f} of what is expected, relative error {rmse:.5f}")
    assert 0.85 < ratio < 1.15
