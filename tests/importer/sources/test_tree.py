"""What a source directory may hold, and what becomes of a link, a pipe and an odd name."""

from __future__ import annotations

import contextlib
import os
import socket

import pytest

from importer.sources.tree import read_tree
from store.errors import InputError, NotFoundError
from tests.importer.builders import write


def paths(directory):
    return [file.path for file in read_tree(directory).files]


def refused(directory):
    with pytest.raises(InputError) as caught:
        read_tree(directory)
    return caught.value.code, str(caught.value)


def test_files_are_sorted_bytewise_by_their_relative_path(tmp_path):
    write(tmp_path, {"b": b"", "a/z": b"", "a.json": b"", "Z": b"", "é": b""})

    assert paths(tmp_path) == ["Z", "a.json", "a/z", "b", "é"]


def test_a_source_may_be_one_file(tmp_path):
    write(tmp_path, {"x.safetensors": b"12", "other": b""})

    (file,) = read_tree(tmp_path / "x.safetensors").files

    assert (file.path, file.size, file.directory) == ("x.safetensors", 2, "")


def test_one_file_keeps_the_name_of_the_link_that_was_named(tmp_path):
    write(tmp_path, {"blobs/0ab1": b"12", "x/y": b""})
    (tmp_path / "x" / "model.safetensors").symlink_to("../blobs/0ab1")

    assert paths(tmp_path / "x" / "model.safetensors") == ["model.safetensors"]


def test_a_link_of_another_name_means_the_file_that_it_leads_to(tmp_path):
    write(tmp_path, {"model.safetensors": b"12"})
    (tmp_path / "current").symlink_to("model.safetensors")

    assert paths(tmp_path / "current") == ["model.safetensors"]


@pytest.mark.parametrize("path", ["missing", "file/below"])
def test_a_source_that_does_not_exist_is_not_found(tmp_path, path):
    write(tmp_path, {"file": b""})

    with pytest.raises(NotFoundError) as caught:
        read_tree(tmp_path / path)
    assert caught.value.code == "E_SRC_MISSING"


def test_a_source_that_is_a_loop_of_links_is_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert refused(tmp_path / "a")[0] == "E_PATH"


def test_a_source_that_is_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert refused(tmp_path / "pipe")[0] == "E_SRC_TYPE"


def test_hidden_directories_are_left_out_and_hidden_files_are_kept(tmp_path):
    write(tmp_path, {".git/config": b"", ".gitattributes": b"", "a/.cache/x": b"", "a/b": b""})

    found = read_tree(tmp_path)

    assert [file.path for file in found.files] == [".gitattributes", "a/b"]
    assert [out.path for out in found.left_out] == [".git/", "a/.cache/"]


def test_a_link_inside_the_source_is_followed(tmp_path):
    write(tmp_path, {"real/w": b"123"})
    (tmp_path / "w").symlink_to("real/w")
    (tmp_path / "again").symlink_to("real")

    assert paths(tmp_path) == ["again/w", "real/w", "w"]


@pytest.mark.parametrize("target", ["../outside", "../directory", "/etc/passwd", "/"])
def test_a_link_that_leaves_the_source_is_refused(tmp_path, target):
    write(tmp_path, {"outside": b"", "directory/x": b"", "m/a": b""})
    (tmp_path / "m" / "link").symlink_to(target)

    assert refused(tmp_path / "m") == ("E_PATH", "`link` is a link that leaves the source")


@pytest.mark.parametrize("target", [".", "..", "link", "../m/a"])
def test_a_link_that_leads_back_is_refused(tmp_path, target):
    write(tmp_path, {"m/a/x": b""})
    (tmp_path / "m" / "a" / "link").symlink_to(target)

    assert refused(tmp_path / "m")[0] == "E_PATH"


def test_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("nothing")

    assert refused(tmp_path) == (
        "E_PATH",
        "`link` is a link to something that does not exist",
    )


@pytest.mark.parametrize("place", ["models--o--m/blobs", "blobs"])
def test_a_snapshot_of_the_hub_cache_links_to_blobs(tmp_path, place):
    snapshot = tmp_path / "models--o--m" / "snapshots" / "0f"
    write(tmp_path, {f"{place}/abc": b"1234"})
    snapshot.mkdir(parents=True)
    (snapshot / "x.safetensors").symlink_to(tmp_path / place / "abc")

    (file,) = read_tree(snapshot).files

    assert (file.path, file.size) == ("x.safetensors", 4)


def test_a_snapshot_may_not_link_elsewhere(tmp_path):
    snapshot = tmp_path / "models--o--m" / "snapshots" / "0f"
    write(tmp_path, {"models--o--other/blobs/abc": b"1234"})
    snapshot.mkdir(parents=True)
    (snapshot / "x").symlink_to(tmp_path / "models--o--other" / "blobs" / "abc")

    assert refused(snapshot)[0] == "E_PATH"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_weights_file_or_document_must_be_a_regular_file(tmp_path, name, kind):
    if kind == "pipe":
        os.mkfifo(tmp_path / name)
    elif kind == "socket":
        # By its name alone: the address of a socket has at most 107 bytes.
        with contextlib.chdir(tmp_path), socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
    else:
        (tmp_path / name).symlink_to("/dev/zero")

    assert refused(tmp_path) == ("E_SRC_TYPE", f"`{name}` is not a regular file")


def test_a_directory_named_as_weights_is_refused(tmp_path):
    (tmp_path / "model.safetensors").mkdir()

    assert refused(tmp_path)[0] == "E_SRC_TYPE"


def test_another_pipe_is_left_out(tmp_path):
    os.mkfifo(tmp_path / "log")

    (out,) = read_tree(tmp_path).left_out

    assert (out.path, out.reason) == ("log", "not a regular file")


@pytest.mark.parametrize(
    "name",
    [
        b"a\nb",
        b"a\x1b]0;x",
        b"\xff.json",
        b"nul",
        b"COM1.json",
        b"a:b",
        b"a\\b",
        b"ends.",
        "a\u202eb".encode(),
    ],
)
def test_a_name_that_is_not_safe_everywhere_is_refused_and_escaped(tmp_path, name):
    with open(os.path.join(os.fsencode(tmp_path), name), "wb"):
        pass

    code, message = refused(tmp_path)

    assert code == "E_NAME"
    assert message.isprintable()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (b"tf_model:1.h5", "weights in another format"),
        (b"a\x1b[2J.H5", "weights in another format"),
        (b"\xff.h5", "weights in another format"),
        (b"onnx/con", "weights in another format"),
        (b"a:b/x.h5", "weights in another format"),
        (b"optimizer.", "optimizer state"),
        (b"tf_model.h5.index.:.json", "shard index"),
    ],
)
def test_a_name_that_is_not_safe_everywhere_is_no_matter_where_it_is_left_out(
    tmp_path, name, reason
):
    place = os.path.join(os.fsencode(tmp_path), name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb"):
        pass

    tree = read_tree(tmp_path)

    assert tree.files == ()
    assert [out.reason for out in tree.left_out] == [reason]
    assert tree.left_out[0].path.isprintable()


@pytest.mark.parametrize("name", ["model:1.safetensors", "model:1.safetensors.index.json"])
def test_weights_are_not_left_out_for_their_name(tmp_path, name):
    # Which weights a source has depends on all of them.
    write(tmp_path, {name: b"", "model.safetensors": b""})

    assert refused(tmp_path)[0] == "E_NAME"


def test_entries_are_counted_and_limited(tmp_path, monkeypatch):
    monkeypatch.setattr("store.limits.FILES_PER_SOURCE", 5)
    write(tmp_path, {f"{number}": b"" for number in range(5)})
    assert len(paths(tmp_path)) == 5

    write(tmp_path, {"5": b""})
    assert refused(tmp_path) == ("E_LIMIT", "`5` is entry number 6 of the source")


def test_directories_that_link_twice_to_the_next_are_no_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr("store.limits.FILES_PER_SOURCE", 1000)
    for number in range(40):
        directory = tmp_path / f"{number:02}"
        directory.mkdir()
        if number < 39:
            (directory / "a").symlink_to(f"../{number + 1:02}")
            (directory / "b").symlink_to(f"../{number + 1:02}")

    assert refused(tmp_path)[0] == "E_LIMIT"


def test_very_deep_directories_are_refused(tmp_path):
    os.makedirs(tmp_path.joinpath(*["d"] * 600))

    assert refused(tmp_path)[0] == "E_LIMIT"
