"""`ingot create --imatrix`: which columns count, what is recorded, and made again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from importer.formats.gguf_names.spelling import spelling_of
from tests.cli.runner import run
from tests.importer.builders import MODELS
from tests.importer.damage import flip
from tests.importer.formats.imatrix.builders import dat, ended, entry, imatrix

LLAMA, MOE = MODELS / "tiny-llama", MODELS / "tiny-moe"
LACKING = "model.layers.1.mlp.down_proj.weight"
DOWN = "model.layers.0.mlp.down_proj.weight"


def shapes(model):
    found = {}
    for path in sorted(model.glob("model*.safetensors")):
        with safe_open(path, "np") as file:
            found |= {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    return found


def numbers(seed, *shape):
    return np.exp(np.random.default_rng(seed).standard_normal(shape) * 2).astype(np.float32)


@pytest.fixture
def importance():
    """Numbers for the matrices of tiny-llama's layers, but for one."""
    return {
        name: numbers(seed, shape[-1])
        for seed, (name, shape) in enumerate(sorted(shapes(LLAMA).items()))
        if len(shape) == 2 and "layers" in name and name != LACKING
    }


def of_gguf(named):
    spelling = spelling_of("llama")
    return {spelling.key_of(name).key.name: found for name, found in named.items()}


@pytest.fixture
def matrices(tmp_path, importance):
    """The same numbers in each format."""
    named = of_gguf(importance)
    newer, older, ours = (tmp_path / name for name in ("m.gguf", "m.dat", "m.safetensors"))
    sums = {name: [found * 4] for name, found in named.items()}
    newer.write_bytes(imatrix(sums, {name: [4.0] for name in named}))
    older.write_bytes(
        dat(*(entry(name, 2, found * 2) for name, found in named.items()), end=ended())
    )
    save_file(importance, ours)
    return newer, older, ours


def digests(store, name):
    document = run("show", name, "--tensors", "--json", store=store).succeeded().document
    return {one["name"]: one["digest"] for one in document["tensors"]}


def create(store, name, source, matrix, *words):
    return run("create", name, source, "-q", "int4", "--imatrix", matrix, *words, store=store)


def test_the_same_numbers_in_each_format_give_the_same_tensors(store, matrices):
    for number, matrix in enumerate(matrices):
        create(store, f"m{number}", LLAMA, matrix).succeeded()
    run("create", "alike", LLAMA, "-q", "int4", "--calibrate", "mse", store=store).succeeded()

    one, *others = (digests(store, f"m{number}") for number in range(3))
    alike = digests(store, "alike")

    assert others == [one, one]
    assert one[DOWN] != alike[DOWN]
    assert one[LACKING] == alike[LACKING]


def test_the_plan_names_what_has_no_importance(store, matrices):
    outcome = create(store, "m", LLAMA, matrices[0], "--dry-run", "--json").succeeded()

    found = outcome.document["importance"]
    assert found["without"] == ["lm_head.weight", LACKING]
    assert (found["tensors"], found["unused_matrices"]) == (13, 0)
    text = create(store, "m", LLAMA, matrices[0], "--dry-run").succeeded().stdout
    assert "known for 13 of 15 tensors" in text
    assert f"count alike: `lm_head.weight`, `{LACKING}`" in text


def test_it_is_kept_shown_compared_and_repaired(store, matrices):
    create(store, "m", LLAMA, matrices[1]).succeeded()
    matrices[1].unlink()
    digest = digests(store, "m")[DOWN]
    blob = store / "blobs" / digest.replace(":", "-")
    content = blob.read_bytes()

    assert "importance" in run("show", "m", store=store).succeeded().stdout
    run("gc", "--yes", store=store).succeeded()
    run("verify", "--source", LLAMA, "m", store=store).succeeded()
    flip(blob)
    run("verify", "--repair", "m", store=store).succeeded()

    assert blob.read_bytes() == content


def test_a_damaged_matrix_is_found_and_given_again(store, matrices):
    create(store, "m", LLAMA, matrices[0]).succeeded()
    before = digests(store, "m")
    (blob,) = (path for path in (store / "blobs").iterdir() if path.read_bytes()[:4] == b"GGUF")
    flip(blob)

    assert "importance matrix" in run("verify", "m", store=store).stdout
    create(store, "m", LLAMA, matrices[0], "--rehash").succeeded()

    run("verify", "m", store=store).succeeded()
    assert digests(store, "m") == before


def test_its_recipe_makes_it_again_from_the_matrix_of_the_store(store, tmp_path, matrices):
    create(store, "m", LLAMA, matrices[0]).succeeded()
    recipe = tmp_path / "again.toml"
    recipe.write_text(run("show", "m", "--recipe", store=store).succeeded().stdout)

    run("create", "again", LLAMA, "--recipe", recipe, store=store).succeeded()

    assert digests(store, "again") == digests(store, "m")
    elsewhere = run("create", "m", LLAMA, "--recipe", recipe, store=tmp_path / "other")
    assert "which the store does not have" in elsewhere.failed(9)


def test_the_digest_of_a_kept_one_stands_for_it(store, matrices):
    create(store, "m", LLAMA, matrices[0]).succeeded()
    shown = run("show", "m", "--json", store=store).succeeded().document
    digest = shown["config"]["ingot"]["recipe"]["imatrix"]

    create(store, "again", LLAMA, digest).succeeded()

    assert digests(store, "again") == digests(store, "m")


@pytest.mark.parametrize("experts", ["packed", "stacked"])
def test_each_expert_has_its_own(store, tmp_path, experts):
    named = {
        name: numbers(seed, shape[-1])
        for seed, (name, shape) in enumerate(sorted(shapes(MOE).items()))
        if len(shape) == 2 and ".experts." in name
    }
    by_name, stacked = tmp_path / "a.safetensors", tmp_path / "b.gguf"
    save_file(named, by_name)
    count = sum(name.endswith("down_proj.weight") for name in named)
    sums = {
        f"blk.1.ffn_{kind}_exps.weight": np.stack(
            [
                named[f"model.layers.1.mlp.experts.{number}.{kind}_proj.weight"]
                for number in range(count)
            ]
        )
        for kind in ("gate", "up", "down")
    }
    # An expert that was never reached.
    counts = {name: [*[1.0] * (count - 1), 0.0] for name in sums}
    stacked.write_bytes(imatrix(sums, counts))
    words = ("--experts", experts)

    create(store, "a", MOE, by_name, *words).succeeded()
    outcome = create(store, "b", MOE, stacked, *words, "--json").succeeded()

    one, two = digests(store, "a"), digests(store, "b")
    changed = {name for name in one if one[name] != two[name]}
    assert changed
    assert all("experts" in name for name in changed)
    assert any("never reached 2 experts" in text for text in outcome.document["warnings"])
    run("verify", "--source", MOE, "b", store=store).succeeded()


def test_one_weight_that_was_not_reached_is_told_as_one(store, importance, tmp_path):
    path = tmp_path / "zero.safetensors"
    save_file(importance | {DOWN: np.zeros_like(importance[DOWN])}, path)

    outcome = create(store, "m", LLAMA, path, "--json").succeeded()

    told = "never reached 1 expert or matrix: its columns count alike"
    assert any(told in text for text in outcome.document["warnings"])


def test_a_matrix_is_no_part_of_a_model_that_is_made_without_it(store, matrices):
    create(store, "m", LLAMA, matrices[0]).succeeded()

    run("create", "n", "m", "-q", "f32", store=store).succeeded()

    document = run("show", "n", "--json", store=store).succeeded().document
    assert "imatrix" not in json.dumps(document["config"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({DOWN: np.ones(3, np.float32)}, "expected 128: it is of another model"),
        ({DOWN: -numbers(0, 128)}, "negative or not finite"),
        ({DOWN: np.full(128, np.inf, np.float32)}, "negative or not finite"),
    ],
)
def test_one_of_another_model_is_refused(store, tmp_path, importance, changes, said):
    path = tmp_path / "m.safetensors"
    save_file(importance | changes, path)

    assert said in create(store, "m", LLAMA, path).failed(3)


def test_one_with_other_names_is_refused(store, tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({"a.weight": numbers(0, 64)}, path)

    assert "has nothing for any tensor" in create(store, "m", LLAMA, path).failed(3)


@pytest.mark.parametrize(
    "words",
    [
        ("-q", "int4", "--calibrate", "minmax"),
        ("-q", "int4", "--calibrate", "percentile"),
        ("-q", "bf16"),
        (),
    ],
)
def test_it_goes_with_the_search_that_reads_it(store, matrices, words):
    outcome = run("create", "m", LLAMA, "--imatrix", matrices[0], *words, store=store)

    outcome.failed(2)


def test_a_file_that_is_not_there_is_told(store, tmp_path):
    assert "there is no file" in create(store, "m", LLAMA, tmp_path / "gone").failed(9)


SIZE = 72_000


def sized(store, name, *words):
    asked = ("--target-size", SIZE, "--allow", "int3/32,int4/32,int5/32,int6/32,int8/32")
    run("create", name, LLAMA, *asked, *words, store=store).succeeded()


def test_a_size_has_the_matrix_in_it(store, matrices):
    sized(store, "m", "--imatrix", matrices[0])
    blobs = {path.name: path for path in (store / "blobs").iterdir() if path.is_file()}
    files = [*blobs.values(), *(path for path in (store / "manifests").rglob("*"))]
    used = sum(path.stat().st_size for path in files if path.is_file())

    assert any(path.read_bytes() == matrices[0].read_bytes() for path in blobs.values())
    assert 0.98 * SIZE < used <= SIZE


def test_a_size_has_scales_of_the_matrix_and_its_recipe_has_them_again(
    store, tmp_path, matrices
):
    sized(store, "m", "--imatrix", matrices[0])
    recipe = tmp_path / "again.toml"
    text = run("show", "m", "--recipe", store=store).succeeded().stdout
    recipe.write_text(text)
    unweighed = tmp_path / "unweighed.toml"
    lines = [line for line in text.splitlines() if not line.startswith("imatrix")]
    unweighed.write_text("\n".join(lines))

    run("create", "again", LLAMA, "--recipe", recipe, store=store).succeeded()
    run("create", "plain", LLAMA, "--recipe", unweighed, store=store).succeeded()

    one, again, plain = (digests(store, name) for name in ("m", "again", "plain"))
    assert again == one
    assert len(lines) == len(text.splitlines()) - 1
    # As many bytes of the same types, found by other errors, but for what has no numbers.
    assert one[DOWN] != plain[DOWN]
    assert one["lm_head.weight"] == plain["lm_head.weight"]
    assert one[LACKING] == plain[LACKING]
    run("verify", "--source", LLAMA, "m", store=store).succeeded()
