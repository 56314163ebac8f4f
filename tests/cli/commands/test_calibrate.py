"""`ingot create --calibrate` and `--symmetric`: what is written, recorded and made again."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.cli.runner import run
from tests.importer.builders import MODELS
from tests.importer.damage import flip

LLAMA = MODELS / "tiny-llama"
UP = "model.layers.0.mlp.up_proj.weight"
WAYS = [
    ("--calibrate", "mse"),
    ("--calibrate", "percentile"),
    ("--symmetric",),
    ("--calibrate", "mse", "--symmetric"),
]


def arrays(store, name, *words):
    """The blob of a matrix of the model that is made, and its arrays as MLX reads them."""
    run("create", name, LLAMA, "-q", "int4", *words, store=store).succeeded()
    document = run("show", name, "--tensors", "--json", store=store).succeeded().document
    (tensor,) = (one for one in document["tensors"] if one["name"] == UP)
    path = store / "blobs" / tensor["digest"].replace(":", "-")
    return path, mx.load(str(path), format="safetensors")


def error(found):
    """The sum of squared errors of what MLX decodes."""
    with mx.stream(mx.cpu):
        decoded = mx.dequantize(
            found[UP], found[f"{UP}.scale"], found[f"{UP}.bias"], group_size=32, bits=4
        )
        shards = map(str, sorted(LLAMA.glob("model-*.safetensors")))
        (source,) = (one[UP] for one in map(mx.load, shards) if UP in one)
        difference = np.array((decoded - source).astype(mx.float32))
    return float((difference**2).sum())


def test_mlx_decodes_what_was_searched_for_with_less_error(store):
    _, plain = arrays(store, "plain")
    _, searched = arrays(store, "mse", "--calibrate", "mse")

    assert {name: array.shape for name, array in searched.items()} == {
        name: array.shape for name, array in plain.items()
    }
    assert error(searched) < 0.9 * error(plain)


@pytest.mark.parametrize("words", WAYS)
def test_it_is_compared_and_repaired_with_the_same_search(store, words):
    path, _ = arrays(store, "m", *words)
    run("verify", "--source", LLAMA, "m", store=store).succeeded()
    content = path.read_bytes()
    flip(path)

    run("verify", "--repair", "m", store=store).succeeded()

    assert path.read_bytes() == content


@pytest.mark.parametrize("words", WAYS)
def test_the_command_that_makes_it_again_has_the_words(store, tmp_path, words):
    source = tmp_path / "source"
    source.symlink_to(LLAMA)
    path, _ = arrays(store, "m", *words)
    path.unlink()
    (store / "memo.sqlite").unlink()
    for origin in (store / "origins").iterdir():
        origin.unlink()

    outcome = run("verify", "--repair", "m", store=store)

    assert outcome.code == 5
    assert " ".join(words) in outcome.stdout + outcome.stderr


def test_the_recipe_of_the_model_makes_it_again(store, tmp_path):
    path, _ = arrays(store, "m", "--calibrate", "mse", "--symmetric")
    recipe = tmp_path / "again.toml"
    recipe.write_text(run("show", "m", "--recipe", store=store).succeeded().stdout)

    run("create", "again", LLAMA, "--recipe", recipe, store=store).succeeded()

    document = run("show", "again", "--tensors", "--json", store=store).succeeded().document
    assert path.name.replace("-", ":") in {one["digest"] for one in document["tensors"]}


def test_a_rule_of_a_recipe_has_its_own(store, tmp_path):
    recipe = tmp_path / "own.toml"
    recipe.write_text(
        'calibrate = "mse"\n[[rule]]\nmatch = "*.up_proj"\ntype = "int4"\n'
        'calibrate = "minmax"\n[[rule]]\nmatch = "*.down_proj"\ntype = "int4"\n'
        '[[rule]]\nmatch = "*"\ntype = "keep"\n'
    )
    path, _ = arrays(store, "plain")

    run("create", "m", LLAMA, "--recipe", recipe, store=store).succeeded()

    shown = run("show", "m", "--recipe", store=store).succeeded().stdout
    assert shown.count('calibrate = "mse"') == 1
    document = run("show", "m", "--tensors", "--json", store=store).succeeded().document
    assert path.name.replace("-", ":") in {one["digest"] for one in document["tensors"]}


def test_a_word_that_is_not_a_method_is_refused(store):
    outcome = run("create", "m", LLAMA, "-q", "int4", "--calibrate", "best", store=store)

    assert "expected one of minmax, mse, percentile" in outcome.failed(2)
