"""Models that Ollama wrote: every kind of layer is read, verified, copied and made use of."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from store import Store
from tests.cli.runner import run
from tests.importer.builders import MODELS
from tests.importer.formats.gguf import builders as gguf
from tests.test_ollama_digests import blob

TYPE = "application/vnd.ollama.image."
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
EXPERTS = "model.layers.0.mlp.experts"
GGUF = gguf.SEEDS[0]


class Ollama:
    """A store as Ollama's programs write it, without one of ours."""

    def __init__(self, root):
        self.root = root
        (root / "blobs").mkdir(parents=True)

    def put(self, kind, data, name=None):
        digest = hashlib.sha256(data).hexdigest()
        (self.root / "blobs" / f"sha256-{digest}").write_bytes(data)
        media_type = kind if "/" in kind else TYPE + kind
        layer = {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}
        return layer | ({"name": name} if name else {})

    def model(self, name, config, layers):
        document = {"schemaVersion": 2, "mediaType": MANIFEST}
        document |= {"config": self.put(CONFIG, config), "layers": layers}
        path = self.root / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
        path.parent.mkdir(parents=True)
        path.write_bytes(json.dumps(document, separators=(",", ":")).encode() + b"\n")
        return layers


def values(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape).tobytes()


@pytest.fixture
def ollama(tmp_path):
    return Ollama(tmp_path / "store")


@pytest.fixture
def tensors(ollama):
    """What `ollama create --experimental` writes of a quantized MoE with a draft."""
    packed = {f"{EXPERTS}.{name}.weight": 64 for name in ("down_proj", "up_proj")}
    layers = [
        ollama.put("tensor", blob([("model.norm.weight", "F32", [4], values(4))]),
                   "model.norm.weight"),
        # Projections of several types: a blob each, as MLX writes them, without padding.
        *(ollama.put("tensor", mlx_blob(one, columns), one) for one, columns in packed.items()),
        ollama.put("json", b'{"architectures":["Glm4MoeLiteForCausalLM"]}', "config.json"),
        ollama.put("tensor", blob([("draft.a.weight", "F32", [2], values(2))]),
                   "draft.a.weight"),
        ollama.put("json", b'{"architectures":["Draft"]}', "draft/config.json"),
        ollama.put("template", b"{{ .Prompt }}"),
        ollama.put("system", b"Be kind."),
        ollama.put("license", b"MIT"),
        ollama.put("params", b'{"temperature":0.7}\n'),
        ollama.put("messages", b'[{"role":"user","content":"hi"}]\n'),
    ]  # fmt: skip
    config = (
        b'{"model_format":"safetensors","model_family":"","model_families":null,'
        b'"model_type":"","file_type":"int4","renderer":"glm-4.7","parser":"glm-4.7",'
        b'"requires":"0.19.0","capabilities":["completion","tools"],"draft":{"model_format":'
        b'"safetensors","architecture":"Draft","tensor_prefix":"draft.","config":'
        b'"draft/config.json"},"architecture":"","os":""}'
    )
    return ollama.model("m", config, layers)


def mlx_blob(name, columns):
    """As MLX's save_safetensors: another order of fields and data, no padding."""
    parts = {
        f"{name}.bias": ("F32", [2, 16, columns // 64], values(2, 16, columns // 64)),
        f"{name}.scale": ("F32", [2, 16, columns // 64], values(2, 16, columns // 64)),
        name: ("U32", [2, 16, columns // 8], values(2, 16, columns // 8)),
    }
    header, offset = {"__metadata__": {"group_size": "64", "quant_type": "int4"}}, 0
    for key, (dtype, shape, data) in parts.items():
        ends = [offset, offset := offset + len(data)]
        header[key] = {"data_offsets": ends, "dtype": dtype, "shape": shape}
    text = json.dumps(dict(sorted(header.items())), separators=(",", ":")).encode()
    data = b"".join(data for *_, data in parts.values())
    return len(text).to_bytes(8, "little") + text + data


def layers_of(store, name):
    return run("show", name, "--json", store=store).document["layers"]


@pytest.mark.usefixtures("tensors")
def test_a_model_of_tensors_is_described(ollama):
    shown = run("show", "m", "--json", store=ollama.root).document

    assert shown["parameters"] == 4 + 2 * (2 * 16 * 64)  # the draft does not count
    found = {tensor["name"]: tensor for tensor in shown["tensors"]}
    expert = found[f"{EXPERTS}.up_proj.weight"]
    assert (expert["shape"], expert["quant_type"], expert["group_size"]) == (
        [2, 16, 64],
        "int4",
        64,
    )
    assert shown["runs_in"]["ollama"] == "0.19.0"
    assert shown["problems"] == []
    assert shown["config"]["draft"]["architecture"] == "Draft"


def test_a_model_of_tensors_is_verified_and_copied(ollama, tensors):
    assert run("verify", store=ollama.root).code == 0
    run("cp", "m", "n", store=ollama.root).succeeded()

    assert layers_of(ollama.root, "n") == tensors


def test_its_modelfile_makes_it_again(ollama, tensors, tmp_path):
    shown = run("show", "m", "--modelfile", store=ollama.root).succeeded().stdout
    (tmp_path / "Modelfile").write_text(shown)

    run("create", "n", "-f", tmp_path / "Modelfile", store=ollama.root).succeeded()

    for name in ("m", "n"):
        assert layers_of(ollama.root, name) == tensors
    digests = {
        run("show", name, "--json", store=ollama.root).document["digest"] for name in "mn"
    }
    assert len(digests) == 1


def test_another_system_prompt_keeps_its_order_of_layers(ollama, tensors, tmp_path):
    (tmp_path / "Modelfile").write_text("FROM m\nSYSTEM Be brief.\n")

    run("create", "n", "-f", tmp_path / "Modelfile", store=ollama.root).succeeded()

    system = f"{TYPE}system"
    kept = [layer for layer in tensors if layer["mediaType"] != system]
    *before, last = layers_of(ollama.root, "n")
    assert before == kept
    assert last["digest"] == f"sha256:{hashlib.sha256(b'Be brief.').hexdigest()}"


@pytest.mark.usefixtures("tensors")
def test_its_tensors_are_quantized_from_the_store(ollama):
    run("create", "n", "m", "-q", "int8", store=ollama.root).succeeded()

    shown = run("show", "n", "--json", store=ollama.root).document
    found = {tensor["name"]: tensor["quant_type"] for tensor in shown["tensors"]}
    assert found[f"{EXPERTS}.up_proj.weight"] == "int8"
    assert found["draft.a.weight"] is None
    assert shown["config"]["draft"]["architecture"] == "Draft"
    assert shown["config"]["parser"] == "glm-4.7"
    assert run("show", "n", "--system", store=ollama.root).stdout == "Be kind.\n"


@pytest.mark.usefixtures("tensors")
@pytest.mark.parametrize("kind", ["template", "params", "messages", "tensor", "json"])
def test_damage_of_any_layer_is_found(ollama, kind):
    layer = next(
        one for one in layers_of(ollama.root, "m") if one["mediaType"] == f"{TYPE}{kind}"
    )
    path = ollama.root / "blobs" / layer["digest"].replace(":", "-")
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))

    assert run("verify", "m", store=ollama.root).code == 5


KINDS = ("model", "projector", "adapter", "draft", "embed", "prompt", "template", "messages")


@pytest.fixture
def whole(ollama):
    contents = {"prompt": b"{{ .Old }}", "template": b"{{ .Prompt }}", "messages": b"[]\n"}
    layers = [ollama.put(kind, contents.get(kind, GGUF)) for kind in KINDS]
    config = (
        b'{"model_format":"gguf","model_family":"llama","model_families":["llama"],'
        b'"model_type":"1.0B","file_type":"F16","architecture":"amd64","os":"linux"}\n'
    )
    return ollama.model("g", config, layers)


def test_every_kind_of_layer_of_a_gguf_model_is_read_and_copied(ollama, whole):
    shown = run("show", "g", "--json", store=ollama.root).document
    assert shown["problems"] == []
    assert [one["source"] for one in shown["templates"]] == ["TEMPLATE", "TEMPLATE"]
    assert run("verify", store=ollama.root).code == 0
    run("cp", "g", "h", store=ollama.root).succeeded()

    assert layers_of(ollama.root, "h") == whole


def test_a_template_replaces_that_of_an_earlier_version_too(ollama, whole, tmp_path):
    (tmp_path / "Modelfile").write_text("FROM g\nTEMPLATE {{ .New }}\nPARSER gemma4\n")

    run("create", "h", "-f", tmp_path / "Modelfile", store=ollama.root).succeeded()

    kept = [one for one in whole if not one["mediaType"].endswith(("template", "prompt"))]
    assert layers_of(ollama.root, "h")[:-1] == kept
    with Store(ollama.root) as store:
        config = next(store.blobs.path(one.parse().config.digest) for one in found(store, "h"))
    assert config.read_bytes() == (
        b'{"model_format":"gguf","model_family":"llama","model_families":["llama"],'
        b'"model_type":"1.0B","file_type":"F16","parser":"gemma4","architecture":"amd64",'
        b'"os":"linux"}\n'
    )


def found(store, name):
    return [
        store.catalog.find(entry.name)
        for entry in store.catalog.entries()
        if entry.name is not None and entry.name.model == name
    ]


def test_repair_makes_what_its_source_has(store, tmp_path):
    run("create", "m", MODELS / "tiny-llama", store=store).succeeded()
    (tmp_path / "Modelfile").write_text("FROM m\nSYSTEM x\n")
    run("create", "n", "-f", tmp_path / "Modelfile", store=store).succeeded()
    run("rm", "m", store=store).succeeded()
    layer = next(one for one in layers_of(store, "n") if one.get("name") == "model.norm.weight")
    path = store / "blobs" / layer["digest"].replace(":", "-")
    path.chmod(0o644)
    path.write_bytes(b"x" * layer["size"])

    run("verify", "n", "--repair", store=store)

    assert run("verify", store=store).code == 0
