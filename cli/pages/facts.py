"""What the page about a model tells, each part by itself; the template arranges them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cli.pages import charts
from cli.views.collapse import collapse
from cli.views.text import digits
from importer.codecs.metrics import Deviation
from importer.engine.values import Sample, sample
from importer.models.description import Description
from importer.models.places import Role, layer_of, role_of
from importer.models.quality import Quality, read_quality
from importer.sources.stored.tensors import StoredTensor
from store import MediaType, Store, limits
from store.errors import InputError, IntegrityError, UnsupportedError
from store.tensorfile import elements
from store.text import count, printable, short_count, size

_ROWS: Final = 200
"""Rows of a table; what is left out is said."""
MOST: Final = 8
"""Tensors that lost most, templates, licenses."""
LONGEST: Final = 32 << 10
"""Characters of a template or a license."""
SPARK: Final = (240.0, 72.0)
_SEEN: Final = 0.4
"""Area below which nothing is drawn; tables have it."""


class Text(NamedTuple):
    """A long text, safe to show, and how much of it is missing."""

    title: str
    body: str
    missing: int


class Table(NamedTuple):
    """Rows of cells, and how many rows are missing."""

    rows: list[tuple[str, ...]]
    missing: int


class Part(NamedTuple):
    """A role or a type: how many tensors and bytes it has, and its share of all bytes."""

    name: str
    tensors: int
    nbytes: int
    share: float
    bits: str


class Values(NamedTuple):
    """A histogram and what stands below it."""

    role: str
    bars: list[charts.Bar]
    edge: str
    facts: list[tuple[str, str]]
    told: str


def numbers(model: Description) -> Iterator[tuple[str, str, str]]:
    """Yield label, value and, for a number that is cut, the whole of it."""
    yield "Size", size(model.size), f"{model.size:,} bytes in all blobs"
    if model.parameters is not None:
        short, whole = short_count(model.parameters), f"{model.parameters:,}"
        yield "Parameters", short, "" if short == whole else whole
        nbytes = sum(tensor.nbytes for tensor in model.tensors)
        if model.parameters:
            bits = f"{8 * nbytes / model.parameters:.2f}"
            yield "Bits per weight", bits, "scales and biases included"
    if model.dtypes:
        others = len(model.dtypes) - 1
        more = f"and {count(others, 'other type')}" if others else "all tensors"
        weights: Counter[str] = Counter()
        for tensor in model.tensors:
            weights[tensor.type_name] += elements(tensor.shape)
        yield "Main type", printable(max(weights, key=lambda name: weights[name])), more
    yield "Tensors", f"{len(model.tensors):,}", ""
    layers = {layer_of(tensor.name) for tensor in model.tensors} - {""}
    if layers:
        yield "Layers", f"{len(layers):,}", ""
    if model.context_length is not None:
        yield "Context", f"{model.context_length:,}", "tokens"
    if model.embedding_length is not None:
        yield "Width", f"{model.embedding_length:,}", "embedding length"


def drawn(areas: Sequence[charts.Area]) -> list[charts.Area]:
    """Leave out the cells that nobody could see."""
    return [
        area._replace(
            cells=tuple(
                cell for cell in area.cells if cell.box.width * cell.box.height >= _SEEN
            )
        )
        for area in areas
    ]


def parts(
    tensors: Sequence[StoredTensor], labelled: Sequence[tuple[str, StoredTensor]]
) -> list[Part]:
    """Return how much each label has, the largest first."""
    whole = sum(tensor.nbytes for tensor in tensors) or 1
    groups: dict[str, list[StoredTensor]] = {}
    for label, tensor in labelled:
        groups.setdefault(label, []).append(tensor)
    found = []
    for label, members in groups.items():
        nbytes = sum(tensor.nbytes for tensor in members)
        number = sum(elements(tensor.shape) for tensor in members)
        bits = f"{8 * nbytes / number:.2f}" if number else ""
        found.append(Part(printable(label), len(members), nbytes, nbytes / whole, bits))
    return sorted(found, key=lambda part: (-part.nbytes, part.name))[:_ROWS]


def in_components(model: Description) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors of a pipeline, each with its component."""
    names = sorted(model.record.components, key=len, reverse=True)
    for tensor in model.tensors:
        for name in names:
            if name and tensor.name.startswith(f"{name}/"):
                yield name, tensor
                break


def quality(store: Store, model: Description) -> list[Quality]:
    """Read the report of quality, empty where there is none."""
    layer = next(model.layers(MediaType.QUALITY), None)
    if layer is None:
        return []
    return read_quality(
        store.blobs.read(layer.ref, limits.QUALITY_BYTES), f"blob {layer.digest}"
    )


def total(found: Sequence[Quality]) -> str:
    """Return the SQNR of all quantized values together, or empty."""
    known = [one.deviation for one in found if one.deviation is not None]
    if not known:
        return ""
    return f"{Deviation.total(known).sqnr:.1f}"


def worst(found: Sequence[Quality]) -> list[tuple[str, ...]]:
    """Return the rows of the tensors that lost most."""
    known = [(one.deviation, one) for one in found if one.deviation is not None]
    known.sort(key=lambda row: (row[0].sqnr, row[1].name))
    return [
        (
            printable(one.name),
            printable(one.type),
            f"{deviation.sqnr:.1f}",
            f"{digits(100 * deviation.rmse)}%",
            f"{deviation.max_err:.3g}",
            f"{100 * deviation.zeroed / max(deviation.elements, 1):.2f}%",
        )
        for deviation, one in known[:MOST]
    ]


def values(store: Store, model: Description) -> Iterator[Values]:
    """Yield a histogram for each role whose values can be decoded."""
    from importer.sources.stored.source import read_stored

    try:
        inventory = read_stored(store, model.name)
    except (InputError, IntegrityError, UnsupportedError):
        return  # damaged, which is said, or of a kind that cannot be decoded
    for role in Role:
        members = [one for one in inventory.tensors if role_of(one.name) is role]
        found = sample(members)
        if found is not None and found.sampled:
            yield Values(
                str(role),
                charts.histogram(found, *SPARK),
                f"{found.edge:g}",
                list(_of_sample(found)),
                f"Histogram of the values of {role}, from -{found.edge:g} to {found.edge:g}",
            )


def _of_sample(found: Sample) -> Iterator[tuple[str, str]]:
    yield "range", f"{found.smallest:.3g} to {found.largest:.3g}"
    yield "deviation", f"{found.deviation:.3g}"
    yield "zeros", f"{digits(100 * found.zeros / found.sampled, 2)}%"
    if found.beyond:
        yield "beyond", f"{digits(100 * found.beyond / found.sampled, 2)}%"
    if found.nonfinite:
        yield "not finite", f"{found.nonfinite:,}"
    all_of = found.sampled == found.elements
    whole = f"all {short_count(found.elements)}" if all_of else short_count(found.elements)
    yield "values", whole if all_of else f"{short_count(found.sampled)} of {whole}"


def provenance(model: Description) -> Iterator[tuple[str, str]]:
    """Yield where a model comes from, but for the local path: a page is published."""
    record = model.record
    if record.hub is not None:
        yield "Repository", printable(record.hub.repository)
        yield "Commit", printable(record.hub.revision)
    if record.model is not None:
        yield "Made from the stored model", str(record.model)
    if record.architecture:
        yield "Class", printable(record.architecture)
    if record.variant:
        yield "Variant", printable(record.variant)
    if model.prequantized is not None:
        yield "Quantized in the source", printable(model.prequantized)
    if model.declared_dtype is not None:
        yield "config.json says", printable(model.declared_dtype)
    if record.encoder is not None:
        yield "Version of ingot's encoder", str(record.encoder)
    yield "Manifest", str(model.stored.digest)


def recipe(model: Description) -> Text | None:
    """Return the rules that decided, as a recipe file."""
    from importer.recipes.document import to_toml

    if model.record.recipe is None:
        return None
    return text("Recipe", "\n".join(to_toml(model.record.recipe)))


def files(files: Iterable[tuple[str, int]]) -> Table:
    """Return the names and sizes of files."""
    rows = [(printable(name), size(nbytes)) for name, nbytes in files]
    return Table(list(rows[:_ROWS]), max(len(rows) - _ROWS, 0))


def tensors(tensors: Sequence[StoredTensor]) -> Table:
    """Return a row for each class of tensors, the largest first."""
    rows = collapse(tensors, lambda one: (one.type_name, one.shape, one.nbytes))
    rows.sort(key=lambda row: -row.first.nbytes * row.repeats)
    cells: list[tuple[str, ...]] = [
        (
            printable(row.pattern),
            str(row.repeats),
            printable(row.first.type_name),
            " x ".join(map(str, row.first.shape)),
            size(row.first.nbytes * row.repeats),
        )
        for row in rows[:_ROWS]
    ]
    return Table(cells, max(len(rows) - _ROWS, 0))


def text(title: str, text: str) -> Text:
    """Return a text whose control codes are shown, line by line."""
    kept = text[:LONGEST]
    lines = [printable(line, LONGEST) for line in kept.replace("\t", "    ").split("\n")]
    return Text(printable(title), "\n".join(lines), len(text) - len(kept))
