"""Files of factors: ours, mlx-lm's, and what is neither."""

from __future__ import annotations

import json

import pytest

from importer.recipes.sensitivity import read_sensitivity
from store.errors import InputError, NotFoundError

NAMES = ["layers.0.v_proj.weight", "layers.1.v_proj.weight", "layers.0.q_proj.weight", "other"]


def read(tmp_path, content):
    path = tmp_path / "s.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return read_sensitivity(str(path))


def test_a_name_goes_before_the_first_glob(tmp_path):
    found = read(tmp_path, {"*.v_proj": 3, "layers.1.*": 5, "layers.1.v_proj": 7})

    assert found.of(NAMES) == {NAMES[0]: 3.0, NAMES[1]: 7.0}
    assert not found.is_relative


def test_mlx_lms_pairs_are_relative_and_a_negative_one_is_the_least(tmp_path):
    found = read(tmp_path, [["layers.0.v_proj", 2.5], ["layers.0.q_proj", -1.0], ["x", 0.5]])

    assert found.is_relative
    assert found.of(NAMES) == {NAMES[0]: 2.5, NAMES[2]: 0.5}


def test_mlx_lms_stack_stands_for_its_experts(tmp_path):
    found = read(tmp_path, [["model.layers.3.mlp.switch_mlp.up_proj", 2.0]])

    name = "model.layers.3.mlp.experts.17.up_proj.weight"
    assert found.of([name]) == {name: 2.0}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "3",
        '{"a": 0}',
        '{"a": -1}',
        '{"a": "1"}',
        '{"a": true}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        "[[1, 2]]",
        '[["a"]]',
        '[["a", null]]',
        "[" * 500,
    ],
)
def test_what_is_not_such_a_file_is_refused(tmp_path, content):
    with pytest.raises(InputError) as error:
        read(tmp_path, content)

    assert error.value.code == "E_SENSITIVITY"
    assert "s.json" in str(error.value)


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFoundError):
        read_sensitivity(str(tmp_path / "none"))


def test_factors_of_another_model_are_refused(tmp_path):
    with pytest.raises(InputError, match="none is of a tensor"):
        read(tmp_path, {"encoder.*": 2}).of(NAMES)
