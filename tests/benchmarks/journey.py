"""Count the files that a tensor's bytes pass, and the calls from one of them into another.

    python tests/benchmarks/journey.py ROOT create m fixtures/models/tiny-llama -q int4 --jobs 1

ROOT is the clone whose packages run, so that two versions can be compared. Counted are the
threads that make blobs, or the main one where a command has no others: what it costs a reader
to follow the bytes, and no measure of time.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

ROOMS = ("cli", "importer", "store")


class Journey:
    """Follows calls between the files of one clone."""

    def __init__(self, root: Path) -> None:
        self._roots = tuple(f"{root}/{room}/" for room in ROOMS)
        self.files: set[str] = set()
        self.moves = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call that leads from a file of ours into another one."""
        if event != "call":
            return
        name, caller = frame.f_code.co_filename, frame.f_back
        if not name.startswith(self._roots):
            return
        self.files.add(name)
        if caller is not None and caller.f_code.co_filename != name:
            self.moves += 1


def main() -> None:
    """Run a command of a clone in this process, and print its files and moves."""
    root = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(root))
    sys.argv = ["ingot", *sys.argv[2:]]
    threads, whole = Journey(root), Journey(root)
    threading.setprofile(threads)
    sys.setprofile(whole)
    with contextlib.suppress(SystemExit):
        from cli.main import run

        run()
    sys.setprofile(None)
    for where, one in (("threads", threads), ("main thread", whole)):
        print(f"{where}: {len(one.files)} files, {one.moves} moves")


if __name__ == "__main__":
    main()
