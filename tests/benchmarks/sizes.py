"""Whether a size is met: what models of many sizes leave of it, and how near the best they are.

    python tests/benchmarks/sizes.py DIR… [--targets 40]

DIR are checkpoints. Sizes are between 4.5 and 8 bits for each weight that is chosen, evenly
spread; each is planned as `create --target-size` does. Beside what is left stands the step: the
largest number of bytes that divides the data of every type of every tensor, so that below it
only headers and rules differ. Where more is left than the goal, the bytes that a better choice
lacks are looked for by halving: whether room was wasted, or the model has no choice in between.
Ends with 1 where a size is exceeded; what is left of a model of kilobytes does not fail it.
"""

from __future__ import annotations

import argparse
import bisect
import math
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

if __name__ == "__main__":
    # Not this directory, whose names may be those of Python's modules.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from importer.pipeline import plan_import
from importer.planning.allocation import Allocation
from importer.recipes.budget import parse_budget
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from store import ModelName, Store

GOAL: Final = 1e-3
"""Of the size, that may be left."""
BITS: Final = (4.5, 8.0)
MOST: Final = 1024
"""Bytes more that are tried: several times what the data of types differ by."""


class Met(NamedTuple):
    """What was found of a size.

    Attributes:
        left: bytes, of the size.
        share: of the size.
        above: the expected error, of the bound that the plan tells, less 1.
        lacking: bytes that the size is too small for a better choice; 0 where little is left.
    """

    left: int
    share: float
    above: float
    lacking: int


def planned(source: Path, store: Store, nbytes: int | None, bits: str | None) -> Allocation:
    """Return what is chosen within a size or bits for each weight."""
    options = parse_options(recipe="budget", chooses=True)
    request = ImportRequest(
        ModelName.parse("m"), source, recipe=options, budget=parse_budget(nbytes, bits, ())
    )
    found = plan_import(request, store).allocation
    assert found is not None
    return found


def lacking(source: Path, store: Store, size: int, error: float) -> int:
    """Return how many bytes more give less than an error, of at most `MOST`."""

    def is_better(more: int) -> bool:
        return planned(source, store, size + more, None).point.error < error

    return 1 + bisect.bisect_left(range(1, MOST), x=True, key=is_better)


def main() -> int:
    """Plan, and print a row for each checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--targets", type=int, default=40)
    options = parser.parse_args()
    print("| checkpoint | sizes | over | left, median | most | step | above the bound |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    over = 0
    for source in options.sources:
        with tempfile.TemporaryDirectory() as place, Store(Path(place) / "store") as store:
            ends = [planned(source, store, None, str(bits)) for bits in BITS]
            low, high = (one.point.nbytes for one in ends)
            found, steps = [], set()
            for number in range(options.targets):
                size = low + (high - low) * number // max(options.targets - 1, 1)
                one = planned(source, store, size, None)
                steps |= {chosen.nbytes for chosen in one.chosen}
                left, more = size - one.used, 0
                if left > GOAL * size:
                    more = lacking(source, store, size, one.point.error)
                above = one.point.error / one.bound - 1
                found.append(Met(left, left / size, above, more))
        step = math.gcd(*steps)
        own = sum(one.left < 0 for one in found)
        shares = [one.share for one in found]
        cells = [
            f"{low:,} to {high:,}",
            f"{own} of {len(found)}",
            f"{statistics.median(shares):.4%}",
            f"{max(shares):.4%}",
            f"{step:,} ({step / low:.4%})",
            f"{statistics.median(one.above for one in found):.2%}",
        ]
        print(f"| {source.name} | {' | '.join(cells)} |", flush=True)
        met = sum(share <= GOAL for share in shares)
        print(f"{met} of {len(found)} leave no more than {GOAL:.1%}", flush=True)
        rest = [one for one in found if one.share > GOAL]
        if rest:
            needs = [one.lacking for one in rest]
            print(
                f"the others lack {min(needs)} to {max(needs)} bytes for a better choice, "
                f"the median {statistics.median(needs):g}",
                flush=True,
            )
        over += own
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
