"""The process that compiles: a line asks for a function, and its code is the answer."""

from __future__ import annotations

import json
import os
import sys
from typing import BinaryIO

from importer.codecs.kernels.kinds import of_json


def serve() -> None:
    """Answer each line of the standard input on the standard output, until there is none.

    A line is `[module, name, kinds]` in JSON; the answer is `{"nbytes": …}` and that many
    bytes, or `{"error": …}`.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what numba prints is not an answer
    for line in sys.stdin.buffer:
        _answer(line, answers)


def _answer(line: bytes, answers: BinaryIO) -> None:
    module, name, kinds = json.loads(line)
    try:
        # numba, whose absence is an answer, too
        from importer.codecs.kernels.compiled import compiler  # noqa: PLC0415

        code = compiler.object_code(module, name, of_json(kinds))
    except Exception as error:  # noqa: BLE001 - whatever a missing or broken numba raises
        what = str(error).partition("\n")[0]
        said = f"{type(error).__name__}: {what}"
        answers.write(json.dumps({"error": said}).encode() + b"\n")
    else:
        answers.write(json.dumps({"nbytes": len(code)}).encode() + b"\n" + code)
    answers.flush()
