"""The manual pages, made from the help: `make man` writes them into man/."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.cli.runner import COMMANDS, run
from tests.importer.builders import REPOSITORY

PLACE = REPOSITORY / "man"


@cache
def pages():
    """Give the text of each page by the name of its file."""
    found = {"ingot.1": run("help", "--man").succeeded().stdout}
    for command in COMMANDS:
        found[f"ingot-{command}.1"] = run("help", command, "--man").succeeded().stdout
    return found


def main():
    """Write the pages."""
    PLACE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PLACE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
