"""Blobs of plain models have the digests that Ollama's create gives them, experts included.

Nothing here is ingot's: what `x/create` of Ollama 0.33 does is written down a second time.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path

import pytest

from importer.recipes.options import parse_options
from store import Store
from tests.importer.builders import MODELS, create, manifest_bytes, model

EXPERT = re.compile(
    r"((?:\w+\.)*layers\.\d+\.(?:mlp|moe|mixer)\.(?:shared_)?experts)\.(\d+)\.(.+)\.weight"
)
STACKED = parse_options(stacked=True)


def go_json(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()


def blob(tensors):
    """The bytes of a blob with tensors in this order: (name, dtype, shape, data)."""
    header, offset = {}, 0
    for name, dtype, shape, data in tensors:
        ends = [offset, offset := offset + len(data)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": ends}
    text = go_json(dict(sorted(header.items(), key=lambda item: item[0].encode())))
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in tensors)


def read(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            yield name, entry["dtype"], entry["shape"], data[begin:end]


def tensors_of(directory):
    """Every tensor that the index names, or of the files that begin with `model`."""
    (index,) = [*directory.glob("*.safetensors.index.json"), None][:1]
    if index is not None:
        files = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    else:
        files = sorted(path.name for path in directory.glob("*model*.safetensors"))
    return sorted(
        (tensor for file in files for tensor in read(directory / file)),
        key=lambda tensor: tensor[0].encode(),
    )


def expected(directory, component=""):
    """Layer -> digest, as `planFloat` and `planExpertGroup` make them."""
    blobs, groups = {}, {}
    for name, dtype, shape, data in tensors_of(directory):
        if found := EXPERT.fullmatch(name):
            group, number, projection = found.groups()
            groups.setdefault(group, {}).setdefault(projection, {})[int(number)] = (
                dtype,
                shape,
                data,
            )
        else:
            blobs[component + name] = blob([(name, dtype, shape, data)])
    for group, projections in groups.items():
        members = []
        for projection in sorted(projections):
            experts = [experts for _, experts in sorted(projections[projection].items())]
            dtype, shape, _ = experts[0]
            data = b"".join(one for *_, one in experts)
            name = f"{group}.{projection}.weight"
            members.append((name, dtype, [len(experts), *shape], data))
        blobs[component + group] = blob(members)
    return {name: f"sha256:{hashlib.sha256(data).hexdigest()}" for name, data in blobs.items()}


def stored(tmp_path, source, recipe):
    with Store(tmp_path / "store") as store:
        create(store, source, **({"recipe": recipe} if recipe else {}))
    layers = json.loads(manifest_bytes(store))["layers"]
    return {
        layer["name"]: layer["digest"]
        for layer in layers
        if layer["mediaType"].endswith(".tensor")
    }


@pytest.mark.parametrize(("fixture", "recipe"), [("tiny-llama", None), ("tiny-moe", STACKED)])
def test_a_model_has_the_digests_of_ollama(tmp_path, fixture, recipe):
    assert stored(tmp_path, MODELS / fixture, recipe) == expected(MODELS / fixture)


def test_the_parts_of_a_pipeline_have_the_digests_of_models_alone(tmp_path):
    source = MODELS / "tiny-pipeline"
    layers = {}
    for path in sorted(source.iterdir()):
        if path.is_dir() and [*path.glob("*.safetensors")]:
            layers |= expected(path, f"{path.name}/")

    assert stored(tmp_path, source, None) == layers


def test_odd_experts_have_the_digests_of_ollama(tmp_path):
    prefix = "language_model.backbone.layers.3.mixer"
    names = [
        *(f"{prefix}.experts.{n}.{p}.weight" for n in range(11) for p in ("up", "up-b", "x.y")),
        f"{prefix}.shared_experts.up.weight",
        f"{prefix}.experts.gate_up",
        *(f"model.layers.0.block_sparse_moe.experts.{n}.w1.weight" for n in range(3)),
        *(f"model.layers.0.mlp.experts.{n}.up.bias" for n in range(3)),
        "layers.0.moe.experts.0.up.weight",
        "a<b>&c",
    ]
    source = model(tmp_path / "source", dict.fromkeys(names, ("BF16", (2, 3))))

    assert stored(tmp_path, Path(source), STACKED) == expected(Path(source))
