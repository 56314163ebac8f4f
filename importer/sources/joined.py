"""The tensors of a model, and whether they may be parts of others: most are not.

What joins the parts of quantized weights is imported for a source that may have them: with its
schemes that is thirty modules, 8 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from importer.sources.containers.sharded import add_tensors
from importer.sources.document import Document, read_document
from importer.sources.file import SourceFile
from importer.sources.schemes.modelopt.own_config import QUANT_CONFIG, with_quant_config
from importer.sources.schemes.own_config import OWN_CONFIGS, with_own_config
from importer.sources.tensor import SourceTensor, StoredArray
from store.text import printable

_FLOATS: Final = frozenset({"BF16", "F16", "F32", "F64"})
_MARKS: Final = ("weight_scale", "weight_scale_inv", "weight_packed", "absmax", "SCB")
"""Ends of the names of floats, beside which a scheme misses a weight if there is none."""
_INTEGERS: Final = frozenset({"I64", "I32"})
_BUFFERS: Final = ("position_ids", "num_batches_tracked")
"""Ends of the names of integers that models of floats have, too: BERT's, CLIP's, ResNet's."""
_NAMED: Final = 5
"""Weights that one note names."""
_DECLARATIONS: Final = ("quantization_config", "quantization", "compression_config")
"""Where a `config.json` says how weights are quantized."""


class Unread(NamedTuple):
    """An array of a scheme that made no tensor of it.

    Attributes:
        config: of its component.
    """

    scheme: str
    name: str
    config: Document


class Joined(NamedTuple):
    """The tensors of a model.

    Attributes:
        tensors: sorted bytewise by name.
        scheme: how the weights are quantized already, or None.
        is_decoded: whether the tensors are the logical ones, although there is a scheme.
        notes: what the user should know, a sentence each.
        unread: what is quantized and is not decoded, or None.
    """

    tensors: tuple[SourceTensor, ...]
    scheme: str | None
    is_decoded: bool
    notes: tuple[str, ...]
    unread: Unread | None = None


def declared(
    configs: Mapping[str, Document], files: Iterable[SourceFile]
) -> Mapping[str, Document]:
    """Return each configuration with what older programs say in a file of their own.

    Raises:
        InputError: that is not a JSON object.
    """
    found = dict(configs)
    for file in files:
        if file.name == QUANT_CONFIG:
            said = read_document(file)
            found[file.directory] = with_quant_config(found.get(file.directory, {}), said)
        elif file.name in OWN_CONFIGS:
            own = with_own_config(found.get(file.directory, {}), file.name, read_document(file))
            found[file.directory] = own
    return found


def taken(parts: Mapping[str, Sequence[SourceTensor]]) -> Joined:
    """Return tensors as they are, of a container whose arrays are not parts of others.

    In GGUF a tensor may have the name that another format gives to scales.

    Args:
        parts: what is stored, by component.
    """
    tensors = in_order(parts.values())
    return Joined(tensors, None, is_decoded=False, notes=tuple(notes_of(tensors)))


def in_order(parts: Iterable[Sequence[SourceTensor]]) -> tuple[SourceTensor, ...]:
    """Return the tensors of all components, sorted bytewise by name."""
    tensors: dict[str, SourceTensor] = {}
    for part in parts:
        add_tensors(tensors, part)
    return tuple(sorted(tensors.values(), key=lambda tensor: tensor.name.encode()))


def may_be_quantized(
    stored: Iterable[SourceTensor],
    configs: Mapping[str, Document],
    known: Mapping[str, Sequence[SourceTensor]],
) -> bool:
    """Return whether any scheme may have something to say about arrays.

    Quantized weights have codes, which are not floats, or a configuration declares them; what
    was left of them without their codes has the name of a scale.

    Args:
        stored: every array as it is stored.
        configs: the `config.json` of each component that has one.
        known: weights that containers themselves made of several arrays, by component.
    """
    if any(known.values()):
        return True
    if any(key in config for config in configs.values() for key in _DECLARATIONS):
        return True
    return any(
        tensor.unjoined or _may_be_part(array) for tensor in stored for array in tensor.arrays
    )


def _may_be_part(array: StoredArray) -> bool:
    if array.dtype in _FLOATS:
        return array.name.endswith(_MARKS)
    return array.dtype not in _INTEGERS or not array.name.endswith(_BUFFERS)


def notes_of(tensors: Iterable[SourceTensor]) -> Iterator[str]:
    """Yield a note for each reason why weights stay the arrays that they are stored as."""
    reasons: dict[str, list[str]] = {}
    for tensor in tensors:
        if tensor.unjoined:
            reasons.setdefault(tensor.unjoined, []).append(tensor.name)
    for reason, names in reasons.items():
        shown = ", ".join(f"`{printable(name)}`" for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        stay = "stays the arrays that it is"
        if len(names) > 1:
            stay = "stay the arrays that they are"
        yield f"{shown}{more} {stay} stored as: {reason}"
