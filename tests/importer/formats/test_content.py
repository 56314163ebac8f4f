"""What a file is said to be, by its first bytes."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zipfile

import numpy as np
import pytest

from importer.formats.content import content_of
from tests.importer.builders import safetensors
from tests.importer.formats.gguf.builders import GOOD


def zipped():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("x", "y")
    return data.getvalue()


def tarred():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"))
    return data.getvalue()


def array():
    data = io.BytesIO()
    np.save(data, np.zeros(3))
    return data.getvalue()


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
FILES = {
    "empty": (b"", "an empty file"),
    "safetensors": (safetensors({"w": ("F32", (1,))}), "a safetensors file"),
    "GGUF": (GOOD, "a GGUF file"),
    "GGML": (b"tjgg\3\0\0\0", "a GGML file from before GGUF"),
    "a Git LFS pointer": (POINTER, "a Git LFS pointer, not the file that it stands for"),
    "HTML": (b"\n<!DOCTYPE html>\n<html>", "an HTML page"),
    "HTML without a type": (b"<HTML><head>", "an HTML page"),
    "HTML with a byte order mark": (b"\xef\xbb\xbf<!doctype html>", "an HTML page"),
    "XML": (b'<?xml version="1.0"?><Error>', "an XML document"),
    "JSON": (json.dumps({"error": "Entry not found"}).encode(), "JSON"),
    "words": (b"Entry not found", "a text file"),
    "zip": (zipped(), "a zip archive"),
    "tar": (tarred(), "a tar archive"),
    "gzip": (gzip.compress(b"x"), "a gzip file"),
    "pickle": (pickle.dumps([1], 4), "a pickle"),
    "NumPy": (array(), "a NumPy array"),
    "TensorFlow Lite": (b"\x1c\0\0\0TFL3" + bytes(9), "a TensorFlow Lite model"),
    "a program": (b"\x7fELF" + bytes(9), "a program"),
    "a letter cut in two": ("grü".encode()[:-1] + b"", "a text file"),
    "Latin-1": ("grün".encode("latin-1"), None),
    "nothing known": (bytes(range(128)), None),
}


@pytest.mark.parametrize(("data", "what"), FILES.values(), ids=FILES)
def test_a_file_is_said_to_be_what_it_is(data, what):
    assert content_of(data[:512]) == what
