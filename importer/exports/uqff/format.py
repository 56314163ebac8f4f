"""UQFF: the directory that mistral.rs loads, as it writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from importer.exports.assembly import assemble
from importer.exports.base import ExportOptions, Row, WritePlan
from importer.exports.documents import (
    QUANTIZATION_FILES,
    to_bytes,
    with_dtype,
    without_quantization,
)
from importer.exports.safetensors import Constant, Shard, Weight, make_shard, make_shards
from importer.exports.uqff.content import Content
from importer.exports.uqff.models import EMBEDDING, MODELS, UqffModel
from importer.exports.uqff.rotary import spelled_as_before
from importer.exports.uqff.types import UNQUANTIZED, UqffType, parse_types
from importer.formats.uqff.names import REPORT, RESIDUAL, SUFFIX
from importer.formats.uqff.version import KEYS, METADATA, Version
from importer.planning.importance import Weigher
from importer.planning.plan import Plan
from importer.recipes.options import QuantizeOptions, parse_options
from importer.sources.classification import SourceKind
from importer.sources.document import CONFIG
from importer.sources.imatrix import read_imatrix
from store.errors import UnsupportedError, UsageError
from store.text import printable

_SHARD: Final = 10 << 30
_PRODUCER: Final[Mapping[str, str]] = {"uqff.producer": "ingot"}
_BASE: Final = Version(1, 0, 0)
_WITH_PLAIN: Final = Version(1, 1, 0)
"""The first with layers that are not quantized."""
_WITH_EMBEDDING: Final = Version(1, 2, 0)
"""The first with embeddings among the layers."""
_TOKENIZER: Final = "tokenizer.json"
_NO_LONGER: Final = "says how the source's weights are quantized"


class Uqff:
    """Text models that mistral.rs has a class for."""

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Keep everything: what becomes of layers is the format's to decide."""
        if asked.recipe is not None:
            raise UsageError(
                "the format uqff has no recipes, expected a type for all layers",
                code="E_EXPORT_TYPE",
            )
        if asked.quantize is not None:
            parse_types(asked.quantize, asked.group_size)
        elif asked.group_size is not None:
            raise UsageError(
                "a group size for uqff, expected an AFQ type with it", code="E_QUANT_GROUP"
            )
        options = parse_options(None)
        return QuantizeOptions(options.target, base=options.base, stacked=False)

    def plan(self, plan: Plan, asked: ExportOptions) -> WritePlan:
        """Put layers into a set of shards for each type, all else into one file."""
        model = _model_of(plan)
        types: Sequence[UqffType | None] = (None,)
        if asked.quantize is not None:
            types = parse_types(asked.quantize, asked.group_size)
        weigher = _weigher(plan, asked.imatrix, types)
        sets = [Content(plan, model, one, asked.dtype, weigher) for one in types]
        # Readers of 1.1 look for embeddings that are not quantized among the other tensors.
        is_plain = all(one.types.get(EMBEDDING) == UNQUANTIZED for one in sets)
        kept = (EMBEDDING,) if is_plain else ()
        shards: list[Shard] = []
        for one in sets:
            shards += _shards(one, kept, asked.shard_size or _SHARD)
        residual = [
            *sets[0].others,
            *(sets[0].layers[name]._replace(constants=()) for name in kept),
        ]
        newest = max(_version(one, kept) for one in sets)
        shards.append(make_shard(RESIDUAL, _sorted(residual), _metadata(newest)))
        documents = {}
        config = without_quantization(plan.inventory.configs[""])
        if asked.dtype is not None:
            config = with_dtype(config, asked.dtype)
        added = spelled_as_before(config)
        config |= added
        if config != plan.inventory.configs[""]:
            documents[CONFIG] = to_bytes(config)
        dropped = dict.fromkeys((*sorted(QUANTIZATION_FILES), REPORT), _NO_LONGER)
        notes = [line for one in sets for line in one.notes()]
        if plan.inventory.file(_TOKENIZER) is None:
            notes.append(f"the model has no `{_TOKENIZER}`, which mistral.rs asks for")
        if added:
            keys = " and ".join(f"`{key}`" for key in added)
            notes.append(f"{CONFIG} gets {keys} for mistral.rs, out of its `rope_parameters`")
        return assemble(
            plan,
            shards,
            documents,
            dropped,
            list(_rows(sets, shards)),
            lossy=dict.fromkeys(line for one in sets for line in one.lossy()),
            notes=dict.fromkeys(notes),
        )


def _weigher(
    plan: Plan, imatrix: str | None, types: Sequence[UqffType | None]
) -> Weigher | None:
    """Return what knows the importance of columns, or None where none is given."""
    if imatrix is None:
        return None
    if not any(one is not None and one.is_weighed for one in types):
        raise UsageError(
            "an importance matrix for uqff, expected a K type (q2k to q6k) with it",
            code="E_EXPORT_TYPE",
        )
    found = read_imatrix(Path(imatrix))
    return Weigher(found, plan.inventory.tensors, plan.classification.family)


def _model_of(plan: Plan) -> UqffModel:
    kind, family = plan.classification.kind, plan.classification.family
    if kind is not SourceKind.MODEL or plan.inventory.components != ("",):
        raise UnsupportedError(
            f"`uqff` has no place for {kind.noun}, expected a language model",
            code="E_EXPORT_FORMAT",
        )
    if "" not in plan.inventory.configs:
        raise UnsupportedError(
            f"the model has no `{CONFIG}`, without which mistral.rs does not know what it is",
            code="E_EXPORT_FORMAT",
        )
    if family not in MODELS:
        raise UnsupportedError(
            f"the architecture `{printable(family)}` in UQFF: known are {', '.join(MODELS)}",
            code="E_EXPORT_FORMAT",
        )
    return MODELS[family]


def _shards(layers: Content, kept: Sequence[str], size: int) -> list[Shard]:
    """Return the files of one type, the version in the first."""
    version = _version(layers, kept)
    weights = _sorted(layer for name, layer in layers.layers.items() if name not in kept)
    numbers = tuple(
        Constant(key, "U32", (), value.to_bytes(4, "little"))
        for key, value in zip(KEYS, version, strict=True)
    )
    if weights:
        first = weights[0]
        weights[0] = first._replace(constants=(*first.constants, *numbers))
    return make_shards(layers.stem, weights, size, _metadata(version), _shard_name)


def _shard_name(stem: str, number: int, _: int) -> str:
    return f"{stem}-{number - 1}{SUFFIX}"


def _version(layers: Content, kept: Sequence[str]) -> Version:
    """Return the oldest version that has all that the layers need."""
    if EMBEDDING in layers.layers and EMBEDDING not in kept:
        return _WITH_EMBEDDING
    rest = (kind for name, kind in layers.types.items() if name not in kept)
    return _WITH_PLAIN if UNQUANTIZED in rest else _BASE


def _metadata(version: Version) -> Mapping[str, str]:
    return {**_PRODUCER, METADATA: str(version)}


def _rows(sets: Sequence[Content], shards: Sequence[Shard]) -> Iterator[Row]:
    """Yield a row for each tensor of each set, and for each that is in none."""
    known = {row.name: row for one in sets[:1] for row in one.rows}
    sets_of = {one.stem: {row.name: row for row in one.rows} for one in sets}
    for shard in shards:
        stem = shard.file.path.removesuffix(SUFFIX).rpartition("-")[0]
        rows = sets_of.get(stem, known)
        for weight in shard.weights:
            yield rows[weight.name]._replace(file=shard.file.path, nbytes=weight.nbytes)


def _sorted(weights: Iterable[Weight]) -> list[Weight]:
    return sorted(weights, key=lambda weight: weight.name.encode())
