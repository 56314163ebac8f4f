"""llama.cpp's layout: the file that its converter writes, and `llama-quantize` after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from importer.codecs.as_blocks import AsBlocks
from importer.codecs.ggml.types import NAMED, GgmlType
from importer.exports.base import ExportOptions, WritePlan
from importer.exports.experts import experts_of
from importer.exports.gguf.architectures import Architecture, architecture_of
from importer.exports.gguf.documents import Documents
from importer.exports.gguf.file import Content, Typed, mxfp4_moved
from importer.exports.gguf.hparams import Hparams
from importer.exports.gguf.losses import again, behind, rounded, unseen, unused
from importer.exports.gguf.mixing import facts_of, fallen_back, mixed, moved_last
from importer.exports.gguf.numbers import numbers_of
from importer.exports.gguf.parameters import Metadata, Parameters
from importer.exports.gguf.pooling import pooling_of
from importer.exports.gguf.projector import projector
from importer.exports.gguf.provenance import general
from importer.exports.gguf.requantizing import copied, requantized, whole_files
from importer.exports.gguf.rules import take_tensors
from importer.exports.gguf.split import published
from importer.exports.gguf.tensors import (
    Model,
    Tensor,
    is_buffer,
    is_of_text,
    ordered,
)
from importer.exports.gguf.types import ALIASES, FILE_TYPES, FileType, converted_type
from importer.exports.gguf.unchanged import as_blocks
from importer.exports.gguf.vocabulary import Vocabulary
from importer.exports.gguf.ways import WAYS
from importer.exports.gguf.weighting import keys_of
from importer.formats.gguf.metadata import Value
from importer.formats.gguf_names.spelling import spelling_of
from importer.formats.imatrix.matrix import ImportanceMatrix
from importer.planning.plan import Plan
from importer.recipes.options import QuantizeOptions, parse_options
from importer.sources.classification import SourceKind
from importer.sources.document import Document
from importer.sources.imatrix import read_imatrix
from importer.sources.parameters import scales_activations
from importer.sources.roles import LeftOut
from importer.sources.tensor import SourceTensor
from store.errors import UnsupportedError, UsageError
from store.text import printable

_VERSION: Final = 2
"""Of the quantized blocks, which llama.cpp checks."""
_IN_FILE: Final = "replaced by keys of the GGUF file"
_MATRIX: Final = 2
_STACK: Final = 3
_GUESSED: Final = 1024
"""The number of a file's type that says that nobody knows."""


class Gguf:
    """Text models that llama.cpp's converter has a class for."""

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Return what keeps all: the plan decides what tensors become."""
        if asked.group_size or asked.recipe or asked.dtype:
            raise UsageError(
                "the format gguf has types of its own, and no groups, recipes or dtypes",
                code="E_EXPORT_TYPE",
            )
        file_type_name(asked.quantize)
        options = parse_options(None)
        return QuantizeOptions(options.target, base=options.base, stacked=False)

    def plan(self, plan: Plan, asked: ExportOptions) -> WritePlan:
        """Rename, stack and turn as the converter does; write keys and vocabulary before."""
        inventory = plan.inventory
        word = file_type_name(asked.quantize)
        matrix = _matrix(asked.imatrix, word)
        files = (file.file for file in plan.files if file.file.maker is None)
        left = (*plan.left_out, *(LeftOut(file.path, _IN_FILE) for file in files))
        if (whole := whole_files(inventory)) is not None:
            if word or asked.shard_size is not None:
                return requantized(asked, whole, word, matrix, left)
            return copied(asked.name, whole, left)
        _check_kind(plan)
        config = inventory.configs[""]
        architecture = architecture_of(plan.classification.architecture)
        documents = Documents(inventory)
        hparams = _hparams(config, architecture, documents)
        of_all = ordered(list(_sources(plan)))
        every = [one for one in of_all if not one.component]
        sources = list(_taken(every, architecture))
        seeing = [one for one in every if not is_of_text(one.own_name)]
        tensors = list(as_blocks(_tensors(architecture, hparams, sources), word))
        kept = [_kept(one, word) for one in tensors]
        wanted = FILE_TYPES[word] if word else _usual(tensors, kept, sources)
        is_float = not wanted.is_mixture and (word or NAMED[wanted.kind].is_plain)
        usual = NAMED[wanted.kind if is_float else _usual_float(sources).kind]
        typed = [
            Typed(one, kind or converted_type(one.name, one.shape, usual))
            for one, kind in zip(tensors, kept, strict=True)
        ]
        is_packed = any(one.kind.name == "MXFP4" for one in typed)
        if is_packed and NAMED[wanted.kind].is_plain:
            wanted = FILE_TYPES["MXFP4_MOE"]._replace(is_mixture=False)
        first, parameters = (
            Parameters(architecture.name, hparams, wanted.number).made(lines)
            for lines in (architecture.first, architecture.parameters)
        )
        metadata: Metadata = {"general.architecture": Value("string", architecture.name)}
        metadata |= first | numbers_of(architecture.numbers, every)
        metadata |= general(asked.name, documents, tensors)
        metadata |= parameters
        metadata["general.quantization_version"] = Value("u32", _VERSION)
        metadata |= WAYS[architecture.vocabulary](Vocabulary(documents, config, hparams))
        if word and wanted.is_mixture:
            typed = mixed(typed, word, facts_of(metadata), matrix)
            metadata = moved_last(metadata, word) | keys_of(matrix)
        model = Content(f"{asked.name}.gguf", metadata, typed)
        losses = () if word else rounded(typed)  # who asks for a type asks for its values
        lossy = (*losses, *behind([one for one in of_all if one.component]))
        of_text = (one for one in every if is_of_text(one.own_name))
        others = []
        if asked.projector:
            kind = _usual_float(seeing) if wanted.is_mixture else wanted
            others.append(projector(asked.name, config, documents, seeing, kind))
        else:
            lossy = (*lossy, *unseen(seeing))
        write = published(asked, model, others, left)
        notes = (
            *unused(list(of_text), typed),
            *fallen_back(typed, word, facts_of(metadata)),
            *(again(typed) if word else ()),  # else it is told as a loss
        )
        return replace(write, lossy=lossy, notes=notes)


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


def _matrix(path: str | None, word: str) -> ImportanceMatrix | None:
    if path is None:
        return None
    if not word or not FILE_TYPES[word].is_mixture:
        raise UsageError(
            f"the type {word or 'of the source'} is made without an importance matrix",
            code="E_EXPORT_TYPE",
        )
    matrix = read_imatrix(Path(path)).matrix
    if not matrix.is_gguf:
        raise UsageError(
            f"`{printable(path)}` has Hugging Face's names, and GGUF needs a matrix of "
            "llama-imatrix",
            code="E_EXPORT_TYPE",
        )
    return matrix


def _kept(tensor: Tensor, word: str) -> GgmlType | None:
    """Return the type of blocks that stay what they are, because none was asked for.

    Stacks of experts in MXFP4 stay so whatever float is asked for, as in the converter.
    """
    decoders = [one.decoder for one in tensor.members]
    is_stack = len(tensor.shape) >= _STACK and not (word and FILE_TYPES[word].is_mixture)
    if is_stack and all(map(mxfp4_moved, decoders)):
        return NAMED["MXFP4"]
    if word or not decoders:
        return None
    first = decoders[0]
    if isinstance(first, AsBlocks):
        return NAMED[first.kind]
    if len(tensor.shape) >= _MATRIX and all(map(mxfp4_moved, decoders)):
        return NAMED["MXFP4"]
    kind = NAMED.get(tensor.before)
    return None if kind is None or kind.is_plain else kind


def _usual(
    tensors: Sequence[Tensor],
    kept: Sequence[GgmlType | None],
    sources: Sequence[SourceTensor],
) -> FileType:
    """Return the type of a file for which none was asked: that of most blocks, or a float's."""
    blocks: Counter[str] = Counter()
    for tensor, kind in zip(tensors, kept, strict=True):
        if kind is not None:
            blocks[kind.name] += len(tensor.members)
    if not blocks:
        return _usual_float(sources)
    (name, _), *_ = blocks.most_common(1)
    found = [one for word, one in FILE_TYPES.items() if one.kind == name and word[-2:] != "_S"]
    return found[0] if found else FileType(_GUESSED, name)


def _usual_float(sources: Sequence[SourceTensor]) -> FileType:
    """Return the type of the first matrix, if that is one of 16 bits; else F16."""
    dtypes = (one.dtype for one in sources if len(one.shape) >= _MATRIX)
    found = next((dtype for dtype in dtypes if dtype in {"BF16", "F16"}), "F16")
    return FILE_TYPES[found]


def _hparams(config: Document, architecture: Architecture, documents: Documents) -> Hparams:
    """Return what a configuration says of a class, its blocks and positions counted."""
    hparams = Hparams(config, {**architecture.fixed, **pooling_of(documents)})
    hparams.add_blocks(architecture.further)
    if architecture.skips_padding:
        hparams.skip_padding()
    return hparams


def _check_kind(plan: Plan) -> None:
    kind = plan.classification.kind
    components = {one.sources[0].component for one in plan.tensors}
    is_text = "" in components if kind is SourceKind.SENTENCE else components == {""}
    if kind not in {SourceKind.MODEL, SourceKind.SENTENCE} or not is_text:
        raise UnsupportedError(
            f"`gguf` has no place for {kind.noun}, expected a language model "
            "or one of embeddings",
            code="E_EXPORT_FORMAT",
        )
    if "" not in plan.inventory.configs:
        raise UnsupportedError(
            "the model has no `config.json`, without which its architecture is not known",
            code="E_EXPORT_FORMAT",
        )


def _taken(every: Sequence[SourceTensor], architecture: Architecture) -> Iterator[SourceTensor]:
    """Yield the tensors of the text model that are used, by the names of the table."""
    for one in every:
        name = one.own_name.removeprefix(architecture.strips)
        is_key = one.own_name.endswith(tuple(architecture.numbers))
        is_unused = name.startswith(architecture.drops) or scales_activations(name, one.shape)
        if is_of_text(one.own_name) and not is_key and not is_unused:
            yield one._replace(name=name) if architecture.strips else one


def _sources(plan: Plan) -> Iterator[SourceTensor]:
    """Yield each tensor of the model once but buffers, packed ones whole, experts apart."""
    seen: set[str] = set()
    for one in plan.tensors:
        source = one.part_of or one.sources[0]
        if source.name in seen:
            continue
        seen.add(source.name)
        for tensor in experts_of(plan.inventory, source):
            if not is_buffer(tensor.own_name):
                yield tensor


def _tensors(
    architecture: Architecture, hparams: Hparams, sources: Sequence[SourceTensor]
) -> list[Tensor]:
    spelling = spelling_of(architecture.spelled(one.own_name for one in sources))
    assert spelling is not None, architecture.variant
    model = Model(hparams, spelling, sources)
    take_tensors(model, architecture)
    return model.tensors()
