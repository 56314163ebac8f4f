"""`ingot imatrix` and `ingot eval`, judged by hooks and formulas of transformers' own models.

    .venv-zoo/bin/python tests/zoo/check_evaluation.py

A Llama, a Qwen3 with experts, a BERT and a GPT-2 with random weights are run, interrupted,
killed, and compared with what they cannot be compared with.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoModel, AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.zoo.evaluated_models import CONTEXT, ROOT, TEXT, ingot, make


def sequences(name: str) -> list[list[int]]:
    """Return the text as the model reads it: windows, or lines of an encoder."""
    if name == "bert":
        return [list(map(ord, line)) for line in TEXT.splitlines()]
    ids = list(map(ord, TEXT))
    return [ids[start : start + CONTEXT] for start in range(0, len(ids), CONTEXT)]


def hooked(model: Any, name: str) -> dict[str, Any]:
    """Return mean squares of the inputs of linear layers, as hooks on modules see them."""
    found: dict[str, list[Any]] = {}
    # Of tied weights the first name, which is the embedding's.
    names = {id(weight): own for own, weight in model.named_parameters()}

    def hook(own: str) -> Any:
        def see(_: Any, inputs: Any) -> None:
            found.setdefault(own, []).append(inputs[0].reshape(-1, inputs[0].shape[-1]))

        return see

    with contextlib.ExitStack() as stack, torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                seen = hook(names[id(module.weight)])
                stack.callback(module.register_forward_pre_hook(seen).remove)
        for ids in sequences(name):
            model(input_ids=torch.tensor([ids]))
    return {own: (torch.cat(rows).double() ** 2).mean(dim=0) for own, rows in found.items()}


def check_importance(root: Path, folder: Path, name: str) -> None:
    """Compare with hooks; run again, and again where a first run was interrupted."""
    text, output = root / "text", root / f"{name}.imatrix"
    words = ("imatrix", folder, "--text", text, "--context", CONTEXT, "--jobs", 1)
    document = json.loads(ingot(*words, "-o", output, "--json"))
    found = load_file(output)
    kind = AutoModel if name == "bert" else AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    expected = hooked(model, name)
    expected.pop("pooler.dense.weight", None) if "pooler.dense.weight" not in found else None
    seen = {own for own in expected if own in found}
    assert len(seen) == len(expected) or name == "moe", expected.keys() - found.keys()
    for own in seen:
        torch.testing.assert_close(found[own].double(), expected[own], rtol=1e-4, atol=1e-9)
    if name == "moe":
        stacks = [own for own in found if own.endswith(("gate_up_proj", "down_proj"))]
        assert len(stacks) == 4, sorted(found)
        assert all(found[own].shape[0] == 6 for own in stacks)
    again = root / "again.imatrix"
    ingot(*words, "-o", again)
    assert again.read_bytes() == output.read_bytes()
    print(f"{name}: {len(seen)} of {document['weights']} weights as hooks see them")


def check_resumed(root: Path, folder: Path) -> None:
    """Interrupt a measurement between two sequences; the end is the same, to the bit."""
    from importer.evaluation import importance
    from importer.evaluation.models import Setup, loaded
    from importer.evaluation.text import read_text, windows
    from store import Store

    importance._SAVE_EVERY = 0.0
    text = read_text(root / "text")
    whole, cut = root / "whole.imatrix", root / "cut.imatrix"
    with loaded(folder, Store(root / "store"), Setup()) as model:
        some = windows(text, model.tokenizer, CONTEXT, None)
        importance.measure_importance(model, text, some, whole)
        told = []

        def stop(event: Any) -> None:
            told.append(event)
            if len(told) == 5:
                raise KeyboardInterrupt

        with contextlib.suppress(KeyboardInterrupt):
            importance.measure_importance(model, text, some, cut, stop)
        assert not cut.exists()
        measured = importance.measure_importance(model, text, some, cut)
    assert measured.resumed == 4, measured
    assert whole.read_bytes() == cut.read_bytes()
    assert not list(root.glob("*.partial"))
    print("an interrupted measurement ends with the same bytes")


def check_killed(root: Path, folder: Path) -> None:
    """Kill a measurement; the same command goes on from what it had saved."""
    text, output = root / "long", root / "killed.imatrix"
    text.write_text(TEXT * 40, encoding="utf-8")
    words = ("imatrix", folder, "--text", text, "--context", CONTEXT, "--jobs", 1, "-o", output)
    saving = "from importer.evaluation import importance; importance._SAVE_EVERY = 0.0"
    program = f"{saving}; from cli import main; main()"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        env=environment,
        stderr=subprocess.DEVNULL,
    ) as process:
        while (
            process.poll() is None and not output.with_name(output.name + ".partial").exists()
        ):
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL, process.returncode
    assert not output.exists()
    document = json.loads(ingot(*words, "--json"))
    assert 0 < document["resumed"] < document["sequences"], document
    killed = output.read_bytes()
    output.unlink()
    assert json.loads(ingot(*words, "--json"))["resumed"] == 0
    assert output.read_bytes() == killed
    assert not list(root.glob(".killed*"))
    print(
        f"killed after {document['resumed']} of {document['sequences']} sequences: same bytes"
    )


def check_refused(root: Path, folders: dict[str, Path]) -> None:
    """Models that cannot be compared are refused in a sentence, and no code of theirs runs."""
    words = ("--text", root / "text")
    said = ingot("eval", folders["llama"], folders["bert"], *words, code=4)
    assert "language model" in said, said
    other = root / "other"
    shutil.copytree(folders["llama"], other)
    tokenizer = Tokenizer.from_file(str(other / "tokenizer.json"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(other / "tokenizer.json"))
    said = ingot("eval", folders["llama"], other, *words, code=4)
    assert "make different tokens" in said, said
    for path in other.glob("tokenizer*"):
        path.unlink()
    said = ingot("eval", folders["llama"], other, *words, code=4)
    assert "transformers" in said, said
    assert "Traceback" not in said, said
    config = folders["llama"] / "config.json"
    document = json.loads(config.read_bytes())
    document |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}
    config.write_text(json.dumps(document), encoding="utf-8")
    (folders["llama"] / "own.py").write_text("raise SystemExit('it ran')")
    said = ingot("eval", folders["llama"], folders["moe"], *words, code=4)
    assert "transformers" in said, said
    assert "it ran" not in said, said
    print("what cannot be compared is refused")


def check_outputs(root: Path, folder: Path, name: str) -> None:
    """Compare `eval` with formulas on the model itself, before and after int3."""
    text, store = root / "text", ("--store", root / "store")
    words = ("--text", text, "--context", CONTEXT, "--json", *store)
    same = json.loads(ingot("eval", folder, folder, *words))
    assert 1 - 1e-9 < same["last_hidden_state"]["mean"] <= 1, same
    if name != "gpt2":  # its matrices lie on their side
        matrix = ("--imatrix", root / f"{name}.imatrix")
        ingot("create", name, folder, "-q", "int3/32", "--recipe", "uniform", *matrix, *store)
    else:
        ingot("create", name, folder, "-q", "int3/32", "--recipe", "uniform", *store)
    found = json.loads(ingot("eval", folder, name, *words))
    ingot("export", name, root / f"{name}-small", "--to", "hf", "--dtype", "f32", *store)
    kind = AutoModel if name == "bert" else AutoModelForCausalLM
    sides = [
        kind.from_pretrained(one, dtype=torch.float32).eval()
        for one in (folder, root / f"{name}-small")
    ]
    with torch.no_grad():
        runs = [
            [side(input_ids=torch.tensor([ids]), output_hidden_states=True) for side in sides]
            for ids in sequences(name)
        ]
    if name == "bert":
        cosines = [
            torch.cosine_similarity(
                *(one.last_hidden_state[0].mean(dim=0) for one in pair), dim=0
            )
            for pair in runs
        ]
        np.testing.assert_allclose(found["embedding"]["mean"], np.mean(cosines), rtol=1e-5)
        print(f"bert: 1 - cosine {1 - found['embedding']['mean']:.4f}")
        return
    losses, divergences = [], []
    for ids, pair in zip(sequences(name), runs, strict=True):
        logs = [one.logits[0, :-1].double().log_softmax(dim=-1) for one in pair]
        losses.append(
            [
                torch.nn.functional.nll_loss(log, torch.tensor(ids[1:]), reduction="none")
                for log in logs
            ]
        )
        divergences.append(
            torch.nn.functional.kl_div(logs[1], logs[0], log_target=True, reduction="none").sum(
                dim=-1
            )
        )
    for side, key in enumerate("ab"):
        expected = torch.cat([one[side] for one in losses]).mean().exp()
        np.testing.assert_allclose(found["perplexity"][key], expected, rtol=1e-5)
    np.testing.assert_allclose(
        found["kl_divergence"]["mean"], torch.cat(divergences).mean(), rtol=1e-3
    )
    print(f"{name}: KL divergence {found['kl_divergence']['mean']:.4f}")


def check_factors(root: Path, folder: Path, name: str) -> None:
    """Compare factors with matrices of the small model that are put in by hand."""
    file, store = root / f"{name}.json", ("--store", root / "store")
    words = ("--text", root / "text", "--context", CONTEXT, "--limit", 4, "--jobs", 1)
    ingot("eval", folder, name, *words, "--sensitivity", file, *store)
    factors = json.loads(file.read_bytes())
    sides = [
        AutoModelForCausalLM.from_pretrained(one, dtype=torch.float32).eval()
        for one in (folder, root / f"{name}-small")
    ]
    plain, small = (dict(side.named_parameters()) for side in sides)
    damages = []
    tried = ("model.layers.0.self_attn.k_proj.weight", "lm_head.weight")
    for own in tried:
        with torch.no_grad():
            before = plain[own].clone()
            logs = []
            for values in (before, small[own]):
                plain[own].copy_(values)
                found = [
                    sides[0](input_ids=torch.tensor([ids])).logits[0, :-1].double()
                    for ids in sequences(name)[:4]
                ]
                logs.append(torch.cat(found).log_softmax(dim=-1))
            plain[own].copy_(before)
        damage = (logs[0].exp() * (logs[0] - logs[1])).sum(dim=-1).mean()
        noise = (before - small[own]).double().square().sum()
        share = noise / before.double().square().sum()
        damages.append(float(damage / share / before.numel()))
    np.testing.assert_allclose(
        factors[tried[0]] / factors[tried[1]], damages[0] / damages[1], rtol=2e-3
    )
    asked = ("--target-bpw", 6, "--sensitivity", file, "--dry-run", "--json")
    plan = json.loads(ingot("create", "planned", folder, *asked, *store))
    assert not [one for one in plan["warnings"] if "sensitivities" in str(one)], plan
    print(f"{name}: {len(factors)} factors, of {len(plain)} weights")


def main() -> None:
    """Make the models, and judge."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "text").write_text(TEXT, encoding="utf-8")
        folders = make(root)
        for name, folder in folders.items():
            check_importance(root, folder, name)
            check_outputs(root, folder, name)
            if name in {"llama", "moe"}:
                check_factors(root, folder, name)
        check_resumed(root, folders["llama"])
        check_killed(root, folders["llama"])
        check_refused(root, folders)
    print("all is as it should be")


if __name__ == "__main__":
    main()
