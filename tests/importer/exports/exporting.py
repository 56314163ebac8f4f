"""Do what `ingot export` does, without the command line."""

from __future__ import annotations

import pickle

from safetensors import safe_open

from importer.exports.base import ExportOptions
from importer.exports.export import ExportRequest, export_model, plan_export
from importer.sources.location import StoredModel
from store import ModelName


def planned(store, dest, to="hf", *, name="m", source=None, **asked):
    """Plan an export of a stored model, or of a source; `asked` are words of the command."""
    words = ("q", "group_size", "recipe", "dtype", "shard_size")
    more = {"imatrix": asked.pop("imatrix", None), "projector": asked.pop("projector", False)}
    options = ExportOptions(*(asked.pop(word, None) for word in words), **more)
    request = ExportRequest(
        source or StoredModel(ModelName.parse(name)),
        dest,
        to,
        options,
        **{"threads": 2, **asked},
    )
    return request, plan_export(request, store)


def export(store, dest, to="hf", **asked):
    """Export a stored model; give the plan's files."""
    request, plan = planned(store, dest, to, **asked)
    pickle.loads(pickle.dumps(plan.write.pieces))  # a cluster can be given any of them
    export_model(request, plan, store)
    return plan.write


def arrays(directory):
    """Name -> dtype, shape and bytes of every array below a directory, by the library."""
    found = {}
    for path in sorted(directory.rglob("*.safetensors")):
        prefix = str(path.parent.relative_to(directory))
        for name, array in arrays_in(path).items():
            key = name if prefix == "." else f"{prefix}/{name}"
            assert key not in found
            found[key] = array
    return found


def arrays_in(path):
    """Name -> dtype, shape and bytes of every array of a file, by the library."""
    with safe_open(path, "np") as file:
        names = list(file.keys())
    header, start, data = header_of(path)
    found = {}
    for name in names:
        begin, end = header[name]["data_offsets"]
        place = data[start + begin : start + end]
        found[name] = header[name]["dtype"], tuple(header[name]["shape"]), place
    return found


def header_of(path):
    """The header of a file, where its data begins, and the file."""
    import json

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), 8 + length, data


def tree(directory):
    """Path -> bytes of every file."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def nothing_else(parent, *names):
    """Whether a directory has these entries and no others."""
    return {path.name for path in parent.iterdir()} == set(names)
