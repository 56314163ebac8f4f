"""Headers are shown to a second parser, once for each state of a file."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import safetensors as library
from safetensors import SafetensorError

from importer.sources.cross_check import check_reference
from importer.sources.inventory import read_inventory
from store import Store
from store.errors import InputError, StorageError
from tests.importer.builders import MODELS, create, model, shards, write

TENSORS = {"a.weight": ("F32", (4,)), "b": ("U8", (3,))}


def check(directory, known=()):
    inventory = read_inventory(directory)
    check_reference(inventory, lambda file: file.path in known)


class Opened:
    """A file in which the library sees these names."""

    def __init__(self, names):
        self.names = names

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def keys(self):
        return self.names


@pytest.mark.parametrize("fixture", [path.name for path in MODELS.iterdir()])
def test_files_that_both_read_alike_are_accepted(fixture):
    check(MODELS / fixture)


@pytest.mark.parametrize(
    ("raised", "error", "words"),
    [
        (SafetensorError("no"), InputError, "refuses it: no"),
        (PermissionError("denied"), StorageError, "cannot read it: denied"),
    ],
)
def test_what_the_library_does_not_open(tmp_path, monkeypatch, raised, error, words):
    # No file is known that our parser accepts and the library does not: pretend.
    def open_nothing(*_, **__):
        raise raised

    monkeypatch.setattr(library, "safe_open", open_nothing)

    with pytest.raises(error) as caught:
        check(model(tmp_path, TENSORS))
    assert words in str(caught.value)


@pytest.mark.parametrize("seen", [["a.weight"], ["a.weight", "b", "\x1b[2J"], []])
def test_other_names_are_refused(tmp_path, monkeypatch, seen):
    monkeypatch.setattr(library, "safe_open", lambda *_, **__: Opened(seen))

    with pytest.raises(InputError) as caught:
        check(model(tmp_path, TENSORS))
    assert caught.value.code == "E_ST_REFERENCE"
    assert "\x1b" not in str(caught.value)


def test_only_what_is_not_known_is_checked(tmp_path, monkeypatch):
    checked = []
    real = library.safe_open

    def note(path, **options):
        checked.append(os.readlink(path))
        return real(path, **options)

    monkeypatch.setattr(library, "safe_open", note)
    files = shards({"a": ("U8", (1,))}, {"b": ("U8", (1,))})
    write(tmp_path, files)
    first, second = sorted(path for path in files if path.endswith(".safetensors"))

    check(tmp_path, known={first})

    assert checked == [str(tmp_path / second)]


AGAIN = """
import sys
from pathlib import Path
from store import Store
from tests.importer.builders import create
create(Store(Path(sys.argv[1])), Path(sys.argv[2]))
print("numpy" in sys.modules)
"""


def test_an_unchanged_source_is_imported_again_without_numpy(tmp_path):
    store = Store(tmp_path / "store")
    source = model(tmp_path / "m", TENSORS)
    # Older than the clock's granularity, before which a file may change without a trace.
    os.utime(source / "model.safetensors", ns=(1, 1))
    before = os.stat(source / "model.safetensors").st_ctime_ns
    while os.stat(write(tmp_path, {"now": b""}) / "now").st_ctime_ns < before + 2 * 10**9:
        write(tmp_path, {"now": b""})
    create(store, source)
    store.close()
    words = [sys.executable, "-c", AGAIN, str(tmp_path / "store"), str(source)]

    told = subprocess.run(words, check=True, capture_output=True, text=True)

    assert told.stdout == "False\n"


def test_a_file_that_changed_is_checked_again(tmp_path, monkeypatch):
    store = Store(tmp_path / "store")
    source = model(tmp_path / "m", TENSORS)
    create(store, source)
    model(source, {**TENSORS, "c": ("U8", (9,))})
    monkeypatch.setattr(library, "safe_open", lambda *_, **__: Opened(["x"]))

    with pytest.raises(InputError):
        create(store, source)
