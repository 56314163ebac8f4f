"""Draw what models lose by their bits for a weight, as an SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 16, 16, 100
COLORS: Final = ("#888888", "#4c8dd6", "#2f9e6e", "#d9730d")
"""Seen on light and on dark."""
MARKS: Final = ("0", "6 3", "2 3", "0")
"""Dashes, for who sees no colours."""


class Series(NamedTuple):
    """A curve: bits for a weight, and what is lost."""

    name: str
    points: tuple[tuple[float, float], ...]


def draw(series: Sequence[Series], what: str) -> str:
    """Return an SVG with a logarithmic axis of what is lost."""
    points = [point for one in series for point in one.points]
    low, high = math.floor(min(x for x, _ in points)), math.ceil(max(x for x, _ in points))
    least = math.floor(math.log10(min(y for _, y in points)))
    most = math.ceil(math.log10(max(y for _, y in points)))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / (high - low)
        up = (math.log10(y) - least) / (most - least)
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            TOP + (1 - up) * (HEIGHT - TOP - BOTTOM),
        )

    def lines() -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'font-family="sans-serif" font-size="13" fill="#808080" role="img">'
        )
        yield f"<title>{escape(what)} by bits for a weight</title>"
        for bits in range(low, high + 1):
            x, y = place(bits, 10**least)
            yield f'<path d="M{x:.1f} {TOP}V{y:.1f}" stroke="#80808040"/>'
            yield f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{bits}</text>'
        for power in range(least, most + 1):
            x, y = place(low, 10**power)
            yield f'<path d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#80808040"/>'
            yield (
                f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">'
                f"{10.0**power:g}</text>"
            )
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield (
            f'<text x="14" y="{middle:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 14 {middle:.0f})">{escape(what)}</text>'
        )
        yield (
            f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - BOTTOM + 38}" '
            'text-anchor="middle">bits for a weight</text>'
        )
        for number, one in enumerate(series):
            color, dashes = COLORS[number], MARKS[number]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*at) for at in one.points))
            yield (
                f'<polyline points="{path}" fill="none" stroke="{color}" '
                f'stroke-width="2" stroke-dasharray="{dashes}"/>'
            )
            for x, y in (place(*at) for at in one.points):
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'
            left = LEFT + number % 2 * (WIDTH - LEFT) / 2
            top = HEIGHT - 40 + number // 2 * 22
            yield (
                f'<path d="M{left:.0f} {top - 4}h28" stroke="{color}" stroke-width="2" '
                f'stroke-dasharray="{dashes}"/>'
            )
            yield f'<text x="{left + 36:.0f}" y="{top}">{escape(one.name)}</text>'
        yield "</svg>"

    return "\n".join(lines()) + "\n"
