"""Text for people: times, rules, and the first lines of long texts."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from store.text import count, printable

_LONGEST_RULE: Final = 2000


def ago(mtime_ns: int, now: float) -> str:
    """Return how long ago a time in nanoseconds was, in words."""
    seconds = int(now - mtime_ns / 1e9)
    steps = ((60, "second"), (60, "minute"), (24, "hour"), (7, "day"), (52, "week"))
    value = seconds
    if seconds < 2:  # noqa: PLR2004
        return "just now"
    for span, unit in steps:
        if value < span:
            return f"{count(value, unit)} ago"
        value //= span
    return f"{count(value, 'year')} ago"


def rfc3339(mtime_ns: int) -> str:
    """Format a time in nanoseconds since the epoch, in UTC, to the second."""
    moment = dt.datetime.fromtimestamp(mtime_ns // 10**9, tz=dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


_PREVIEW_LINES = 2


def preview(text: str) -> list[tuple[str, ...]]:
    """Return the first lines of a text that are not blank, as rows of one cell."""
    shown = [line.strip() for line in text.split("\n") if line.strip()]
    rows: list[tuple[str, ...]] = [(line,) for line in shown[:_PREVIEW_LINES]]
    return [*rows, ("...",)] if len(shown) > _PREVIEW_LINES else rows


def digits(value: float, most: int = 3) -> str:
    """Return a number with so many digits that matter, and 100 as `100`, not `1e+02`."""
    text = f"{value:.{most}g}"
    return f"{value:,.0f}" if "e+" in text and abs(value) < _LARGE else text


_LARGE: Final = 1e6


def rule(name: str, type_name: str) -> str:
    """Return the rule that gives one tensor a type, as it is typed in a shell."""
    import shlex  # few views have a command

    glob = re.sub(r"([*?[])", r"[\1]", name.removesuffix(".weight"))
    return printable(shlex.quote(f"{glob}={type_name}"), _LONGEST_RULE)
