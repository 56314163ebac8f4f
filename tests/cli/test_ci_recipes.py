"""The recipes for CI in docs/scripts.md: what they run is run, and does what they say."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from tests.cli.runner import environment, run
from tests.importer.builders import MODELS, REPOSITORY

PAGE = (REPOSITORY / "docs" / "scripts.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GITHUB, GITLAB = map(yaml.safe_load, BLOCK.findall(PAGE))
LINES = {
    "github": [step["run"] for step in GITHUB["jobs"]["models"]["steps"] if "run" in step],
    "gitlab": GITLAB["models"]["script"],
}


@pytest.fixture
def clone(tmp_path):
    """A repository with a list of models and its lock, and `ingot` to be found."""
    place = tmp_path / "clone"
    place.mkdir()
    source = MODELS / "tiny-llama"
    rows = (("plain", ""), ("small", 'quantize = "int4"\n'))
    text = "".join(f'[[model]]\nname = "{n}"\nsource = "{source}"\n{more}' for n, more in rows)
    (place / "models.toml").write_text(text)
    run("sync", place / "models.toml", store=tmp_path / "mine").succeeded()
    command = tmp_path / "ingot"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli "$@"\n')
    command.chmod(0o755)
    return place


@pytest.mark.parametrize("service", LINES)
def test_every_line_of_a_recipe_runs(clone, tmp_path, service):
    install, *lines = LINES[service]
    assert install == "pip install ."
    assert len(lines) == 3
    variables = environment(tmp_path / "store", PATH=f"{tmp_path}:/usr/bin:/bin")

    for _ in range(2):
        for line in lines:
            subprocess.run(line, shell=True, cwd=clone, env=variables, check=True)

    assert json.loads((clone / "verify.json").read_text())["models"] == 2


def test_what_has_parted_from_its_lock_ends_with_12(clone, tmp_path):
    with (clone / "models.toml").open("a") as file:
        file.write("group_size = 64\n")
    variables = environment(tmp_path / "store", PATH=f"{tmp_path}:/usr/bin:/bin")

    done = subprocess.run(LINES["github"][1], shell=True, cwd=clone, env=variables, check=False)

    assert done.returncode == 12


def test_both_recipes_run_the_same():
    assert LINES["github"] == LINES["gitlab"]
    assert GITLAB["models"]["cache"]["paths"] == [".models"]
