"""What the values of a tensor are like, in words, as a histogram, and as a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from cli.views.quality import measures
from cli.views.table import facts
from store.tensorfile import elements
from store.text import count, printable, size

if TYPE_CHECKING:
    from importer.engine.statistics import Statistics
    from importer.models.quality import Quality
    from importer.sources.tensor import SourceTensor
    from importer.verification.at_source import AtSource

_HEIGHT: Final = 5
"""Lines of a histogram."""
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_LONGEST: Final = 2000
_INDENT: Final = 2
_LEAST: Final = 0.005
"""Percent that would be shown as none at all."""


def statistics_lines(
    tensor: SourceTensor, found: Statistics, at_source: AtSource
) -> Iterator[str]:
    """Yield the lines that `show --tensor` prints about one tensor."""
    yield printable(tensor.name, _LONGEST)
    yield from facts(_facts(tensor, found), _INDENT)
    if found.moments.count:
        yield ""
        yield from _picture(found)
    if against := list(_against(tensor, found, at_source)):
        yield from ("", *facts(against, _INDENT))


def statistics_document(
    tensor: SourceTensor, found: Statistics, at_source: AtSource
) -> dict[str, object]:
    """Return what `show --tensor --json` prints about one tensor."""
    moments, histogram, codes = found.moments, found.histogram, found.codes
    is_known = bool(moments.count)
    quality = at_source.found.get(tensor.name)
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "type": tensor.stored_as or None,
        "shape": list(tensor.shape),
        "bytes": tensor.nbytes,
        "elements": elements(tensor.shape),
        "least": moments.least if is_known else None,
        "largest": moments.most if is_known else None,
        "mean": moments.mean if is_known else None,
        "deviation": moments.deviation if is_known else None,
        "zeros": moments.zeros,
        "nans": moments.nans,
        "infinities": moments.infinities,
        "outliers": histogram.outliers,
        "histogram": {
            "low": histogram.low if is_known else None,
            "high": histogram.high if is_known else None,
            "counts": histogram.bins.tolist(),
        },
        "codes": None
        if codes is None
        else {
            "counts": codes.counts.tolist(),
            "groups": codes.groups,
            "zeroed_groups": codes.zeroed,
        },
        "source": None if at_source.source is None else str(at_source.source),
        "against_source": None if quality is None else _measured(quality),
    }


def _measured(quality: Quality) -> dict[str, object]:
    if quality.deviation is None:
        return {"finite": False}
    return measures(quality.deviation)


def _facts(tensor: SourceTensor, found: Statistics) -> Iterator[tuple[str, str]]:
    moments, whole = found.moments, elements(tensor.shape)
    kind = f"{tensor.stored_as}, from {tensor.dtype}" if tensor.stored_as else tensor.dtype
    yield "type", kind
    shape = "[" + " ".join(map(str, tensor.shape)) + "]"
    yield "shape", f"{shape}, {count(whole, 'element')}, {size(tensor.nbytes)}"
    if moments.count:
        yield "range", f"{_number(moments.least)} to {_number(moments.most)}"
        yield (
            "mean",
            f"{_number(moments.mean)}, standard deviation {_number(moments.deviation)}",
        )
    yield "zeros", _part(moments.zeros, whole)
    if moments.nans or moments.infinities:
        yield "not finite", f"{moments.nans:,} NaN, {moments.infinities:,} infinite"
    outliers = found.histogram.outliers
    yield "outliers", f"{_part(outliers, whole)} beyond 6 standard deviations"
    if (codes := found.codes) is not None:
        used = int((codes.counts > 0).sum())
        yield "codes", f"{used} of {len(codes.counts)} are used"
        yield "zeroed groups", _part(codes.zeroed, codes.groups)


def _against(
    tensor: SourceTensor, statistics: Statistics, at_source: AtSource
) -> Iterator[tuple[str, str]]:
    if at_source.source is None:
        if statistics.codes is not None:
            yield "source", f"not compared: {at_source.why}"
        return
    if (quality := at_source.found.get(tensor.name)) is None:
        return
    yield "source", str(at_source.source)
    if (found := quality.deviation) is None:
        yield "compared", "values that are not finite"
        return
    error = f"largest error {found.max_err:.4g}, relative RMSE {found.rmse:.5f}"
    yield "compared", f"{found.sqnr:.2f} dB, {error}, cosine {found.cosine:.6f}"
    yield "clipped", _part(found.clipped, found.elements)
    yield "became zero", _part(found.zeroed, found.elements)


def _picture(found: Statistics) -> Iterator[str]:
    histogram = found.histogram
    counts: Sequence[int] = histogram.bins.tolist()
    most = max(counts) or 1
    for line in range(_HEIGHT - 1, -1, -1):
        # In eighths of a line, and a bin that has anything at all is seen.
        heights = (math.ceil(8 * _HEIGHT * number / most) - 8 * line for number in counts)
        yield (
            " " * _INDENT + "".join(_BLOCKS[min(max(one, 0), 8)] for one in heights)
        ).rstrip()
    low, high = _number(histogram.low), _number(histogram.high)
    yield f"{' ' * _INDENT}{low}{high.rjust(len(counts) - len(low))}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _part(number: int, whole: int) -> str:
    if not (whole and number):
        return f"{number:,}"
    share = 100 * number / whole
    return f"{number:,} ({'<0.01' if share < _LEAST else f'{share:.2f}'}%)"
