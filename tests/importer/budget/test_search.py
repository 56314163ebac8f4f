"""Models within a size: what the store has of them, and the same model without the search."""

from __future__ import annotations

import itertools
import json
import os

import numpy as np
import pytest

from cli.views.allocation import allocation_lines
from importer.budget import curves
from importer.budget.search import plan_within
from importer.codecs.base import Operation
from importer.codecs.measure import SumKernel
from importer.engine.reader import ChunkReader
from importer.models.description import describe
from importer.pipeline import plan_import
from importer.recipes.budget import parse_budget
from importer.recipes.document import to_document, to_toml
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from store import ModelName, Store
from store.errors import InputError, UsageError
from tests.importer.builders import (
    CAUSAL,
    MODELS,
    create,
    manifest_bytes,
    model,
    safetensors,
    write,
)

LLAMA, MOE, PIPELINE = (MODELS / f"tiny-{name}" for name in ("llama", "moe", "pipeline"))
LLAMA_CONFIG = {**CAUSAL, "hidden_size": 128}


def budget(
    size=None, bits=None, allow=("int4/64", "int4", "int6/32", "int8/32", "keep"), **more
):
    """Fields of a request with a size."""
    options = parse_options(recipe="budget", chooses=True, **more)
    return {"recipe": options, "budget": parse_budget(size, bits, allow)}


def planned(store, source, **asked):
    return plan_import(ImportRequest(ModelName.parse("m"), source, **asked), store)


def held(store, name="m"):
    """The bytes of the files that a store has of a model."""
    refs = {*store.catalog.get(ModelName.parse(name)).parse().blobs}
    files = [store.layout.blobs / f"sha256-{ref.digest.hex}" for ref in refs]
    return sum(file.stat().st_size for file in files) + len(manifest_bytes(store, name))


def least(store, source, **asked):
    """The smallest size that can be met."""
    with pytest.raises(UsageError) as error:
        planned(store, source, **budget(1, **asked))
    assert error.value.code == "E_BUDGET_SIZE"
    return error.value.facts["least"]


def normal(seed, shape, scale=0.02):
    """Values as BF16, as trained weights are distributed."""
    values = np.random.default_rng(seed).normal(scale=scale, size=shape).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def layers(count=3, width=128, **more):
    """Tensors of a llama, of which some are far larger than others."""
    found = {"model.embed_tokens.weight": (256, width), "model.norm.weight": (width,)}
    for layer in range(count):
        place = f"model.layers.{layer}"
        for name in "qkvo":
            found[f"{place}.self_attn.{name}_proj.weight"] = (width, width)
        found[f"{place}.mlp.up_proj.weight"] = (2 * width, width)
        found[f"{place}.mlp.down_proj.weight"] = (width, 2 * width)
    shapes = {**found, **more}
    return {
        name: ("BF16", shape, normal(number, shape))
        for number, (name, shape) in enumerate(shapes.items())
    }


@pytest.fixture
def llama(tmp_path):
    return model(tmp_path / "llama", layers(), LLAMA_CONFIG)


@pytest.mark.parametrize(
    ("source", "more"),
    [
        (LLAMA, {}),
        (MOE, {}),
        (MOE, {"stacked": True}),
        (PIPELINE, {}),
        (LLAMA, {"calibrate": "mse"}),
    ],
    ids=["llama", "moe", "stacked", "pipeline", "mse"],
)
def test_the_store_has_no_more_than_was_asked_for(tmp_path, source, more):
    with Store(tmp_path / "store") as store:
        smallest = least(store, source, **more)
        for number, extra in enumerate((0, 777, 5_000, 30_000)):
            name = f"m{number}"
            create(store, source, name, **budget(smallest + extra, **more))

            assert held(store, name) <= smallest + extra
            if extra == 0:
                assert held(store, name) == smallest
        assert held(store, "m3") > held(store, "m0")


def test_a_larger_model_leaves_little(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        smallest = least(store, llama)
        for size in range(smallest, smallest + 60_000, 6_101):
            create(store, llama, **budget(size, allow=()))

            assert 0 <= size - held(store) <= 1_500


def test_bits_are_those_that_show_prints(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        create(store, llama, **budget(bits="5.5"))
        found = describe(store, ModelName.parse("m"))

    bits = 8 * found.weight_bytes / found.parameters
    assert 5.4 < bits <= 5.5


def test_the_recipe_makes_the_same_model_without_the_search(tmp_path, llama):
    with Store(tmp_path / "a") as store, Store(tmp_path / "b") as other:
        made = create(store, llama, **budget(bits="5.3", calibrate="mse"))
        recipe = json.loads(
            store.blobs.read(store.catalog.get(made.name).parse().config.ref, 1 << 20)
        )
        text = "\n".join(to_toml(recipe["ingot"]["recipe"]))
        file = write(tmp_path, {"r.toml": text}) / "r.toml"

        again = create(other, llama, recipe=parse_options(recipe=str(file)))

    assert again.digest == made.digest
    assert "mse" in text


@pytest.mark.parametrize("stacked", [False, True])
def test_experts_of_a_projection_have_one_type(tmp_path, stacked):
    with Store(tmp_path / "store") as store:
        size = least(store, MOE, stacked=stacked) + 9_000
        plan = planned(store, MOE, **budget(size, stacked=stacked))

    types = {}
    for tensor in plan.tensors:
        for source in tensor.sources:
            if ".experts." in source.name:
                layer, _, expert = source.name.partition(".experts.")
                types.setdefault((layer, expert.partition(".")[2]), set()).add(tensor.type_name)
    assert types
    assert all(len(found) == 1 for found in types.values())


def test_tied_embeddings_have_one_type(tmp_path):
    tensors = layers(**{"lm_head.weight": (256, 128)})
    config = {**LLAMA_CONFIG, "tie_word_embeddings": True}
    tied = model(tmp_path / "tied", tensors, config)
    with Store(tmp_path / "store") as store:
        for size in range(least(store, tied), 400_000, 31_007):
            plan = planned(store, tied, **budget(size))

            found = {one.name: one.type_name for one in plan.tensors}
            assert found["lm_head.weight"] == found["model.embed_tokens.weight"]


def test_a_few_rules_name_the_types_of_many_layers(tmp_path):
    many = model(tmp_path / "many", layers(24, 64), LLAMA_CONFIG)
    with Store(tmp_path / "store") as store:
        plan = planned(store, many, **budget(bits="5.1"))

    chosen = [rule for rule in plan.recipe.rules if "chosen" in rule.reason]
    assert len(plan.allocation.chosen) == 145
    assert len(chosen) < 24
    assert len(json.dumps(to_document(plan.recipe))) < 12_000


def test_names_that_a_glob_would_confuse_are_named(tmp_path):
    tensors = {
        "a.0.x.weight": ("BF16", (64, 64), normal(0, (64, 64))),
        "a.0.b.1.x.weight": ("BF16", (64, 64), normal(1, (64, 64), 9.0)),
        "a.1.x.weight": ("BF16", (64, 64), normal(2, (64, 64))),
        "a.1.b.0.x.weight": ("BF16", (64, 64), normal(3, (64, 64))),
        "odd[0].*.weight": ("BF16", (64, 64), normal(4, (64, 64))),
    }
    source = model(tmp_path / "odd", tensors, CAUSAL)
    with Store(tmp_path / "store") as store:
        smallest = least(store, source)
        for extra in range(0, 20_000, 900):
            plan = planned(store, source, **budget(smallest + extra))

            wanted = {one.name: one.type for one in plan.allocation.chosen}
            kept = {"BF16": "keep"}
            found = {one.name: one.type_name for one in plan.tensors}
            assert {name: kept.get(kind, kind) for name, kind in found.items()} == wanted


def test_the_same_bytes_for_any_number_of_threads(tmp_path, llama):
    digests = set()
    for threads in (1, 3):
        with Store(tmp_path / str(threads)) as store:
            digests.add(create(store, llama, threads=threads, **budget(bits="4.9")).digest)
    assert len(digests) == 1


def old(directory):
    """Let files look as if nobody had written to them for a while."""
    for file in directory.iterdir():
        os.utime(file, (1, 1))


def test_another_target_reads_nothing(tmp_path, llama, monkeypatch):
    monkeypatch.setattr(curves, "GRANULARITY_NS", -(10**15))
    with Store(tmp_path / "store") as store:
        create(store, llama, **budget(bits="4.9"))
        read = []
        monkeypatch.setattr(ChunkReader, "fill", lambda *_: read.append(1))

        plan = planned(store, llama, **budget(bits="5.9"))

        assert read == []
        planned(store, llama, rehash=True, **budget(bits="5.9"))
        assert read != []
    assert plan.allocation.point.bits > 5.5


def test_a_store_that_is_not_there_is_not_made(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        planned(store, llama, **budget(bits="4.9"))

    assert not (tmp_path / "store").exists()


def test_more_than_the_best_takes_the_best_and_says_so(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        create(store, llama, "plain")
        plan = planned(store, llama, **budget(10**9))

        assert not plan.quantizes
        assert any("best type that is allowed" in told for told in plan.warnings)
        create(store, llama, **budget(10**9))
        names = [store.catalog.get(ModelName.parse(name)).parse() for name in ("m", "plain")]
        blobs = [[one.digest for one in found.layers] for found in names]
        assert blobs[0] == blobs[1]


def test_what_matters_more_gets_more_bits(tmp_path, llama):
    file = write(tmp_path, {"s.json": {"*.0.*": 1e4}}) / "s.json"
    asked = budget(bits="7", allow=("int4/64", "int8/32"))
    more = asked["budget"]._replace(
        sensitivity=parse_budget(1, None, (), str(file)).sensitivity
    )
    with Store(tmp_path / "store") as store:
        plan = planned(store, llama, **{**asked, "budget": more})

    types = {one.name: one.type for one in plan.allocation.chosen}
    first = {kind for name, kind in types.items() if ".0." in name}
    rest = {kind for name, kind in types.items() if ".0." not in name}
    assert first == {"int8/32"}
    assert "int4/64" in rest
    assert any("not in the sensitivities" in told for told in plan.warnings)


def test_a_recipe_that_names_all_types_leaves_nothing_to_choose(tmp_path, llama):
    options = parse_options(recipe="mixed_3_6", chooses=True)
    with Store(tmp_path / "store") as store, pytest.raises(UsageError) as error:
        planned(store, llama, recipe=options, budget=parse_budget(10**6, None))
    assert error.value.code == "E_BUDGET_RECIPE"


def test_a_users_rule_stays_as_it_is(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        plan = planned(store, llama, **budget(bits="5", rules=["*.up_proj=int3"]))

    found = {one.name: one.type_name for one in plan.tensors}
    assert {kind for name, kind in found.items() if "up_proj" in name} == {"int3"}


def test_what_no_type_fits_stays_and_says_so(tmp_path):
    tensors = layers(**{"model.odd.weight": (64, 40)})
    source = model(tmp_path / "odd", tensors, LLAMA_CONFIG)
    with Store(tmp_path / "store") as store:
        plan = planned(store, source, **budget(bits="6"))

    (odd,) = (one for one in plan.tensors if one.name == "model.odd.weight")
    assert odd.type_name == "BF16"
    assert odd.decision.reason == "no type that is allowed fits it"


def test_a_report_is_within_the_size_too(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        for size in itertools.islice(range(270_000, 420_000, 40_009), 3):
            create(store, llama, report=True, **budget(size))

            assert held(store) <= size


def test_the_bound_and_the_curve_are_told(tmp_path, llama):
    with Store(tmp_path / "store") as store:
        made = planned(store, llama, **budget(bits="5")).allocation

    assert made.bound <= made.point.error <= 1.05 * made.bound
    sizes = [point.nbytes for point in made.points]
    errors = [point.error for point in made.points]
    assert sizes == sorted(sizes)
    assert errors == sorted(errors, reverse=True)
    assert made.more.error < made.point.error
    assert sum(one.share for one in made.chosen) == pytest.approx(1)


def test_a_source_that_changes_is_an_error(tmp_path, llama, monkeypatch):
    with Store(tmp_path / "store") as store:
        request = ImportRequest(ModelName.parse("m"), llama, **budget(bits="5"))
        original = plan_within

        def changed(*arguments):
            (llama / "model.safetensors").write_bytes(b"")
            return original(*arguments)

        monkeypatch.setattr("importer.budget.search.plan_within", changed)
        with pytest.raises(InputError):
            plan_import(request, store)


def test_kernels_are_asked_for_as_often_as_they_are_used(tmp_path, llama, monkeypatch):
    asked, prepare = [], curves.prepare
    monkeypatch.setattr(curves, "prepare", lambda work, _: asked.append(work) or prepare({}, _))
    matrix = tmp_path / "imatrix"
    layer = "model.layers.0.mlp.up_proj.weight"
    matrix.write_bytes(
        safetensors({layer: ("F32", (128,), np.arange(1, 129).astype("<f4").tobytes())})
    )
    searched = budget(bits="5", allow=("int4/64", "int4/32"), has_imatrix=True)

    with Store(tmp_path / "store") as store:
        planned(store, llama, **searched, imatrix=matrix)

    encoders = {
        kernel.is_weighted: (nbytes, kernel.effort)
        for kernel, nbytes in asked[0].items()
        if getattr(kernel, "operation", None) is Operation.ENCODE
    }
    every = sum(len(data) for _, shape, data in layers().values() if len(shape) > 1)
    own = len(layers()[layer][2])
    # Both groups of the one type, of the tensor that the matrix knows and of the others.
    assert encoders == {True: (2 * own, 32), False: (2 * (every - own), 32)}
    assert asked[0][SumKernel("BF16")] == 2 * every


def test_factors_are_guesses_unless_they_are_given(tmp_path, llama):
    file = tmp_path / "factors.json"
    file.write_text('{"*": 1}')
    measured = parse_budget(None, "5", ("int4/64", "int4/32"), str(file))

    with Store(tmp_path / "store") as store:
        guessed = planned(store, llama, **budget(bits="5", allow=("int4/64", "int4/32")))
        told = planned(store, llama, **budget(1) | {"budget": measured})

    assert guessed.allocation.guesses
    assert not told.allocation.guesses
    assert "guessed" not in "".join(allocation_lines(told.allocation))
    assert "`ingot eval --sensitivity`" in "".join(allocation_lines(guessed.allocation))


def test_a_choice_of_fewer_rules_is_found_where_it_fits(tmp_path):
    """Of all 287 choices that might lose less, each planned, this is the best that fits."""
    with Store(tmp_path / "store") as store:
        found = planned(store, LLAMA, **budget(65_000, allow=())).allocation

    assert found.point.error == pytest.approx(0.014612180522)
    assert found.limit - found.used == 127
