from __future__ import annotations

import ntpath
import os
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import limits
from store.paths import Layout, is_reserved, why_unsafe
from tests.strategies import texts

UNSAFE = [
    "",
    ".",
    "..",
    "../x",
    "a/../b",
    "a/..",
    "./a",
    "a/.",
    "/etc/passwd",
    "//host/share",
    "a//b",
    "a/",
    "C:\\x",
    "C:x",
    "c:/x",
    "\\\\host\\share",
    "a\\..\\b",
    "..\\x",
    "a:stream",
    "a*",
    'a"b',
    "a|b",
    "a?",
    "a<b>",
    "nul",
    "a/CON",
    "com1.txt",
    "lpt¹",
    "CONIN$",
    "conout$.txt",
    "a ",
    "a.",
    "a./b",
    "a\x00b",
    "a\nb",
    "a\x1b[2J",
    "a\u202eb",
    "a\udcffb",
    "a\ud800b",
    "a" * (limits.PATH_BYTES + 1),
    "é" * limits.PATH_BYTES,
]
SAFE = [
    "a",
    "config.json",
    "text_encoder/model-00001-of-00002.safetensors",
    ".hidden",
    "..a",
    "a..b",
    "a b",
    "console",
    "com10",
    "naïve/🦙",
    "a" * limits.PATH_BYTES,
]

# What takes paths apart: separators, drives, devices, dots.
shards = st.sampled_from(
    ["..", ".", "/", "\\", "a", "C:", "con", "~", "$HOME", " ", "%2e", "\uff0e", "\x00", "//?/"]
)
paths = texts | st.lists(shards, max_size=8).map("".join)


@pytest.mark.parametrize("path", UNSAFE)
def test_a_path_that_is_unsafe_somewhere_is_refused_everywhere(path):
    assert why_unsafe(path) is not None


@pytest.mark.parametrize("path", SAFE)
def test_an_innocent_path_is_safe(path):
    assert why_unsafe(path) is None


@given(paths)
def test_a_safe_path_never_leaves_its_root(path):
    if why_unsafe(path) is None:
        assert os.path.realpath(os.path.join("/no/such/root", path)).startswith(
            "/no/such/root/"
        )


@given(paths)
def test_a_safe_path_never_leaves_its_root_on_windows(path):
    if why_unsafe(path) is None:
        joined = ntpath.normpath(ntpath.join("D:\\root", path))
        assert joined.startswith("D:\\root\\")
        assert not PureWindowsPath(path).drive


@given(paths)
def test_a_safe_path_has_the_same_parts_on_every_system(path):
    if why_unsafe(path) is None:
        parts = tuple(path.split("/"))
        assert PurePosixPath(path).parts == PureWindowsPath(path).parts == parts


@pytest.mark.parametrize(
    "name", ["con", "CON", "nul.txt", "com0", "LPT9", "com²", "aux .x", "x."]
)
def test_a_device_of_windows_is_reserved(name):
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["console", "com", "com12", "xcon", ".con", "nul_"])
def test_a_name_that_only_looks_like_a_device_is_not_reserved(name):
    assert not is_reserved(name)


def test_the_layout_is_that_of_ollama():
    layout = Layout(Path("/models"))

    assert (layout.blobs, layout.manifests) == (
        Path("/models/blobs"),
        Path("/models/manifests"),
    )
