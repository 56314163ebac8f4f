"""What keeps a model from being exported, and what of a stored one is damaged or unclear."""

from __future__ import annotations

import json

import pytest

from tests.cli.codes.judge import judged
from tests.importer.builders import MODELS, model, write
from tests.importer.exports.gguf_checkpoints import checkpoint
from tests.importer.exports.test_gguf import matrix

LLAMA = MODELS / "tiny-llama"
EXPERT = "model.layers.0.mlp.experts.{}.up_proj.weight"


def _export(at, source, to="gguf", *more):
    return "export", source, at.here / "out", "--to", to, *more


def _config(at, **change):
    source = checkpoint(at.here / "s", "llama")
    config = json.loads((source / "config.json").read_bytes())
    write(source, {"config.json": config | change})
    return source


def _no_vocabulary(at):
    source = checkpoint(at.here / "s", "llama")
    return _export(at, write(source, {"tokenizer.model": b"nonsense"}))


def _gap(at):
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"}
    tensors = {EXPERT.format(number): ("BF16", (32, 32)) for number in (0, 2)}
    return _export(at, model(at.here / "s", tensors, config), "mlx")


def _rounded(at):
    packed = ("F8_E4M3", (256, 256)), ("F32", (2, 2))
    names = "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight_scale_inv"
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 256,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    source = model(at.here / "s", dict(zip(names, packed, strict=True)), config)
    return _export(at, source, "mlx", "--strict")


def _many_files(at):
    at.patch("importer.exports.gguf.split._MOST", 2)
    source = checkpoint(at.here / "s", "llama")
    return _export(at, source, "gguf", "--split-max-size", "1")


def _without_its_matrix(at):
    source = checkpoint(at.here / "s", "llama")
    weights = matrix(at.here / "imatrix.dat", "llama")
    words = _export(at, source, "gguf", "-q", "q4_1", "--imatrix", weights)
    at.run("create", "llama", source)
    at.run(*words)
    return "verify", "llama", "--export", at.here / "out"


def _report(at):
    at.run("create", "rounded", LLAMA, "-q", "int4", "--report")
    at.patch("importer.models.quality._SCHEMA", "another")
    return "show", "rounded", "--quality"


def _parameters(at):
    write(at.here, {"Modelfile": f"FROM {LLAMA}\nPARAMETER top_k 7\n"})
    at.run("create", "tuned", "-f", at.here / "Modelfile")
    manifest = at.store / "manifests/registry.ollama.ai/library/tuned/latest"
    layers = json.loads(manifest.read_bytes())["layers"]
    (digest,) = (one["digest"] for one in layers if one["mediaType"].endswith(".params"))
    blob = at.store / "blobs" / digest.replace(":", "-")
    blob.chmod(0o600)
    blob.write_bytes(b"?" * blob.stat().st_size)
    write(at.here, {"Modelfile": "FROM tuned\nPARAMETER top_k 8\n"})
    return "create", "x", "-f", at.here / "Modelfile"


def _two_of_an_id(at):
    """Digests begin alike in practice only where someone looked for that."""
    at.run("create", "other", model(at.here / "s"))
    at.patch("store.lookup.digits_of", lambda _: "")
    return "show", "0a1b"


SCENES = {
    "E_GGUF_CONFIG": lambda at: _export(at, _config(at, num_attention_heads=-1)),
    "E_TOKENIZER": _no_vocabulary,
    "E_EXPORT_EXPERTS": _gap,
    "E_EXPORT_IMATRIX": _without_its_matrix,
    "E_EXPORT_LOSSY": _rounded,
    "E_EXPORT_SPLIT": _many_files,
    "E_QUALITY": _report,
    "E_JSON": _parameters,
    "E_ID_AMBIGUOUS": _two_of_an_id,
}
"""Code -> the command that it ends, after what was made to be wrong."""


@pytest.mark.parametrize("code", SCENES)
def test_an_export_or_a_stored_model(code, scene):
    words = SCENES[code](scene)

    judged(code, *words, store=scene.store)
