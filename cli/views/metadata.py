"""What files of weights say of themselves, in words and as a document."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.views.table import table
from importer.models.description import Description
from store.text import printable

if TYPE_CHECKING:
    from importer.models.whole import MetadataEntry


def metadata_lines(model: Description) -> Iterator[str]:
    """Yield a row for each key that a file of weights has; of an array its length."""
    files = {entry.file for entry in model.metadata}
    rows = []
    for entry in model.metadata:
        shown = _value(entry)
        where = (entry.file,) if len(files) > 1 else ()
        rows.append(tuple(map(printable, (*where, entry.key, shown))))
    yield from table(rows)


def metadata_document(model: Description) -> list[dict[str, object]]:
    """Return the list that `show --metadata --json` prints."""
    return [
        {
            "file": entry.file,
            "key": entry.key,
            "type": entry.type if entry.length is None else f"array of {entry.type}",
            "value": entry.value if _is_json(entry.value) else str(entry.value),
            "length": entry.length,
        }
        for entry in model.metadata
    ]


def _value(entry: MetadataEntry) -> str:
    if entry.length is not None:
        return f"[{entry.length:,} x {entry.type}]"
    value = entry.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_json(value: object) -> bool:
    """Return whether a value is not a number that JSON lacks."""
    return not isinstance(value, float) or math.isfinite(value)
