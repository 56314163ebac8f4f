"""A signal at every moment at which Python handles one: it is not lost, and leaves nothing.

    python tests/soak/moments.py [--every 20] [--signal TERM] [--scenario NAME]

A command is rehearsed, which counts the moments of its main thread in our code. Then it runs
once for each, and the signal's handler is called there. The process must die of the signal,
without a traceback and without litter; then `verify`, the command again and `gc` must succeed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.moments import Moments
from tests.soak.harness import REPOSITORY, Outcome, print_lines
from tests.soak.scenarios import SCENARIOS, Scenario
from tests.soak.trials import Trial, stage

OURS = tuple(f"{REPOSITORY / room}{os.sep}" for room in ("cli", "importer", "store"))
MAX_VIOLATIONS = 40
SHOWN_FRAMES = 6


@dataclass(slots=True)
class Report:
    """What the sweep saw.

    Attributes:
        moments: of each scenario.
        signals: that were sent to each.
        missed: that came nowhere, as when the memo knew more than in the rehearsal.
    """

    moments: Counter[str] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    missed: int = 0
    violations: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report as text."""
        lines = [
            f"{name:18}{moments:6} moments{self.signals[name]:6} signals"
            for name, moments in self.moments.items()
        ]
        lines.append(f"{self.signals.total()} signals, {self.missed} came nowhere")
        lines += (f"VIOLATION {violation}" for violation in self.violations)
        return [*lines, f"{len(self.violations)} violations"]


class Sweep(Trial):
    """One scenario, and a signal that comes at a moment of it."""

    def __init__(self, scenario: Scenario, scratch: Path, number: signal.Signals) -> None:
        super().__init__(scenario, scratch)
        self.signal = number
        self._log = scratch / "log"

    def rehearse(self) -> int:
        """Run the command unharmed; return its moments."""
        self.learn(lambda: self._act(0))
        return int(self._log.read_text())

    def strike(self, number: int) -> tuple[str, list[str]] | None:
        """Send the signal at a moment; return where it was, and what is wrong then.

        None: the command was over before.
        """
        self.arrange()
        outcome = self._act(number)
        where = self._log.read_text()
        if where.isdecimal():
            return None
        found = [] if (problem := outcome.problem(128 + self.signal)) is None else [problem]
        found += self.judge_end(outcome) + self.left() + self.judge_aftermath()
        return f"{self.scenario.name}, moment {number}, {where}", found

    def _act(self, number: int) -> Outcome:
        self._log.unlink(missing_ok=True)
        return self.ingot.run(*self.argv, prepare=lambda: self._prepare(number))

    def _prepare(self, number: int) -> None:
        """In the process of the command: call the handler at a moment, or count them."""

        def act(frame: FrameType) -> None:
            self._log.write_text(_told(frame))
            handler = signal.getsignal(self.signal)
            assert callable(handler)
            handler(self.signal, frame)

        moments = Moments(self._is_ours, number, act)
        leave = os._exit

        def left(code: int) -> None:
            moments.stop()
            if not self._log.exists():
                self._log.write_text(str(moments.seen))
            leave(code)

        os._exit = left  # type: ignore[assignment]
        moments.start()

    def _is_ours(self, frame: FrameType) -> bool:
        # The context managers of generators are the standard library's.
        caller = frame.f_back if frame.f_code.co_filename == contextlib.__file__ else frame
        if caller is None or not caller.f_code.co_filename.startswith(OURS):
            return False
        return callable(signal.getsignal(self.signal))


def run(
    *,
    every: int = 1,
    offset: int = 0,
    only: str | None = None,
    number: signal.Signals = signal.SIGTERM,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Sweep the scenarios; the report has the violations.

    Args:
        every: moments from one signal to the next.
        offset: begin later than with the first.
        tell: hears of each violation at once.
    """
    report = Report()
    with stage("moments") as scratch:
        for scenario in SCENARIOS:
            if only and scenario.name != only:
                continue
            sweep = Sweep(scenario, scratch, number)
            report.moments[scenario.name] = sweep.rehearse()
            for moment in range(1 + offset, report.moments[scenario.name] + 1, every):
                if len(report.violations) >= MAX_VIOLATIONS:
                    break
                seen = sweep.strike(moment)
                if seen is None:
                    report.missed += 1
                    continue
                report.signals[scenario.name] += 1
                for problem in seen[1]:
                    report.violations.append(f"{seen[0]}: {problem}")
                    tell(report.violations[-1])
    return report


def _told(frame: FrameType) -> str:
    frames, each = [], frame
    while each is not None:
        frames.append(f"{each.f_code.co_filename}:{each.f_lineno} {each.f_code.co_name}")
        each = each.f_back  # type: ignore[assignment]
    shown = itertools.islice(frames, SHOWN_FRAMES)
    return " < ".join(path.removeprefix(f"{REPOSITORY}{os.sep}") for path in shown)


def main() -> int:
    """Send signals at the moments of each command and judge the store; 1 on any violation."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=20, help="moments between two signals")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--signal", choices=["TERM", "INT", "HUP"], default="TERM")
    parser.add_argument("--scenario", choices=[scenario.name for scenario in SCENARIOS])
    options = parser.parse_args()
    report = run(
        every=options.every,
        offset=options.offset,
        only=options.scenario,
        number=signal.Signals[f"SIG{options.signal}"],
        tell=lambda violation: print(violation, flush=True),
    )
    print_lines(report.lines())
    # A sweep that misses what it aims at proves nothing.
    is_blind = report.missed * 20 > report.signals.total() or not report.signals
    return 1 if report.violations or is_blind else 0


if __name__ == "__main__":
    sys.exit(main())
