"""The configuration blob: Ollama's ConfigV2, then the record under one key of ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from importer.codecs.base import REVISION
from importer.codecs.spec import KEEP, FloatType, QuantSpec, parse_target
from importer.planning.plan import Plan
from importer.recipes.document import to_document
from importer.sources.carried import DRAFT_CONFIG, Role
from importer.sources.classification import Classification, SourceKind
from importer.sources.document import read_document
from importer.sources.file import SourceFile
from importer.sources.file_metadata import fits_record, told
from importer.sources.inventory import Inventory
from importer.sources.stored import RECORD_KEY
from importer.sources.whole import WholeModel
from store import MediaType
from store.json import Json, dumps, sorted_keys
from store.text import short_count

_REQUIRES: Final = "0.19.0"
"""The first Ollama that reads tensor layers."""


def config_bytes(plan: Plan) -> bytes:
    """Return the configuration of a planned model (docs/formats/manifest.md).

    No clock, path or number of threads is in it: the same source and options give the same
    bytes everywhere. `importer.sources.stored.record` reads the record back.
    """
    facts = plan.classification
    if plan.inventory.whole is not None:
        return dumps(_whole(plan.inventory.whole) | {RECORD_KEY: _record(plan, facts)})
    document: dict[str, Json] = {
        "model_format": "safetensors",
        "model_family": facts.family,
        "model_families": [facts.family] if facts.family else None,
        "model_type": "" if plan.parameters is None else short_count(plan.parameters),
        "file_type": file_type(plan),
    }
    if facts.renderer:
        document["renderer"] = facts.renderer
    if facts.parser:
        document["parser"] = facts.parser
    document["requires"] = _REQUIRES
    if facts.capabilities:
        document["capabilities"] = list(facts.capabilities)
    if facts.context_length:
        document["context_length"] = facts.context_length
    if facts.embedding_length:
        document["embedding_length"] = facts.embedding_length
    if (draft := _draft(plan)) is not None:
        document["draft"] = draft
    document |= {"architecture": "", "os": "", RECORD_KEY: _record(plan, facts)}
    return dumps(document)


def _draft(plan: Plan) -> dict[str, Json] | None:
    """Return what Ollama writes for a model that carries a draft, or None."""
    file = next((file.file for file in plan.files if file.name == DRAFT_CONFIG), None)
    prefix = f"{Role.DRAFT}."
    if file is None or not any(tensor.name.startswith(prefix) for tensor in plan.tensors):
        return None
    config = read_document(file)
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else config.get("model_type")
    return {
        "model_format": "safetensors",
        "architecture": first if isinstance(first, str) else "",
        "tensor_prefix": prefix,
        "config": DRAFT_CONFIG,
    }


def _whole(model: WholeModel) -> dict[str, Json]:
    """Return what Ollama's server writes for such a model."""
    document: dict[str, Json] = {
        "model_format": model.format,
        "model_family": model.family,
        "model_families": [model.family],
        "model_type": model.size_label,
        "file_type": model.file_type,
    }
    if model.renderer:
        document["renderer"] = model.renderer
    if model.parser:
        document["parser"] = model.parser
    return document | {"architecture": "amd64", "os": "linux"}


def file_type(plan: Plan) -> str:
    """Return the scheme whose arrays are kept, what was asked for, or what most bytes have."""
    if plan.classification.scheme is not None:
        return plan.classification.scheme
    asked = parse_target(plan.recipe.type or KEEP)
    if isinstance(asked, QuantSpec | FloatType):
        return asked.name
    nbytes: dict[str, int] = {}
    for tensor in plan.tensors:
        name = tensor.quant.name if tensor.quant else tensor.type_name
        nbytes[name] = nbytes.get(name, 0) + tensor.nbytes
    return max(sorted(nbytes), key=lambda name: nbytes[name])


def _record(plan: Plan, facts: Classification) -> dict[str, Json]:
    record: dict[str, Json] = {
        "encoder": REVISION,
        "files": [_file(file) for file in _sources(plan)],
        "kind": str(facts.kind),
        "recipe": to_document(plan.recipe),
    }
    if facts.architecture:
        record["architecture"] = facts.architecture
    if facts.scheme is not None:
        record["prequantized"] = facts.scheme
        used = [source for tensor in plan.tensors for source in tensor.sources]
        places = {(one.arrays[0].extent, one.shape) for one in used if one.nbytes}
        # Rules other than "keep" are about tensors, also where all of these stayed arrays; so
        # are ties: a scale that two weights share is an array of each.
        are_tied = len(places) < sum(one.nbytes > 0 for one in used)
        if not plan.recipe.is_plain or not all(one.is_plain for one in used) or are_tied:
            record["joined"] = True  # comparing and rebuilding make the same tensors
    if plan.inventory.is_apart:
        record["unpacked"] = True  # likewise
    record.update(_origin(plan.inventory))
    if facts.kind is SourceKind.PIPELINE:
        record["components"] = list(plan.inventory.components)
    metadata = told(plan.inventory.metadata)
    is_gguf = plan.inventory.is_apart or plan.inventory.whole is not None
    if metadata and not is_gguf and fits_record(metadata):
        record["metadata"] = {path: sorted_keys(dict(said)) for path, said in metadata.items()}
    runs = list(_source_dtypes(plan))
    if any(dtype is not None for dtype, _ in runs):
        record["source_dtypes"] = [list(run) for run in runs]
    return sorted_keys(record)


def _origin(inventory: Inventory) -> Iterator[tuple[str, Json]]:
    """Yield what tells where the model came from, and which of the weights there."""
    if inventory.variant is not None:
        yield "variant", inventory.variant  # comparing and rebuilding read the same
    if (origin := inventory.origin) is not None:
        yield "hub", {"commit": origin.commit, "repository": origin.repository}
    if inventory.model is not None:
        yield "model", str(inventory.model)


def _sources(plan: Plan) -> Iterator[SourceFile]:
    """Yield the files that the model is made from, sorted bytewise by path."""
    files = {
        file.file.path: file.file
        for file in plan.files
        if file.file.maker is None and file.media_type != MediaType.IMATRIX
    }
    if plan.inventory.model is None:
        files |= {file.path: file for file in plan.inventory.weights}
    for path in sorted(files, key=str.encode):
        yield files[path]


def _source_dtypes(plan: Plan) -> Iterator[tuple[str | None, int]]:
    """Yield runs of source dtypes, tensors in the manifest's order; None: the layer says it."""
    dtypes = (
        None if not blob.is_group and tensor.layer_dtype == tensor.dtype else tensor.dtype
        for blob in plan.blobs
        for tensor in blob.tensors
    )
    for dtype, run in itertools.groupby(dtypes):
        yield dtype, sum(1 for _ in run)


def _file(file: SourceFile) -> dict[str, Json]:
    entry: dict[str, Json] = {"name": file.path, "size": file.size}
    return sorted_keys(entry | {"sha256": file.sha256} if file.sha256 else entry)
