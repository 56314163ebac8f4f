"""The moments at which Python handles a signal, so that a test has one come at each."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

Act = Callable[[FrameType], None]
IsOurs = Callable[[FrameType], bool]


class Moments:
    """Count the moments in some functions of this thread, and act at one of them.

    CPython looks for signals when a function begins or goes on, when a call of C is over and
    when a loop goes round (RESUME, CALL and JUMP_BACKWARD in ceval.c of 3.11).

    Attributes:
        seen: how many there were.
    """

    def __init__(self, is_ours: IsOurs, number: int, act: Act) -> None:
        """Prepare.

        Args:
            is_ours: which functions count.
            number: of the moment, from 1.
            act: called there; what it raises comes from the function that was interrupted.
        """
        self.seen = 0
        self._is_ours, self._number, self._act = is_ours, number, act
        self._last: dict[int, str] = {}  # of frames, which would live longer in here

    def start(self) -> None:
        """Look at all functions that are called from here on."""
        sys.settrace(self._trace)

    def stop(self) -> None:
        """Look no more."""
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not self._is_ours(frame):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = self._last.pop(id(frame), "") if event == "opcode" else ""
        now = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if event == "opcode":
            self._last[id(frame)] = now
        elif event == "return":
            self._last.pop(id(frame), None)
        # A generator that is closed does not begin with RESUME.
        begins = event == "call" and now == "RESUME"
        if begins or last.startswith("CALL") or (last and now == "JUMP_BACKWARD"):
            self.seen += 1
            if self.seen == self._number:
                self._act(frame)
        return self._trace
