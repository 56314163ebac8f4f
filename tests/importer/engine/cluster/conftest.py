"""What tests of the cluster have in common."""

from __future__ import annotations

import pytest

from store import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store") as store:
        yield store
