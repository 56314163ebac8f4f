"""The table of docs/formats/judged.md: what the checkers of the zoo found, as they note it.

    INGOT_JUDGED=FILE python tests/zoo/check_….py     # appends its rows to FILE, a line each
    python tests/zoo/judged.py FILE                   # writes them into the table

`make judged` does both. Rows of checkers that FILE has nothing of stay as they are.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[2] / "docs/formats/judged.md"
HEADING = "| container | scheme | written by | compared with | what | differ | by |"


class JudgedRow(NamedTuple):
    """A row.

    Attributes:
        container: of the weights.
        scheme: how they are stored.
        writer: the programs that wrote them, with versions.
        judge: what our reading was compared with.
        what: how much was compared.
        differ: how many of it differ.
        by: the script that compared.
    """

    container: str
    scheme: str
    writer: str
    judge: str
    what: str
    differ: int
    by: str = Path(sys.argv[0]).name

    def __str__(self) -> str:
        return f"| {' | '.join(map(str, self))} |"


def note(row: JudgedRow) -> None:
    """Append a row to the file that INGOT_JUDGED names, if it does."""
    if path := os.environ.get("INGOT_JUDGED"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def versions(*names: str) -> str:
    """Return names of packages with the versions that are installed.

    Example:
        >>> versions("torch", "onnx")
        'torch 2.13.0, onnx 1.23.2'
    """
    return ", ".join(f"{name} {version(name).partition('+')[0]}" for name in names)


def million(count: int) -> str:
    """Return a number as the table has it: `5.7 10^6` from a million on, else `393 216`."""
    return f"{count / 1e6:.1f} 10^6" if count >= 10**6 else f"{count:,}".replace(",", " ")


def main() -> None:
    """Write the rows of a file into the table."""
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    fresh = [JudgedRow(*json.loads(line)) for line in lines]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(HEADING)
    table, blank, after = rest.lstrip("\n").partition("\n\n")
    scripts = {row.by for row in fresh}
    rule, *old = table.splitlines()
    rows = [row for row in old if row.split(" | ")[-1].removesuffix(" |") not in scripts]
    made = sorted([*rows, *map(str, fresh)])
    text = "\n".join((HEADING, rule, *made))
    PAGE.write_text(f"{before}{text}{blank}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
