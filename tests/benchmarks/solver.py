"""The choice of types within a size: CPU time, and how near it is to the best.

    python tests/benchmarks/solver.py [--tensors 36,1000,10000,100000]

For sizes as a Llama's and 15 types, at three sizes between the smallest and the largest: damage
above the bound of the linear program, which no choice is below, and the room that is left, of
ten seeds (of one above 10,000 tensors). Ends with 1 where a goal is missed; a slow machine is
no failure.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Final

if __name__ == "__main__":
    # Not this directory, whose names may be those of Python's modules.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from importer.budget.solver import frontier, solve
from tests.importer.budget.test_solver import layers

ABOVE: Final = {36: 0.5e-2, 1000: 0.01e-2}
"""Of the bound, the median that is the goal."""
LEFT: Final = 1e-3
"""Of the room."""
SHARES: Final = (0.2, 0.4, 0.6)
SEEDS: Final = 10
FEW: Final = 10_000


def main() -> int:
    """Choose, and print a row for each number of tensors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tensors", default="36,1000,10000,100000")
    options = parser.parse_args()
    print("| tensors | CPU s | above the bound, median | most | left of the room, most |")
    print("|--:|--:|--:|--:|--:|")
    missed = 0
    for count in map(int, options.tensors.split(",")):
        above, left, seconds = [], [], []
        for seed in range(SEEDS if count <= FEW else 1):
            problem = layers(count, seed)
            for share in SHARES:
                started = time.process_time()
                hulls = frontier(problem)
                low, high = int(hulls.nbytes[0]), int(hulls.nbytes[-1])
                room = int(low + share * (high - low))
                nbytes, damage = problem.total(solve(problem, hulls, room))
                seconds.append(time.process_time() - started)
                above.append(damage / hulls.bound(room) - 1)
                left.append((room - nbytes) / room)
        middle = statistics.median(above)
        print(
            f"| {count:,} | {statistics.median(seconds):.2f} | {middle:.5%} | "
            f"{max(above):.5%} | {max(left):.5%} |",
            flush=True,
        )
        missed += middle > ABOVE.get(count, 1.0) or max(left) > LEFT or min(left) < 0
    print(f"{missed} goals missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
