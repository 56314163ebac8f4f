"""Make a model's logical tensors of the arrays of its components, by their schemes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from importer.sources.containers.sharded import add_tensors
from importer.sources.document import Document, read_document
from importer.sources.file import SourceFile
from importer.sources.schemes import (
    OF_GRAPHS,
    SCHEMES,
    UNKNOWN,
    first_quantized,
    join_tensors,
)
from importer.sources.schemes.modelopt.own_config import QUANT_CONFIG, with_quant_config
from importer.sources.schemes.own_config import OWN_CONFIGS, with_own_config
from importer.sources.tensor import SourceTensor
from store.errors import UnsupportedError
from store.text import printable

NONE: Final[Mapping[str, Sequence[SourceTensor]]] = MappingProxyType({})
"""No container made a tensor of several arrays."""


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


def join(
    parts: Mapping[str, Sequence[SourceTensor]],
    configs: Mapping[str, Document],
    metadata: Mapping[str, Mapping[str, str]],
    known: Mapping[str, Sequence[SourceTensor]] = NONE,
    *,
    as_arrays: bool = False,
) -> Joined:
    """Make tensors of the arrays of every component.

    Args:
        parts: what is stored, by component.
        configs: the `config.json` of each component that has one.
        metadata: what each file of weights says about itself, by path.
        known: weights that containers themselves made of several arrays, by component.
        as_arrays: make no tensors of the arrays of quantized weights.

    Raises:
        InputError: arrays are missing, or contradict each other or a configuration.
        UnsupportedError: a form of a scheme that is not decoded.
    """
    stored = _sorted(parts.values())
    joined = [
        part
        if as_arrays
        else join_tensors(part, configs.get(component, {}), metadata, known.get(component, ()))
        for component, part in parts.items()
    ]
    # Most sources have nothing to join, and may have 100 000 tensors.
    is_joined = any(made is not part for made, part in zip(joined, parts.values(), strict=True))
    scheme = scheme_among(stored, configs)
    is_unjoined = any(tensor.unjoined for tensor in stored)
    if scheme is None and (is_unjoined or any(known.values())):
        scheme = OF_GRAPHS
    tensors = _sorted(joined) if is_joined else stored
    left = None
    if scheme is not None:
        left = _first_quantized([tensor for tensor in tensors if tensor.is_plain], configs)
    is_decoded = (
        scheme is not None
        and SCHEMES[scheme].decodes
        and is_joined
        and not is_unjoined
        and left is None
    )
    return Joined(tensors, scheme, is_decoded, tuple(_unjoined(tensors)), left)


def taken(parts: Mapping[str, Sequence[SourceTensor]]) -> Joined:
    """Return tensors as they are, of a container whose arrays are not parts of others.

    In GGUF a tensor may have the name that another format gives to scales.

    Args:
        parts: what is stored, by component.
    """
    tensors = _sorted(parts.values())
    return Joined(tensors, None, is_decoded=False, notes=tuple(_unjoined(tensors)))


def _sorted(parts: Iterable[Sequence[SourceTensor]]) -> tuple[SourceTensor, ...]:
    """Return the tensors of all components, sorted bytewise by name."""
    tensors: dict[str, SourceTensor] = {}
    for part in parts:
        add_tensors(tensors, part)
    return tuple(sorted(tensors.values(), key=lambda tensor: tensor.name.encode()))


def scheme_among(stored: Sequence[SourceTensor], configs: Mapping[str, Document]) -> str | None:
    """Name the scheme of the first component that has one, with the configuration of each."""
    found = _first_quantized(stored, configs)
    return None if found is None else found.scheme


def _first_quantized(
    stored: Sequence[SourceTensor], configs: Mapping[str, Document]
) -> Unread | None:
    arrays = [(tensor.name, tensor.arrays[0].dtype) for tensor in stored]
    for component, config in configs.items():
        prefix = f"{component}/" if component else ""
        own = (array for array in arrays if array[0].startswith(prefix))
        if found := first_quantized(own, config):
            return Unread(*found, config)
    config = configs.get("", {})
    last = first_quantized(arrays, config)
    return None if last is None else Unread(*last, config)


def check_read(made: Joined) -> None:
    """Make sure that everything that is quantized became tensors: no model is a part of one.

    Raises:
        UnsupportedError: an array is of a scheme, or of a form of one, that is not decoded.
    """
    unread = made.unread
    for tensor in made.tensors:
        if tensor.unjoined:
            what = f"is not decoded: {tensor.unjoined}"
        elif unread is not None and tensor.name == unread.name:
            what = _why_unread(unread)
        else:
            continue
        raise UnsupportedError(
            f"`{tensor.file.path}`: `{printable(tensor.name)}` {what}", code="E_QUANT_FORMAT"
        )


def _why_unread(unread: Unread) -> str:
    declared = unread.config.get("quantization_config")
    method = declared.get("quant_method") if isinstance(declared, dict) else None
    is_known = unread.scheme != UNKNOWN
    how = f"by {unread.scheme}" if is_known else "in a way that is not known"
    said = f" (config.json: `{printable(str(method))}`)" if method else ""
    return f"is quantized {how}{said}, and is not decoded"


def _unjoined(tensors: Iterable[SourceTensor]) -> Iterator[str]:
    """Yield a note for each reason why weights stay the arrays that they are stored as."""
    reasons: dict[str, list[str]] = {}
    for tensor in tensors:
        if tensor.unjoined:
            reasons.setdefault(tensor.unjoined, []).append(tensor.name)
    for reason, names in reasons.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"`{printable(names[0])}`{more} stays the arrays that it is stored as: {reason}"
