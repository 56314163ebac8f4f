"""The public names of the package."""

from __future__ import annotations

import subprocess
import sys

import pytest

import importer
from tests.importer.builders import REPOSITORY


@pytest.mark.parametrize("name", importer.__all__)
def test_every_public_name_is_there(name):
    assert getattr(importer, name).__name__ == name


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = importer.nothing


def test_importing_the_package_loads_nothing():
    script = (
        "import sys, importer; print([m for m in sys.modules if m.startswith('importer.')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, check=True
    )

    assert done.stdout == b"[]\n"
