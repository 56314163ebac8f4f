"""A stored model against its source, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from importer.asked import ask
from importer.codecs import codec_for
from importer.compare import compare
from importer.describe import describe
from importer.quant import QUANT_TYPES, with_group_size
from importer.recipe import Misaligned
from store import ModelName, Store
from store.errors import InputError, NotFoundError
from tests.check_store import snapshot
from tests.importer.builders import (
    FIXTURES,
    MODELS,
    create,
    handmade,
    model,
    safetensors,
    tensor_layer,
    write,
)

NAME = ModelName.parse("m")
TENSORS = {"a.weight": ("F32", (4,), b"0123456789abcdef"), "b.weight": ("BF16", (2,), b"abcd")}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def source(tmp_path):
    return model(tmp_path / "m", TENSORS, tokenizer__model="tokens")


def findings(store, source, **how):
    return [(f.subject, f.message) for f in compare(store, NAME, source, **how).findings]


def overwrite(source, tensors=TENSORS, **files):
    model(source, tensors, **files)


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_fresh_model_is_its_source(store, fixture):
    create(store, MODELS / fixture)

    found = compare(store, NAME, MODELS / fixture, jobs=3)

    assert (found.findings, found.notes) == ((), ())
    assert found.tensors == len({*_tensor_names(store)})
    assert found.nbytes > 0


def _tensor_names(store):
    return [tensor.name for tensor in describe(store, NAME).tensors]


def test_every_byte_is_counted_once(store, source):
    create(store, source)
    counted = []

    found = compare(store, NAME, source, progress=lambda *done: counted.append(done[0]))

    files = sum(
        len((source / name).read_bytes()) for name in ("config.json", "tokenizer.model")
    )
    assert found.nbytes == sum(counted) == 16 + 4 + files
    assert (found.tensors, found.files) == (2, 2)


@pytest.mark.parametrize("place", [0, 15])
def test_a_byte_that_differs_is_found(store, source, place):
    create(store, source)
    data = bytearray(TENSORS["a.weight"][2])
    data[place] ^= 1
    overwrite(source, {**TENSORS, "a.weight": ("F32", (4,), bytes(data))})

    assert findings(store, source) == [("a.weight", "differs from the source after byte 0")]


def test_a_difference_is_told_to_the_chunk(store, tmp_path):
    data = bytearray(3 << 20)
    source = model(tmp_path / "m", {"w": ("U8", (3 << 20,), bytes(data))})
    create(store, source)
    data[-1] = 1
    overwrite(source, {"w": ("U8", (3 << 20,), bytes(data))})

    assert findings(store, source) == [("w", f"differs from the source after byte {2 << 20}")]


def test_tensors_and_files_that_one_side_lacks_are_found(store, source):
    create(store, source)
    (source / "tokenizer.model").unlink()
    overwrite(source, {"a.weight": TENSORS["a.weight"], "c": ("U8", (1,))}, new__txt="")

    assert findings(store, source) == [
        ("c", "is a tensor of the source that the model lacks"),
        ("b.weight", "is a tensor that the source lacks"),
        ("new.txt", "is a file of the source that the model lacks"),
        ("tokenizer.model", "is a file that the source lacks"),
    ]


def test_another_shape_or_dtype_is_found(store, source):
    create(store, source)
    overwrite(
        source, {"a.weight": ("F32", (2, 2), TENSORS["a.weight"][2]), "b.weight": ("F16", (2,))}
    )

    assert findings(store, source) == [
        ("a.weight", "is F32 [2, 2] in the source, F32 [4] here"),
        ("b.weight", "is F16 [2] in the source, BF16 [2] here"),
    ]


@pytest.mark.parametrize(("content", "words"), [("TOKENS", "differs"), ("x", "has 1 bytes")])
def test_a_file_that_differs_is_found(store, source, content, words):
    create(store, source)
    overwrite(source, tokenizer__model=content)

    ((subject, message),) = findings(store, source)

    assert subject == "tokenizer.model"
    assert words in message


def test_a_rotten_blob_is_found(store, source):
    result = create(store, source)
    layers = {la.name: la for la in store.catalog.get(NAME).parse().layers}
    path = store.blobs.path(layers["a.weight"].digest)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"X")

    assert findings(store, source) == [("a.weight", "differs from the source after byte 0")]
    assert result.replaced is None


def test_a_missing_blob_is_a_finding(store, source):
    create(store, source)
    layers = {la.name: la for la in store.catalog.get(NAME).parse().layers}
    store.blobs.path(layers["a.weight"].digest).unlink()

    found = findings(store, source)

    assert any("is missing or has another size" in message for _, message in found)


def test_the_variant_that_was_imported_is_compared(store, source):
    half = {"a.weight": ("F16", (4,)), "b.weight": ("F16", (2,))}
    write(source, {"model.fp16.safetensors": safetensors(half)})
    create(store, source, variant="fp16")

    assert findings(store, source) == []


def quantized(dtype="F32", spec="int4", group_size=32, change=lambda parts: parts):
    """A source tensor of 4 rows, and the blob of somebody who quantized it as we would."""
    values = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    source = {"a.weight": (dtype, values.shape, values.tobytes())}
    kind = with_group_size(QUANT_TYPES[spec], group_size)
    codec = codec_for(kind, dtype)
    parts = change([bytes(part) for part in codec.encode(memoryview(values).cast("B")).parts])
    tensors = {
        "a.weight" + part.suffix: (part.dtype, part.shape, data)
        for part, data in zip(codec.parts(values.shape), parts, strict=True)
    }
    # In another order than ours.
    blob = dict(reversed(tensors.items()))
    metadata = {"quant_type": spec, "group_size": str(group_size)}
    return source, tensor_layer(safetensors(blob, metadata), "a.weight")


@pytest.mark.parametrize(
    ("spec", "group_size"), [("int4", 32), ("int8", 64), ("nvfp4", 16), ("mxfp8", 32)]
)
def test_what_others_quantized_is_decoded(store, tmp_path, spec, group_size):
    tensors, layer = quantized(spec=spec, group_size=group_size)
    handmade(store, [layer])
    source = write(tmp_path / "q", {"model.safetensors": safetensors(tensors)})

    found = compare(store, NAME, source)

    assert found.findings == ()
    (note,) = found.notes
    assert note.startswith(f"1 tensors were quantized to {spec}")
    assert found.tensors == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda parts: [bytes(len(parts[0])), *parts[1:]], "is no int4/32 of the source"),
        (lambda parts: [parts[0], bytes(len(parts[1])), parts[2]], "is no int4/32"),
    ],
)
def test_what_is_far_from_its_source_is_a_finding(store, tmp_path, change, words):
    tensors, layer = quantized(change=change)
    handmade(store, [layer])
    source = write(tmp_path / "q", {"model.safetensors": safetensors(tensors)})

    ((subject, message),) = findings(store, source)

    assert subject == "a.weight"
    assert words.replace("/32", "") in message


@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.parametrize(
    "how",
    [
        {"quantize": "int4"},
        {"quantize": "nvfp4", "stacked": True},
        {"quantize": "bf16"},
        {"recipe": "mixed_3_6"},
        {"rules": ["*=int8/32"], "misaligned": Misaligned.ADJUST},
    ],
    ids=lambda how: "-".join(map(str, how.values())),
)
def test_what_ingot_quantized_is_its_source_to_the_last_bit(store, fixture, how):
    create(store, MODELS / fixture, recipe=ask(**how))

    found = compare(store, NAME, MODELS / fixture, jobs=2)

    assert (found.findings, found.notes) == ((), ())
    assert found.tensors == len({*_tensor_names(store)})


def test_a_quantized_tensor_of_another_source_differs(store, tmp_path):
    source, _ = quantized()
    made = model(tmp_path / "q", source)
    create(store, made, recipe=ask("int4", recipe="uniform"))
    values = bytes(128) + source["a.weight"][2][128:]
    overwrite(made, {"a.weight": ("F32", (4, 64), values)})

    assert findings(store, made) == [("a.weight", "differs from the source after byte 0")]


def test_a_tensor_that_is_not_of_its_recipes_type_is_a_finding(store, tmp_path):
    tensors, _ = quantized()
    made = model(tmp_path / "q", tensors)
    create(store, made, recipe=ask("int4", recipe="uniform"))
    overwrite(made, {"a.weight": ("F32", (8, 32), tensors["a.weight"][2])})

    assert findings(store, made) == [
        ("a.weight", "is int4 [8, 32] by its recipe, int4 [4, 64] here")
    ]


def test_the_source_of_another_model_differs_in_everything(store, source):
    create(store, source)

    subjects = {subject for subject, _ in findings(store, MODELS / "tiny-moe")}

    assert {"a.weight", "b.weight", "tokenizer.model", "model.norm.weight"} <= subjects


def test_a_model_or_a_source_that_is_not_there_is_not_found(store, source, tmp_path):
    with pytest.raises(NotFoundError):
        compare(store, NAME, source)
    create(store, source)
    with pytest.raises(NotFoundError):
        compare(store, NAME, tmp_path / "no")


def test_a_broken_source_is_an_error(store, source):
    create(store, source)
    (source / "model.safetensors").write_bytes(b"")

    with pytest.raises(InputError):
        compare(store, NAME, source)


def test_comparing_changes_nothing(store, source):
    create(store, source)
    before = snapshot(store.layout.root)

    findings(store, source)

    assert snapshot(store.layout.root) == before
