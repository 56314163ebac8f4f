"""Which safetensors files of a directory are its weights: a choice, or an error that names."""

from __future__ import annotations

import pytest

from importer.sources.naming import Naming
from importer.sources.shards import select_weights
from store.errors import InputError

NAMING = Naming((".safetensors",), ("model", "diffusion_pytorch_model"), ("consolidated",))


def select(*names, variant=None):
    named = {name: NAMING.parse(name) for name in names}
    return select_weights({k: v for k, v in named.items() if v}, "safetensors", variant)


def chosen(*names, variant=None):
    return list(select(*names, variant=variant).files)


def refused(*names, variant=None):
    with pytest.raises(InputError) as caught:
        select(*names, variant=variant)
    return caught.value.code, f"{caught.value} {caught.value.hint} {caught.value.facts}"


def numbered(stem, count, suffix="", numbers=None):
    return [
        f"{stem}-{number:05}-of-{count:05}{suffix}.safetensors"
        for number in numbers or range(1, count + 1)
    ]


INDEX = "model.safetensors.index.json"
SHARDS = numbered("model", 3)


def test_a_directory_without_weights_has_none():
    assert select("config.json", "pytorch_model.bin", "pytorch_model.bin.index.json") is None


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "diffusion_pytorch_model.safetensors",
        "consolidated.safetensors",
        "sd3.5_large.safetensors",
        "adapter_model.safetensors",
        "Model.safetensors",
    ],
)
def test_the_only_file_there_is_is_chosen(name):
    assert chosen(name, "config.json") == [name]


def test_a_file_of_the_formats_own_name_wins():
    names = ("model.safetensors", "adapter_model.safetensors", "extra.safetensors")

    selection = select(*names)

    assert list(selection.files) == ["model.safetensors"]
    assert [(out.path, out.reason) for out in selection.left_out] == [
        ("adapter_model.safetensors", "not one of the model's weights files"),
        ("extra.safetensors", "not one of the model's weights files"),
    ]


def test_files_of_other_names_are_one_model():
    assert chosen("a.safetensors", "b.safetensors") == ["a.safetensors", "b.safetensors"]


def test_an_index_decides_over_everything():
    selection = select(INDEX, *SHARDS, "model.safetensors", "consolidated.safetensors")

    assert selection.index == INDEX
    assert selection.files == ()


def test_an_index_decides_even_where_no_file_is_there():
    assert select(INDEX).index == INDEX


def test_the_index_of_a_pipeline_component_decides():
    name = "diffusion_pytorch_model.safetensors.index.json"

    assert select(name, *numbered("diffusion_pytorch_model", 2)).index == name


def test_an_index_of_another_name_decides_where_it_is_alone():
    name = "sd3.5_large.safetensors.index.json"

    assert select(name, *numbered("sd3.5_large", 2)).index == name


def test_two_indexes_of_other_names_are_ambiguous():
    names = ("a.safetensors.index.json", "b.safetensors.index.json")

    code, text = refused(*names)

    assert code == "E_SRC_AMBIGUOUS"
    assert all(name in text for name in names)


@pytest.mark.parametrize("stem", ["model", "diffusion_pytorch_model", "sd3.5_large", "a-b"])
def test_numbered_shards_need_no_index(stem):
    names = numbered(stem, 3)

    assert chosen(*names) == names


def test_shards_may_be_numbered_with_more_digits():
    names = ["model-000001-of-000002.safetensors", "model-000002-of-000002.safetensors"]

    assert chosen(*names) == names


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (
            [1, 3],
            "1 of 3 shards are missing beside `model-00001-of-00003.safetensors`: number 2",
        ),
        (
            [3],
            "2 of 3 shards are missing beside `model-00003-of-00003.safetensors`: number 1, 2",
        ),
    ],
)
def test_a_missing_shard_is_told_by_number(numbers, words):
    code, text = refused(*numbered("model", 3, numbers=numbers))

    assert code == "E_SRC_SHARD_MISSING"
    assert words in text


def test_many_missing_shards_are_counted():
    code, text = refused(*numbered("model", 99_999, numbers=[7]))

    assert code == "E_SRC_SHARD_MISSING"
    assert "99998 of 99999 shards are missing" in text
    assert len(text) < 300


def test_a_shard_beyond_the_count_is_refused():
    code, text = refused(*numbered("model", 2), "model-00003-of-00002.safetensors")

    assert code == "E_SRC_AMBIGUOUS"
    assert "model-00003-of-00002.safetensors" in text


def test_shards_of_different_sets_are_ambiguous():
    code, text = refused(*numbered("model", 2), *numbered("model", 3, numbers=[3]))

    assert code == "E_SRC_AMBIGUOUS"
    assert "`model-00001-of-00002.safetensors` is one of 2, others are of 3" in text


def test_a_whole_file_beside_shards_is_ambiguous():
    code, text = refused("model.safetensors", *SHARDS)

    assert code == "E_SRC_AMBIGUOUS"
    assert "`model.safetensors`" in text
    assert f"`{SHARDS[0]}`" in text


@pytest.mark.parametrize("others", [["model.safetensors"], SHARDS, ["a.safetensors"]])
def test_a_second_copy_is_left_out(others):
    selection = select(*others, "consolidated.safetensors")

    assert list(selection.files) == others
    assert [(out.path, out.reason) for out in selection.left_out] == [
        ("consolidated.safetensors", "a second copy of the same weights")
    ]


def test_a_second_copy_is_left_out_beside_several_files():
    assert chosen("a.safetensors", "b.safetensors", "consolidated.safetensors") == [
        "a.safetensors",
        "b.safetensors",
    ]


def test_a_sharded_second_copy_alone_is_the_model():
    names = numbered("consolidated", 2)

    assert chosen(*names) == names


PLAIN = ["model.safetensors"]
HALF = ["model.fp16.safetensors"]


def test_the_plain_weights_are_chosen_among_variants():
    selection = select(*PLAIN, *HALF)

    assert list(selection.files) == PLAIN
    assert selection.left_out[0].reason == "another variant: `fp16`"


def test_a_variant_is_chosen_when_it_is_asked_for():
    assert chosen(*PLAIN, *HALF, variant="fp16") == HALF


def test_a_variant_that_is_not_there_falls_back_to_the_plain_weights():
    assert chosen(*PLAIN, variant="fp16") == PLAIN


@pytest.mark.parametrize(
    "names",
    [
        # As diffusers names them, and as transformers does.
        numbered("model.fp16", 2),
        numbered("model", 2, suffix=".fp16"),
        numbered("diffusion_pytorch_model.fp16", 2),
    ],
    ids=["diffusers", "transformers", "component"],
)
def test_shards_of_a_variant_are_known_in_both_spellings(names):
    others = numbered(names[0].partition(".")[0].partition("-")[0], 3)

    assert chosen(*names, *others, variant="fp16") == names
    assert chosen(*names, *others) == others


def test_the_index_of_a_variant_is_chosen_with_it():
    names = [INDEX, *SHARDS, "model.safetensors.index.fp16.json"]

    assert select(*names, variant="fp16").index == "model.safetensors.index.fp16.json"
    assert select(*names).index == INDEX


@pytest.mark.parametrize("variant", [None, "int8"])
def test_weights_only_in_variants_are_ambiguous(variant):
    code, text = refused("model.fp16.safetensors", "model.bf16.safetensors", variant=variant)

    assert code == "E_SRC_VARIANTS"
    assert "`bf16`, `fp16`" in text
    assert "{'variant': 'bf16'}" in text


def test_a_dot_in_another_name_makes_no_variant():
    assert chosen("sd3.5_large.safetensors", "t5xxl.fp16.safetensors") == [
        "sd3.5_large.safetensors",
        "t5xxl.fp16.safetensors",
    ]
