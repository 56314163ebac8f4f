from __future__ import annotations

import subprocess
import sys

import pytest

import store


@pytest.mark.parametrize("name", store.__all__)
def test_each_public_name_is_there(name):
    assert getattr(store, name).__name__ == name


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        store.nothing  # noqa: B018


def test_importing_the_store_imports_nothing_heavy():
    code = "import sys, store.store, store.catalog, store.names; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert set(ended.stdout.split()).isdisjoint(
        {"numpy", "sqlite3", "rich", "typer", "safetensors"}
    )
