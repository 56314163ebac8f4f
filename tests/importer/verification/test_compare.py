"""A stored model against its source, byte by byte."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from importer.codecs.registry import codec_for
from importer.codecs.runtime import NUMPY
from importer.codecs.spec import QUANT_TYPES, with_group_size
from importer.models.description import describe
from importer.recipes.options import parse_options
from importer.recipes.recipe import Misaligned
from importer.verification.compare import compare
from store import ModelName, Store
from store.errors import InputError, NotFoundError
from store.fs import FileSystem
from tests.check_store import snapshot
from tests.importer.builders import (
    FIXTURES,
    MODELS,
    create,
    framed,
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

    found = compare(store, NAME, MODELS / fixture, threads=3)

    assert (found.findings, found.notes) == ((), ())
    assert found.tensors == len({*_tensor_names(store)})
    assert found.nbytes > 0


def _tensor_names(store):
    return [tensor.name for tensor in describe(store, NAME).tensors]


def test_every_byte_is_counted_once(store, source):
    create(store, source)
    counted = []

    found = compare(store, NAME, source, listen=lambda event: counted.append(event.nbytes))

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

    assert findings(store, source) == [
        ("a.weight", "differs from the source at or after element 0")
    ]


def test_a_difference_is_told_to_the_chunk(store, tmp_path):
    data = bytearray(3 << 20)
    source = model(tmp_path / "m", {"w": ("U8", (3 << 20,), bytes(data))})
    create(store, source)
    data[-1] = 1
    overwrite(source, {"w": ("U8", (3 << 20,), bytes(data))})

    assert findings(store, source) == [
        ("w", f"differs from the source at or after element {5 << 19}")
    ]


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

    assert findings(store, source) == [
        ("a.weight", "differs from the source at or after element 0")
    ]
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
    parts = change(
        [bytes(part) for part in codec.encode(memoryview(values).cast("B"), NUMPY).parts]
    )
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
        (lambda parts: [bytes(len(parts[0])), *parts[1:]], "is not the source in int4/32"),
        (
            lambda parts: [parts[0], bytes(len(parts[1])), parts[2]],
            "is not the source in int4/32",
        ),
    ],
)
def test_what_is_far_from_its_source_is_a_finding(store, tmp_path, change, words):
    tensors, layer = quantized(change=change)
    handmade(store, [layer])
    source = write(tmp_path / "q", {"model.safetensors": safetensors(tensors)})

    ((subject, message),) = findings(store, source)

    assert subject == "a.weight"
    assert words.replace("/32", "") in message


KEY = "a.weight"


def ollamas(order=("", ".bias", ".scale"), keys=str, cut=0, metadata=None):
    """A quantized tensor of 4 rows, laid out as Ollama does: no padding, fields in its order.

    Args:
        order: of the parts in the file.
        keys: changes the name of a part.
        cut: bytes that the file lacks at its end.
    """
    values = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    codec = codec_for(QUANT_TYPES["int4"], "F32")
    made = codec.encode(memoryview(values).cast("B"), NUMPY).parts
    parts = {
        part.suffix: (part, bytes(content))
        for part, content in zip(codec.parts(values.shape), made, strict=True)
    }
    header, content = {"__metadata__": metadata}, b""
    for suffix in order:
        part, piece = parts[suffix]
        offsets = [len(content), len(content) + len(piece)]
        header[keys(KEY + suffix)] = {
            "data_offsets": offsets,
            "dtype": part.dtype,
            "shape": list(part.shape),
        }
        content += piece
    blob = framed(header, content[: len(content) - cut])
    return {KEY: ("F32", values.shape, values.tobytes())}, blob


def found_in(store, tmp_path, tensors, blob, **fields):
    handmade(store, [tensor_layer(blob, KEY, **fields)])
    source = write(tmp_path / "q", {"model.safetensors": safetensors(tensors)})
    return compare(store, NAME, source)


@pytest.mark.parametrize(
    "metadata", [None, {"quant_type": "int4", "group_size": "32"}, {"quant_type": "int4"}]
)
@pytest.mark.parametrize(
    "order", [("", ".bias", ".scale"), ("", ".scale", ".bias"), (".scale", ".bias", "")]
)
def test_a_blob_in_ollamas_layout_is_decoded(store, tmp_path, order, metadata):
    tensors, blob = ollamas(order, metadata=metadata)

    found = found_in(store, tmp_path, tensors, blob)

    assert found.findings == ()
    assert found.notes[0].startswith("1 tensors were quantized to int4")


def test_a_plain_tensor_under_the_old_key_is_compared(store, tmp_path):
    values = bytes(range(64))
    entry = {"data_offsets": [0, 64], "dtype": "F32", "shape": [4, 4]}
    blob = framed({"__metadata__": None, "data": entry}, values)
    other = {KEY: ("F32", (4, 4), values[:-1] + b"x")}

    same = found_in(store, tmp_path, {KEY: ("F32", (4, 4), values)}, blob)
    differs = found_in(store, tmp_path, other, blob)

    assert same.findings == ()
    assert [finding.subject for finding in differs.findings] == [KEY]


def test_a_blob_that_ends_early_is_a_finding(store, tmp_path):
    tensors, blob = ollamas(cut=4)

    (only,) = found_in(store, tmp_path, tensors, blob).findings

    assert only.subject == KEY
    assert "data" in only.message


def test_a_part_that_is_not_there_is_a_finding(store, tmp_path):
    tensors, blob = ollamas(order=("", ".scale"), metadata={"quant_type": "int4"})

    (finding,) = found_in(store, tmp_path, tensors, blob).findings

    assert finding.message.startswith("lacks bytes that int4 has")


def test_scales_of_another_dtype_are_a_finding(store, tmp_path):
    tensors, blob = ollamas()
    halves = {KEY: ("BF16", (4, 64), tensors[KEY][2][: 4 * 64 * 2])}

    (finding,) = found_in(store, tmp_path, halves, blob).findings

    assert finding.message.endswith("or has them in another dtype")


def test_a_quantized_tensor_without_elements_is_its_source(store, tmp_path):
    codec = codec_for(QUANT_TYPES["int4"], "F32")
    blob = {KEY + part.suffix: (part.dtype, part.shape) for part in codec.parts((0, 64))}
    content = safetensors(blob, {"quant_type": "int4", "group_size": "32"})

    found = found_in(store, tmp_path, {KEY: ("F32", (0, 64))}, content)

    assert found.findings == ()


def test_weights_that_are_not_finite_are_a_finding(store, tmp_path):
    tensors, blob = ollamas()
    bad = np.frombuffer(tensors[KEY][2], np.float32).copy()
    bad[7] = np.nan

    (finding,) = found_in(
        store, tmp_path, {KEY: ("F32", (4, 64), bad.tobytes())}, blob
    ).findings

    assert "not finite" in finding.message


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
    create(store, MODELS / fixture, recipe=parse_options(**how))

    found = compare(store, NAME, MODELS / fixture, threads=2)

    assert (found.findings, found.notes) == ((), ())
    assert found.tensors == len({*_tensor_names(store)})


def test_a_quantized_tensor_of_another_source_differs(store, tmp_path):
    source, _ = quantized()
    made = model(tmp_path / "q", source)
    create(store, made, recipe=parse_options("int4", recipe="uniform"))
    values = bytes(128) + source["a.weight"][2][128:]
    overwrite(made, {"a.weight": ("F32", (4, 64), values)})

    assert findings(store, made) == [
        ("a.weight", "differs from the source at or after element 0")
    ]


def test_a_tensor_that_is_not_of_its_recipes_type_is_a_finding(store, tmp_path):
    tensors, _ = quantized()
    made = model(tmp_path / "q", tensors)
    create(store, made, recipe=parse_options("int4", recipe="uniform"))
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


class BadSector(FileSystem):
    """Fails to read one file of the store, from one byte on."""

    broken = (None, 0)

    def read(self, file, size, offset):
        self._try(file, size, offset)
        return super().read(file, size, offset)

    def read_into(self, file, buffer, offset):
        self._try(file, len(buffer), offset)
        return super().read_into(file, buffer, offset)

    def _try(self, file, size, offset):
        broken, at = self.broken
        if file.path.name == broken and offset + size > at:
            raise OSError(errno.EIO, "Input/output error", str(file.path))


@pytest.mark.parametrize("place", [0, -1], ids=["header", "data"])
def test_a_blob_that_cannot_be_read_is_a_finding_and_the_others_are_compared(
    tmp_path, source, place
):
    with Store(tmp_path / "store", BadSector()) as store:
        create(store, source)
        layers = store.catalog.get(NAME).parse().layers
        bad = next(layer.digest for layer in layers if layer.name == "a.weight")
        store.fs.broken = (bad.file_name, place % store.blobs.status(bad).size)
        overwrite(source, {**TENSORS, "b.weight": ("BF16", (2,), b"abcx")})

        told = findings(store, source)

    assert ("a.weight", f"`{store.blobs.path(bad)}`: Input/output error (EIO)") in told
    assert ("b.weight", "differs from the source at or after element 0") in told


def test_a_source_that_cannot_be_opened_is_an_error(store, source, monkeypatch):
    create(store, source)

    def refuse(file):
        raise PermissionError(errno.EACCES, "Permission denied", str(file.location))

    monkeypatch.setattr("importer.engine.reader.opened", refuse)

    with pytest.raises(PermissionError):
        compare(store, NAME, source)


def test_want_of_descriptors_is_no_difference(store, source, monkeypatch):
    create(store, source)

    def poor(_, path):
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    monkeypatch.setattr(FileSystem, "open", poor)

    with pytest.raises(OSError, match="Too many"):
        compare(store, NAME, source)


def test_comparing_changes_nothing(store, source):
    create(store, source)
    before = snapshot(store.layout.root)

    findings(store, source)

    assert snapshot(store.layout.root) == before
