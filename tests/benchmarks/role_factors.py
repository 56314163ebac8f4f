"""Whether factors of roles that some models show are of use for another: leave one out.

    .venv-zoo/bin/python tests/benchmarks/role_factors.py DIR… [--minilm DIR]
        --command .venv/bin/ingot [--work DIR]

DIR is what language_model.py wrote. Factors are measured on each as `ingot eval` does, and
their geometric mean taken for each role, beside that of the six of a layer. Then models of two
sizes are made of each with the preset's factors, with the geometric means of the others, with
the square roots of these, with these and one for the first layer, and with its own. What
embeddings and first layers of language models show is not used for an encoder, nor the other
way round. Prints roles, and damage by each way. `--work` keeps what was measured.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.quality_bench import Bench, sentence_model

ROLES: Final = {
    "v": r"\.(v_proj|value)\.",
    "o": r"\.(o_proj|attention\.output\.dense)\.",
    "k": r"\.(k_proj|key)\.",
    "q": r"\.(q_proj|query)\.",
    "up": r"\.(gate_proj|up_proj|intermediate\.dense)\.",
    "down": r"\.(down_proj|\d+\.output\.dense)\.",
    "embedding": r"embed",
    "output layer": r"lm_head",
}
_INNER: Final = 6
"""Roles of a layer, which the others are compared with."""
FIRST: Final = "first layer"
TARGETS: Final = ("4", "5")
LIMITS: Final = {True: 8, False: 40}
"""Windows of a language model and lines of an encoder that factors are measured on."""


class Model(NamedTuple):
    """A model whose factors are known.

    Attributes:
        roles: the geometric means of its factors.
    """

    bench: Bench
    is_causal: bool
    factors: Mapping[str, float]
    roles: Mapping[str, float]


def mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean."""
    logs = [math.log(one) for one in numbers]
    return math.exp(math.fsum(logs) / len(logs))


def role_of(name: str) -> str | None:
    """Return what a matrix does."""
    return next((role for role, glob in ROLES.items() if re.search(glob, name)), None)


def roles_of(factors: Mapping[str, float]) -> dict[str, float]:
    """Return the factor of each role, where those of a layer have 1 on the whole."""
    own: dict[str, list[float]] = {}
    for name, factor in factors.items():
        if (role := role_of(name)) is not None:
            own.setdefault(role, []).append(factor)
    usual = mean(mean(own[role]) for role in list(ROLES)[:_INNER])
    found = {role: mean(own[role]) / usual for role in ROLES if role in own}
    first = [
        factor / (usual * found[role])
        for name, factor in factors.items()
        if re.search(r"\.0\.", name) and (role := role_of(name)) is not None
    ]
    return found | {FIRST: mean(first)}


def common(others: Iterable[Model], *, is_causal: bool) -> dict[str, float]:
    """Return geometric means of other models' roles."""
    found: dict[str, list[float]] = {}
    for one in others:
        for number, (role, factor) in enumerate(one.roles.items()):
            if number < _INNER or one.is_causal == is_causal:
                found.setdefault(role, []).append(factor)
    return {role: mean(some) for role, some in found.items()}


def spelled(
    factors: Mapping[str, float], roles: Mapping[str, float], *, power: float, first: bool
) -> dict[str, float]:
    """Return a factor for each name of a model, of what is known of roles."""
    return {
        name: (
            roles.get(role_of(name) or "", 1.0)
            * (roles.get(FIRST, 1.0) if first and re.search(r"\.0\.", name) else 1.0)
        )
        ** power
        for name in factors
    }


def measured(bench: Bench, *, is_causal: bool) -> Model:
    """Measure the factors of a model, unless they are there."""
    path = bench.root / "factors.json"
    if not path.exists():
        bench.measure_importance()
        with bench.judged() as judge:
            bench.measure_factors(judge, LIMITS[is_causal])
    factors = json.loads(path.read_bytes())
    return Model(bench, is_causal, factors, roles_of(factors))


def judge(name: str, models: Mapping[str, Model]) -> None:
    """Print the damage of a model by each way."""
    own = models[name]
    bench = own.bench
    others = [one for other, one in models.items() if other != name]
    theirs = common(others, is_causal=own.is_causal)
    ways = {
        "others'": spelled(own.factors, theirs, power=1, first=False),
        "roots": spelled(own.factors, theirs, power=0.5, first=False),
        "and first": spelled(own.factors, theirs, power=0.5, first=True),
        "own": own.factors,
    }
    with bench.judged() as judge:
        for target in TARGETS:
            asked = ("--target-bpw", target, "--imatrix", bench.matrix)
            cells = [f"{bench.make(judge, *asked).damage:.5f}"]
            for way, factors in ways.items():
                path = bench.root / f"{way.replace(' ', '-')}.json"
                path.write_text(json.dumps(factors), encoding="utf-8")
                cells.append(f"{bench.make(judge, *asked, '--sensitivity', path).damage:.5f}")
            print(f"| {name} | {target} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--minilm", type=Path, help="directory of the model")
    parser.add_argument("--command", default="ingot", help="with kernels")
    parser.add_argument("--work", type=Path, help="where to keep what is measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = options.work or Path(place)
        paths = {path.name: path for path in options.models}
        if options.minilm is not None:
            paths["minilm"] = sentence_model(options.minilm, root / "sentences")
        models = {}
        for name, path in paths.items():
            bench = Bench(shlex.split(options.command), path, root / name)
            models[name] = measured(bench, is_causal=path in options.models)
        heads = (*ROLES, FIRST)
        print(f"| | {' | '.join(heads)} |\n|---|{'--:|' * len(heads)}")
        for name, one in models.items():
            cells = [f"{one.roles[role]:.2f}" if role in one.roles else "" for role in heads]
            print(f"| {name} | {' | '.join(cells)} |")
        print("\n| model | bits | preset | others' | roots | and first | own |")
        print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
        for name in models:
            judge(name, models)


if __name__ == "__main__":
    main()
