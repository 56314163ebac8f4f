"""ONNX models: which files are of this format, and what tensors their graphs have."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from importer.sources.base import Contents, ReadRange, Selection
from importer.sources.containers.sharded import add_tensors
from importer.sources.file import SourceFile, opened, read_bytes
from importer.sources.naming import WeightsName
from importer.sources.tensor import SourceTensor

if TYPE_CHECKING:
    from importer.formats.onnx.model import Model

# The room of the format is entered when there is such a file: its modules would take some
# milliseconds of every command that looks at a source.

_SUFFIX: Final = ".onnx"
_VARIANT: Final = (
    r"(?P<stem>.+?)_(?P<variant>fp16|bf16|fp32|quantized|bnb4|q[1-8](f16)?|u?int[248]"
    r"|O[1-4]|q?u?int8_\w+)"
)
"""As optimum, transformers.js and sentence-transformers name what they export.

It is compiled for the first such file: that takes 3 ms, and most sources have none."""
_STEMS: Final = ("model",)
_COPIES: Final = {
    "decoder_model_merged": "decoder_model",
    "decoder_with_past_model": "decoder_model",
}
"""Files that have the same weights as another one of a directory, if that is there."""


class Onnx:
    """Graphs with weights; these become tensors, and the graph is not kept."""

    def claims(self, path: str, head: bytes | None = None) -> WeightsName | None:
        """Take a name apart: `model[_variant].onnx`."""
        name = path.rpartition("/")[2]
        if head is not None:
            from importer.formats.onnx.model import is_onnx  # noqa: PLC0415 - see the top

            return (_parsed(name) or WeightsName(name)) if is_onnx(head) else None
        return _parsed(name)

    def members(self, index: SourceFile, there: Container[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Return none: the format has no indexes."""
        return ()

    def fetch_header(self, path: str, size: int, read: ReadRange) -> None:
        """Read the graph, and jump over the data of tensors."""
        from importer.formats.onnx.model import read_model  # noqa: PLC0415 - see the top

        read_model(f"`{path}`", size, read)

    def read(
        self, selection: Selection, files: Mapping[str, SourceFile], component: str
    ) -> Contents:
        """Read the graphs of the selected files; of several, each has a prefix of its own."""
        contents = Contents((), ())
        tensors: dict[str, SourceTensor] = {}
        for path in selection.files:
            file = files[path]
            prefix = f"{_stem(file.name)}." if len(selection.files) > 1 else ""
            found = _read(file, files, component, prefix)
            add_tensors(tensors, found.tensors)
            contents = contents._replace(
                files=tuple(dict.fromkeys((*contents.files, *found.files))),
                joined=(*contents.joined, *found.joined),
                notes=(*contents.notes, *found.notes),
            )
        graph = "the graph is not kept, only its tensors are"
        shown = f"`{selection.files[0]}`" if len(selection.files) == 1 else "ONNX"
        notes = (f"{shown}: {graph}", *contents.notes)
        return contents._replace(tensors=tuple(tensors.values()), notes=notes)

    def cross_check(self, file: SourceFile, names: AbstractSet[str]) -> None:
        """Do nothing: the other reader keeps whole models in memory."""


def _parsed(name: str) -> WeightsName | None:
    if not name.lower().endswith(_SUFFIX):
        return None
    stem, variant = name[: -len(_SUFFIX)], ""
    if match := re.fullmatch(_VARIANT, stem):
        stem, variant = match["stem"], match["variant"]
    precedence = _STEMS.index(stem) if stem in _STEMS else None
    copy_of = _COPIES.get(stem, "")
    return WeightsName(stem, variant, precedence=precedence, copy_of=copy_of)


def _stem(name: str) -> str:
    parsed = _parsed(name)
    return name if parsed is None else parsed.stem


def _read(
    file: SourceFile, files: Mapping[str, SourceFile], component: str, prefix: str
) -> Contents:
    from importer.formats.onnx.model import read_model  # noqa: PLC0415 - see the top
    from importer.formats.onnx.quantized import Computed  # noqa: PLC0415
    from importer.sources.containers.onnx_data import Data  # noqa: PLC0415

    where = f"`{file.path}`"
    with opened(file) as descriptor:
        model = read_model(
            where, file.size, lambda start, end: read_bytes(file, descriptor, start, end)
        )
    data = Data(file, files)
    tensors = {
        name: SourceTensor.plain(data.array(tensor, prefix + name), component)
        for name, tensor in model.tensors.items()
    }
    joined, reasons = _joined(model, tensors, where)
    computed = {one.codes.name for one in model.quantized if isinstance(one, Computed)}
    for name, why in reasons.items():
        is_computed = name in computed
        tensors[name] = tensors[name]._replace(unjoined=why, is_computed=is_computed)
    found = sorted(tensors.values(), key=lambda one: (one.file.path, one.arrays[0].offset))
    return Contents((file, *data.files), tuple(found), joined=joined, notes=model.notes)


def _joined(
    model: Model, tensors: Mapping[str, SourceTensor], where: str
) -> tuple[tuple[SourceTensor, ...], Mapping[str, str]]:
    """Return the weights that are several tensors, and why others are not joined, by name."""
    from importer.sources.schemes.onnx.scheme import join_weight, weight_name  # noqa: PLC0415

    made: dict[str, SourceTensor] = {}
    reasons: dict[str, str] = {}
    for found in model.quantized:
        name = found.codes.name
        weight = join_weight(found, tensors, where)
        if isinstance(weight, str):
            reasons[name] = weight
        elif made.setdefault(name, weight) != weight:
            reasons[name] = "two nodes read it in two ways"
    named = []
    taken = {tensor.name for tensor in tensors.values()}
    for name, weight in made.items():
        if name not in reasons:
            shown = weight_name(weight.name, taken)
            taken.add(shown)
            named.append(weight._replace(name=shown))
    return tuple(named), reasons
