"""llama.cpp's layout: the file that its converter writes, and `llama-quantize` after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from importer.codecs.base import Decoder, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.ggml.encoder import quantizer
from importer.codecs.ggml.types import NAMED, GgmlType
from importer.codecs.plain import Plain
from importer.codecs.transcode import Copy, Gather, Recode
from importer.codecs.views.every_other import EveryOther
from importer.exports.base import ExportFile, ExportOptions, Piece, Row, WritePlan
from importer.exports.experts import experts_of
from importer.exports.gguf.architectures import Architecture, architecture_of
from importer.exports.gguf.documents import Documents
from importer.exports.gguf.hparams import Hparams
from importer.exports.gguf.parameters import Metadata, Parameters
from importer.exports.gguf.provenance import general
from importer.exports.gguf.rules import take_tensors
from importer.exports.gguf.tensors import Model, Tensor, is_of_text, ordered
from importer.exports.gguf.types import FILE_TYPES, FileType, converted_type
from importer.exports.gguf.vocabulary import Vocabulary
from importer.exports.gguf.ways import WAYS
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import TensorInfo, encode_head, padded
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


class Gguf:
    """Text models that llama.cpp's converter has a class for."""

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Return a repack: what the tensors become is decided here."""
        if asked.group_size or asked.recipe or asked.dtype:
            raise UsageError(
                "the format gguf has types of its own, and no groups, recipes or dtypes",
                code="E_EXPORT_TYPE",
            )
        file_type(asked.quantize)
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
        wanted = file_type(asked.quantize) or _usual(sources)
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
        kinds = [converted_type(one.name, one.shape, NAMED[wanted.kind]) for one in tensors]
        left = (LeftOut(file.file.path, _IN_FILE) for file in plan.files)
        return _assemble(asked.name, metadata, tensors, kinds, (*plan.left_out, *left))


def file_type(name: str | None) -> FileType | None:
    """Return the type of a file by the word that was asked for; None where none was.

    Raises:
        UsageError: there is no such type.
    """
    if name is None:
        return None
    found = FILE_TYPES.get(name.upper())
    if found is None:
        known = ", ".join(FILE_TYPES)
        raise UsageError(
            f"`{printable(name)}` is not a type of the format gguf, expected {known}",
            code="E_EXPORT_TYPE",
        )
    return found


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


def _assemble(
    name: str,
    metadata: Metadata,
    tensors: Sequence[Tensor],
    kinds: Sequence[GgmlType],
    left_out: tuple[LeftOut, ...],
) -> WritePlan:
    infos = [
        TensorInfo(one.name, one.shape, kind.number, _nbytes(one, kind))
        for one, kind in zip(tensors, kinds, strict=True)
    ]
    head = bytearray(encode_head(metadata, infos))
    offset = len(head)
    pieces: list[Piece] = []
    rows: list[Row] = []
    gaps: list[tuple[int, bytes]] = []
    path = f"{name}.gguf"
    for one, kind, info in zip(tensors, kinds, infos, strict=True):
        pieces += _pieces(one, kind, offset, info.nbytes)
        rows.append(Row(one.name, one.shape, one.before, kind.name, path, info.nbytes))
        if one.data:
            assert offset == len(head), "what is computed comes first"
            head += one.data.ljust(padded(info.nbytes), b"\0")
        elif gap := padded(info.nbytes) - info.nbytes:
            gaps.append((offset + info.nbytes, bytes(gap)))
        offset += padded(info.nbytes)
    file = ExportFile(path, offset, bytes(head), tuple(gaps))
    rows.sort(key=lambda row: row.name)
    return WritePlan((file,), tuple(pieces), tuple(rows), left_out, is_file=True)


def _nbytes(tensor: Tensor, kind: GgmlType) -> int:
    rows = 1
    for size in tensor.shape[:-1]:
        rows *= size
    return rows * kind.row_nbytes(tensor.shape[-1])


def _pieces(tensor: Tensor, kind: GgmlType, offset: int, nbytes: int) -> Iterator[Piece]:
    if not tensor.members:
        return
    share = nbytes // len(tensor.members)
    for number, member in enumerate(tensor.members):
        places = ((offset + share * number, share),)
        transcoder = transcoder_to(kind, member.decoder)
        shape = member.shape
        if member.turn is not None:
            *outer, last = shape
            shape = (
                (*outer, last // 2)
                if member.by_element
                else (*outer[:-1], outer[-1] // 2, last)
            )
            width = 1 if member.by_element else last
            transcoder = EveryOther(transcoder, member.turn, width)
        yield Piece(tensor.name, shape, member.extents, transcoder, 0, places)


def transcoder_to(kind: GgmlType, decoder: Decoder) -> Transcoder:
    """Return what makes a type of GGML of arrays that a decoder reads."""
    dtype = decoder.value_dtype
    if kind.is_plain:
        if dtype == kind.name:
            return Copy(dtype) if isinstance(decoder, Plain) else Gather(decoder)
        return Recode(decoder, Cast(dtype, kind.name))
    return Recode(decoder, quantizer(kind.name, dtype))
