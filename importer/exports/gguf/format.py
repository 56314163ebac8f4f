"""llama.cpp's layout: the file that its converter writes, and `llama-quantize` after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from importer.codecs.ggml.types import NAMED
from importer.exports.base import ExportOptions, WritePlan
from importer.exports.experts import experts_of
from importer.exports.gguf.architectures import Architecture, architecture_of
from importer.exports.gguf.documents import Documents
from importer.exports.gguf.file import Typed, assemble
from importer.exports.gguf.hparams import Hparams
from importer.exports.gguf.mixtures import Facts, by_block, mixed_types, trimmed
from importer.exports.gguf.parameters import Metadata, Parameters
from importer.exports.gguf.provenance import general
from importer.exports.gguf.rules import take_tensors
from importer.exports.gguf.tensors import Model, Tensor, is_of_text, ordered
from importer.exports.gguf.types import ALIASES, FILE_TYPES, FileType, converted_type
from importer.exports.gguf.vocabulary import Vocabulary
from importer.exports.gguf.ways import WAYS
from importer.formats.gguf.metadata import Value
from importer.formats.gguf_names.spelling import spelling_of
from importer.planning.plan import Plan
from importer.recipes.options import QuantizeOptions, parse_options
from importer.sources.classification import SourceKind
from importer.sources.roles import LeftOut
from importer.sources.tensor import SourceTensor
from store.errors import UnsupportedError, UsageError
from store.text import printable

_VERSION: Final = 2
"""Of the quantized blocks, which llama.cpp checks."""
_IN_FILE: Final = "what GGUF has of it is among the file's keys"
_MATRIX: Final = 2
_BY_BLOCKS: Final = frozenset({"llama", "qwen2", "deci", "olmo"})
"""Of these, models with 80 blocks are those with 70 billion parameters to llama.cpp."""


class Gguf:
    """Text models that llama.cpp's converter has a class for."""

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Return a repack: what the tensors become is decided here."""
        if asked.group_size or asked.recipe or asked.dtype:
            raise UsageError(
                "the format gguf has types of its own, and no groups, recipes or dtypes",
                code="E_EXPORT_TYPE",
            )
        file_type_name(asked.quantize)
        options = parse_options("repack")
        return QuantizeOptions(options.target, base=options.base, stacked=False)

    def plan(self, plan: Plan, asked: ExportOptions) -> WritePlan:
        """Rename, stack and turn as the converter does; write keys and vocabulary before."""
        _check_kind(plan)
        inventory = plan.inventory
        config = inventory.configs[""]
        architecture = architecture_of(plan.classification.architecture)
        hparams = Hparams(config, architecture.fixed)
        sources = ordered(list(_sources(plan, architecture)))
        word = file_type_name(asked.quantize)
        wanted = FILE_TYPES[word] if word else _usual(sources)
        tensors = _tensors(architecture, hparams, sources)
        documents = Documents(inventory)
        first, parameters = (
            Parameters(architecture.name, hparams, wanted.number).made(lines)
            for lines in (architecture.first, architecture.parameters)
        )
        metadata: Metadata = {"general.architecture": Value("string", architecture.name)}
        metadata |= first
        metadata |= general(asked.name, documents, tensors)
        metadata |= parameters
        metadata["general.quantization_version"] = Value("u32", _VERSION)
        metadata |= WAYS[architecture.vocabulary](Vocabulary(documents, config, hparams))
        left = (LeftOut(file.file.path, _IN_FILE) for file in plan.files)
        usual = NAMED[_usual(sources).kind if wanted.is_mixture else wanted.kind]
        typed = [Typed(one, converted_type(one.name, one.shape, usual)) for one in tensors]
        if wanted.is_mixture:
            typed = mixed(typed, word, _facts(architecture.name, metadata))
            metadata = moved_last(metadata)
        return assemble(asked.name, metadata, typed, (*plan.left_out, *left))


def file_type_name(name: str | None) -> str:
    """Return the word for the type of a file that was asked for; empty where none was.

    Raises:
        UsageError: there is no such type.
    """
    if name is None:
        return ""
    word = ALIASES.get(name.upper(), name.upper())
    if word not in FILE_TYPES:
        raise UsageError(
            f"`{printable(name)}` is not a type of the format gguf, expected "
            f"{', '.join(FILE_TYPES)}",
            code="E_EXPORT_TYPE",
        )
    return word


def mixed(typed: Sequence[Typed], word: str, facts: Facts) -> list[Typed]:
    """Return tensors as `llama-quantize` sorts and types them.

    Args:
        typed: as the converter writes them.
        word: for the type of the file.
        facts: about the model.

    Raises:
        UsageError: the type needs an importance matrix.
    """
    ranked = sorted(typed, key=lambda one: by_block(one.tensor.name))
    named = [(one.tensor.name, one.tensor.shape) for one in ranked]
    kinds = mixed_types(named, word, FILE_TYPES[word].kind, facts)
    return [
        Typed(
            one.tensor._replace(shape=trimmed(one.tensor.shape)),
            one.kind if kind is None else NAMED[kind],
        )
        for one, kind in zip(ranked, kinds, strict=True)
    ]


def moved_last(metadata: Metadata) -> Metadata:
    """Return the keys as `llama-quantize` writes them: those that it sets come last."""
    last = ("general.quantization_version", "general.file_type")
    made = {key: value for key, value in metadata.items() if key not in last}
    return made | {key: metadata[key] for key in last}


def _facts(architecture: str, metadata: Metadata) -> Facts:
    def number(key: str) -> int:
        found = metadata.get(f"{architecture}.{key}")
        return int(found.value) if isinstance(found, Value) else 0

    heads, shared = number("attention.head_count"), number("attention.head_count_kv")
    return Facts(
        number("block_count"),
        number("expert_count"),
        heads // shared if shared else 1,
        is_llama=architecture in _BY_BLOCKS,
    )


def _usual(sources: Sequence[SourceTensor]) -> FileType:
    """Return the type of the first matrix, if that is one of 16 bits; else F16."""
    dtypes = (one.dtype for one in sources if len(one.shape) >= _MATRIX)
    found = next((dtype for dtype in dtypes if dtype in {"BF16", "F16"}), "F16")
    return FILE_TYPES[found]


def _check_kind(plan: Plan) -> None:
    kind = plan.classification.kind
    if kind is not SourceKind.MODEL or plan.inventory.components != ("",):
        raise UnsupportedError(f"llama.cpp does not load a {kind}", code="E_EXPORT_FORMAT")
    if "" not in plan.inventory.configs:
        raise UnsupportedError(
            "the model has no `config.json`, without which its architecture is not known",
            code="E_EXPORT_FORMAT",
        )


def _sources(plan: Plan, architecture: Architecture) -> Iterator[SourceTensor]:
    """Yield each tensor of the text model once, packed ones whole, experts apart."""
    seen: set[str] = set()
    for one in plan.tensors:
        source = one.part_of or one.sources[0]
        if source.name in seen:
            continue
        seen.add(source.name)
        for tensor in experts_of(plan.inventory, source):
            name = tensor.own_name
            if is_of_text(name) and name not in architecture.drops:
                yield tensor


def _tensors(
    architecture: Architecture, hparams: Hparams, sources: Sequence[SourceTensor]
) -> list[Tensor]:
    spelling = spelling_of(architecture.variant)
    assert spelling is not None, architecture.variant
    model = Model(hparams, spelling, sources)
    take_tensors(model, architecture)
    return model.tensors()
