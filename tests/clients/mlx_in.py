"""Checkpoints that MLX's programs quantized, through the store and out again."""

from __future__ import annotations

import json
import shutil

import mlx.core as mx

from tests.importer.exports.exporting import arrays


def one_file(source, place):
    """What `mlx.core.save_safetensors` makes of all arrays: one file, no index, its header."""
    place.mkdir(parents=True)
    found = {}
    for path in sorted(source.glob("*.safetensors")):
        found |= mx.load(str(path))
    mx.save_safetensors(str(place / "model.safetensors"), found, {"format": "mlx"})
    keep_rest(source, place)
    return place


def by_shapes(source, place):
    """What FFAI writes: a block for all modules alone, and every width told by the shapes."""
    one_file(source, place)
    path = place / "config.json"
    config = json.loads(path.read_bytes())
    config.pop("quantization_config", None)
    said = config["quantization"]
    config["quantization"] = {key: said[key] for key in ("group_size", "bits")}
    path.write_text(json.dumps(config, indent=2))
    return place


def keep_rest(source, place):
    """Copy everything but the weights."""
    for path in source.iterdir():
        if path.suffix != ".safetensors" and not path.name.endswith(".index.json"):
            shutil.copy(path, place / path.name)


def forms(source):
    """Name -> directory of a checkpoint of mlx-lm as each program has it."""
    config = json.loads((source / "config.json").read_bytes())
    said = config["quantization"]
    yield "mlx-lm", source
    yield "mlx", one_file(source, source.with_name(f"{source.name}-one"))
    sizes = {entry.get("group_size") for entry in said.values() if isinstance(entry, dict)}
    if said.get("mode", "affine") == "affine" and sizes <= {said["group_size"]}:
        yield "FFAI", by_shapes(source, source.with_name(f"{source.name}-ffai"))


def check(source, ingot, differing):
    """Yield what is compared, how many arrays there are and how many differ, for each form.

    Out again, in MLX's layout and in the source's, they are the same names, dtypes, shapes and
    bytes; and so they are out of a model that was made of the stored one.
    """
    for program, directory in forms(source):
        expected = arrays(directory)
        stored = f"in-{directory.name}".lower().replace("_", "-")
        ingot.run("create", stored, directory)
        ingot.run("create", f"{stored}-again", stored)
        for name, to in ((stored, "mlx"), (stored, "hf"), (f"{stored}-again", "mlx")):
            out = directory.with_name(f"{name}-{to}")
            ingot.run("export", name, out, "--to", to)
            found = arrays(out)
            yield f"of {program} to {to}", len(found), differing(found, expected)
            shutil.rmtree(out)
