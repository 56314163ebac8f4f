"""The process that compiles is not ended by what ends the one that asks."""

from __future__ import annotations

import subprocess
import sys

from tests.importer.builders import REPOSITORY

INTERRUPTED = """
import os, signal
from importer.codecs.kernels.compiling import _start
signal.signal(signal.SIGINT, lambda *_: None)
child = _start()
os.killpg(0, signal.SIGINT)
child.communicate()
print(child.returncode)
"""


def test_ctrl_c_on_a_terminal_does_not_reach_it():
    # It would come before the child has even begun to ignore it, and its end would be told as
    # a compiler that does not work.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=REPOSITORY,
        start_new_session=True,
        capture_output=True,
        check=True,
        text=True,
    )

    assert done.stdout == "0\n"
