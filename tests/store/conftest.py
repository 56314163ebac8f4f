from __future__ import annotations

import pytest

from store.store import Store


@pytest.fixture
def store(tmp_path):
    """A store on the real file system, ready to be written to."""
    with Store(tmp_path / "store") as store:
        store.prepare()
        yield store
