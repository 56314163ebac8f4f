"""What searches for scales and importance are worth at the end: the real MiniLM, 1 - cosine.

    .venv-zoo/bin/python tests/zoo/calibration.py --command .venv/bin/ingot --minilm DIR

Importance is measured by `ingot imatrix` on docstrings of Python's library, and models are
judged on other docstrings and on sentences of everyday subjects: another domain. Linear layers
alone are quantized. Each figure is the mean of 1 - cosine between the embeddings of a sentence
before and after, as `ingot eval` defines it, and its share of that of MLX's scales. Ends with 1
where a goal is missed.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import os
import random
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

ROOT: Final = Path(__file__).resolve().parents[2]
WHO: Final = """My neighbour|The old teacher|A young woman|Her brother|The shop assistant
Our landlord|The bus driver|A tired nurse|The little boy|His grandmother|The football coach
A tourist from Brazil|The gardener|My dentist|The waiter|Two students|The fisherman
A group of children|The mechanic|Our cat"""
DOES: Final = """bought fresh bread at the market this morning
forgot to lock the front door before leaving
is planning a holiday by the sea in August
complained about the noise from the street
painted the kitchen wall a bright yellow
missed the last train home because of the rain
cooked a pot of lentil soup for the family
won a small prize in the village lottery
fell asleep on the sofa during the film
planted tomatoes and basil on the balcony
asked for directions to the city museum
lost an umbrella somewhere near the station
sings old songs while washing the dishes
broke a glass and cut a finger
is learning to swim at the age of forty
sold the car and now rides a bicycle to work
found a wallet and brought it to the police
waited two hours for the doctor
told a funny story about a stubborn donkey
decorated the cake with strawberries and cream"""
CALIBRATED_ON, JUDGED_ON = 256, 400
RULES: Final = ("--recipe", "linears")
TYPES: Final = ("int2", "int3", "int4", "int5", "int6", "int8", "nvfp4", "mxfp4")
GOALS: Final = {
    "mse": (0.93, {"int3", "int4", "int5"}),
    "imatrix": (0.62, {"int3", "int4", "int5", "int6"}),
}
BATCH: Final = 50


def everyday() -> list[str]:
    """Return sentences of everyday subjects: everyone does everything."""
    who = WHO.replace("\n", "|").split("|")
    return [f"{one} {what}." for one, what in itertools.product(who, DOES.splitlines())]


def docstrings() -> list[str]:
    """Return first paragraphs of docstrings of Python's library, shuffled by a seed."""
    found = set()
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted([*library.glob("*.py"), *library.glob("[a-z]*/*.py")]):
        if "test" in str(path.relative_to(library)) or "packages" in str(path):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                if 30 < len(text) < 300:
                    found.add(text)
    some = sorted(found)
    random.Random(0).shuffle(some)
    return some


class Judge:
    """The embeddings that weights give for some texts, beside those of the original.

    Args:
        folder: of the model.
        texts: sentences by the name of their domain.
    """

    def __init__(self, folder: Path, texts: dict[str, list[str]]):
        self._model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._texts = texts
        self._expected = {name: self._embed(some) for name, some in texts.items()}

    def judge(self, folder: Path) -> dict[str, float]:
        """Return 1 - cosine for each domain, of the weights in an export."""
        state: dict[str, Any] = {}
        for path in sorted(folder.glob("*.safetensors")):
            state |= load_file(path)
        return self.judge_state(state)

    def judge_state(self, state: dict[str, Any]) -> dict[str, float]:
        """Return 1 - cosine for each domain, of weights by name."""
        missing, _ = self._model.load_state_dict(state, strict=False)
        assert not [name for name in missing if "position_ids" not in name], missing
        return {
            name: float((1 - (self._embed(some) * self._expected[name]).sum(dim=1)).mean())
            for name, some in self._texts.items()
        }

    def _embed(self, sentences: list[str]) -> Any:
        rows = []
        with torch.no_grad():
            for start in range(0, len(sentences), BATCH):
                batch = self._tokenizer(
                    sentences[start : start + BATCH],
                    padding=True,
                    truncation=True,
                    return_tensors="pt",
                )
                hidden = self._model(**batch).last_hidden_state.double()
                mask = batch["attention_mask"][..., None].double()
                rows.append((hidden * mask).sum(dim=1) / mask.sum(dim=1))
        return torch.nn.functional.normalize(torch.cat(rows), dim=1)


def main() -> int:
    """Measure importance, quantize, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--command", default="ingot", help="with kernels")
    parser.add_argument("--minilm", type=Path, required=True, help="directory of the model")
    parser.add_argument("--types", default=",".join(TYPES))
    options = parser.parse_args()
    docs = docstrings()
    texts = {
        "everyday": everyday(),
        "docstrings": docs[CALIBRATED_ON : CALIBRATED_ON + JUDGED_ON],
    }
    missed = 0
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "text").write_text("\n".join(docs[:CALIBRATED_ON]) + "\n", encoding="utf-8")
        store = ("--store", str(root / "store"))

        def run(*words: object, command: list[str] | None = None) -> None:
            argv = [*(command or shlex.split(options.command)), *map(str, words), *store]
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            subprocess.run(argv, capture_output=True, check=True, env=environment)

        matrix = root / "imatrix.safetensors"
        ours = [sys.executable, "-m", "cli"]
        run("imatrix", options.minilm, "--text", root / "text", "-o", matrix, command=ours)
        # As most models come: what is quantized then has scales of 16 bits.
        run("create", "base", options.minilm, "-q", "bf16")
        run("export", "base", root / "base", "--to", "hf", "--dtype", "f32")
        judge = Judge(root / "base", texts)
        ways = {
            "minmax": (),
            "mse": ("--calibrate", "mse"),
            "imatrix": ("--imatrix", str(matrix)),
        }
        print("| type | way | everyday | of minmax | docstrings | of minmax |")
        print("|---|---|--:|--:|--:|--:|")
        equal: dict[str, dict[str, float]] = {}
        for kind in [*options.types.split(","), "int4/32", "int4/128"]:
            first: dict[str, float] = {}
            spelled = f"{kind}/64" if kind.startswith("int") and "/" not in kind else kind
            for way, words in ways.items():
                run("create", "small", "base", "-q", spelled, *RULES, *words)
                folder = root / f"{kind.replace('/', '-')}-{way}"
                run("export", "small", folder, "--to", "hf", "--dtype", "f32")
                found = judge.judge(folder)
                first = first or found
                equal[f"{kind} {way}"] = found
                cells = [f"{found[one]:.5f} | {found[one] / first[one]:.2f}" for one in texts]
                print(f"| {kind} | {way} | {' | '.join(cells)} |", flush=True)
                goal, kinds = GOALS.get(way, (1.0, set()))
                missed += kind in kinds and any(found[one] > goal * first[one] for one in texts)
        for one in texts:
            share = equal["int4/128 imatrix"][one] / equal["int4/32 minmax"][one]
            print(f"int4/128 with importance beside int4/32 of minmax, {one}: {share:.3f}")
    print(f"{missed} goals missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
