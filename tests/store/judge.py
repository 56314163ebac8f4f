"""What must hold in a store on a simulated disk: knows its layout and none of its code.

`tests/check_store.py` is the same for a store on a real disk.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

ROOT = Path("/home/user/models/store")
BLOBS, MANIFESTS = f"{ROOT}/blobs/", f"{ROOT}/manifests/"
Tree = Mapping[str, bytes | None]
"""Paths with their content, None for directories."""


def violations(tree: Tree, tolerated: Tree = MappingProxyType({})) -> list[str]:
    """Say what must never be in a store, at no moment; but for blobs that were bad before."""
    blobs = _below(tree, BLOBS)
    problems = [
        f"blobs/{name} is bad: {content!r}"
        for name, content in blobs.items()
        if not _is_good(name, content) and content != tolerated.get(name, b"no blob")
    ]
    for path, content in _below(tree, MANIFESTS).items():
        if content is None:
            continue
        if path.count("/") != 3:
            problems.append(f"manifests/{path} is no tag")
            continue
        problems += _unbacked(f"manifests/{path}", content, blobs, tolerated)
    for tag, digest, content in former(tree):
        if digest != f"sha256-{hashlib.sha256(content).hexdigest()}":
            problems.append(f"history/{tag}/{digest} is {content!r}")
    return problems


def _unbacked(place: str, content: bytes, blobs: Tree, tolerated: Tree) -> list[str]:
    try:
        document = json.loads(content)
        layers = [document["config"], *document["layers"]]
    except (ValueError, KeyError, TypeError):
        return [f"{place} is torn: {content!r}"]
    problems = []
    for layer in layers:
        name = layer["digest"].replace(":", "-")
        found = blobs.get(name)
        if (found is None or len(found) != layer["size"]) and found != tolerated.get(
            name, b"no blob"
        ):
            problems.append(f"{place} names {name}, which is {found!r}")
    return problems


def hollow(tree: Tree, bad: Tree) -> list[str]:
    """Say which blobs history lacks, but for those that were bad before."""
    blobs = _below(tree, BLOBS)
    return [
        f"history/{tag}/{digest} names {name}, which is gone"
        for tag, digest, content in former(tree)
        for name in _named(content)
        if name not in bad and name not in blobs
    ]


def forgotten(tree: Tree, old: Mapping[str, bytes]) -> list[str]:
    """Say which manifests a name had that neither it nor its history has now."""
    now = tags(tree)
    kept = {(tag, content) for tag, _, content in former(tree)}
    return [
        f"{tag} no longer has {content!r}, nor has its history"
        for tag, content in old.items()
        if now.get(tag) != content and (tag, content) not in kept
    ]


def litter(tree: Tree) -> list[str]:
    """Say what must not be left after gc."""
    wanted = set[str]().union(*map(_named, tags(tree).values()))
    problems = [f"blobs/{name} is left" for name in _below(tree, BLOBS) if name not in wanted]
    for directory in ("tmp", "quarantine", "history"):
        left = _below(tree, f"{ROOT}/{directory}/")
        problems += [f"{directory}/{name} is left" for name in left]
    needed = {f"sha256-{hashlib.sha256(data).hexdigest()}" for data in tags(tree).values()}
    problems += [f"origins/{name} is left" for name in origins(tree) if name not in needed]
    return problems


def origins(tree: Tree) -> dict[str, bytes]:
    """Give the content of every file that says where a model was made from."""
    found = _below(tree, f"{ROOT}/origins/")
    return {name: data for name, data in found.items() if data is not None}


def former(tree: Tree) -> list[tuple[str, str, bytes]]:
    """Give what each tag was before: the tag, the file's name and its content."""
    found = _below(tree, f"{ROOT}/history/")
    return [
        (*path.rsplit("/", 1), data)  # type: ignore[misc]
        for path, data in found.items()
        if data is not None
    ]


def tags(tree: Tree) -> dict[str, bytes]:
    """Give the content of every manifest."""
    return {path: data for path, data in _below(tree, MANIFESTS).items() if data is not None}


def bad_blobs(tree: Tree) -> Tree:
    """Give the blobs that a scenario begins with damaged, None for those that are no file."""
    blobs = _below(tree, BLOBS)
    named = {
        name: blobs.get(name) for manifest in tags(tree).values() for name in _named(manifest)
    }
    return {name: data for name, data in (blobs | named).items() if not _is_good(name, data)}


def _named(manifest: bytes) -> set[str]:
    found = re.findall(rb"sha256:[0-9a-f]{64}", manifest)
    return {digest.decode().replace(":", "-") for digest in found}


def _is_good(name: str, content: bytes | None) -> bool:
    if content is None or not re.fullmatch(r"sha256-[0-9a-f]{64}", name):
        return False
    return hashlib.sha256(content).hexdigest() == name.removeprefix("sha256-")


def _below(tree: Tree, prefix: str) -> Tree:
    return {
        path.removeprefix(prefix): data
        for path, data in tree.items()
        if path.startswith(prefix)
    }
