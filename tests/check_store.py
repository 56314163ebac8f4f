"""An independent judge of a store: what must hold in it, checked without a line of ingot.

    python tests/check_store.py [--after-gc] STORE

The store must be at rest: nothing may write to it while it is judged.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TENSOR = "application/vnd.ollama.image.tensor"
DEFAULT_NAME = ("registry.ollama.ai", "library")
BLOB_NAME = re.compile(r"sha256-[0-9a-f]{64}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16}
BITS |= {"U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64}
BITS |= {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
BITS |= {"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8}
CHUNK_BYTES = 1 << 20


def check_store(
    root: str | os.PathLike[str],
    *,
    reported: Mapping[str, str] | None = None,
    after_gc: bool = False,
) -> list[str]:
    """Return every violation found in the store at `root`, as sentences; none is good.

    Args:
        root: the store.
        reported: short name (`x`, `x:tag`) -> digest of its manifest's bytes, for each name
            that was reported as created and was neither replaced nor removed since.
        after_gc: a gc just ended and nothing ran since, so there must be no litter.
    """
    store = Path(root)
    violations = []
    referenced: set[str] = set()
    for path, problem in _manifest_files(store / "manifests"):
        if problem:
            violations.append(problem)
            continue
        try:
            document = parse_json(path.read_bytes())
            layers = [(layer["digest"], layer) for layer in _layers(document)]
        except (ValueError, KeyError, TypeError, OSError) as error:
            violations.append(f"manifest {_short(store, path)} is not readable: {error!r}")
            continue
        for digest, layer in layers:
            referenced.add(digest.replace(":", "-"))
            violations += (
                f"manifest {_short(store, path)}: {problem}"
                for problem in _check_layer(store, digest, layer)
            )
    violations += _check_blobs(store / "blobs")
    violations += _check_reported(store, reported or {})
    violations += _check_origins(store, after_gc=after_gc)
    violations += _check_history(store)
    if after_gc:
        violations += _check_litter(store, referenced)
    return violations


def snapshot(root: str | os.PathLike[str]) -> dict[str, tuple[object, ...]]:
    """Return relative path -> (type, mode, size, sha256, mtime_ns) of all under `root`.

    Two equal snapshots: nothing was written between them. Locks and the memo do not count.
    Directories have size 0 and no digest; a symlink has the digest of its target's name.
    """
    store = Path(root)
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(store.rglob("*")):
        relative = path.relative_to(store)
        if relative.parts[0] == "locks" or relative.parts[0].startswith("memo.sqlite"):
            continue
        status = path.lstat()
        kind, size, digest = stat.S_IFMT(status.st_mode), status.st_size, ""
        if stat.S_ISREG(kind):
            digest = file_sha256(path)
        elif stat.S_ISLNK(kind):
            digest = hashlib.sha256(os.fsencode(os.readlink(path))).hexdigest()
        elif stat.S_ISDIR(kind):
            size = 0  # a file system may let a directory grow without a change that we see
        mode = stat.S_IMODE(status.st_mode)
        found[relative.as_posix()] = (kind, mode, size, digest, status.st_mtime_ns)
    return found


def manifest_path(root: str | os.PathLike[str], name: str) -> Path:
    """Return where the manifest of `[[host/]namespace/]model[:tag]` belongs."""
    *prefix, last = name.split("/")
    model, _, tag = last.partition(":")
    owner = (*DEFAULT_NAME[: 2 - len(prefix)], *prefix)
    return Path(root, "manifests", *owner, model, tag or "latest")


def manifest_digest(root: str | os.PathLike[str], name: str) -> str | None:
    """Return `sha256:<hex>` of the bytes of the manifest of `name`, None if there is none."""
    path = manifest_path(root, name)
    return f"sha256:{file_sha256(path)}" if path.exists() else None


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            sha256.update(chunk)
    return sha256.hexdigest()


def parse_json(raw: bytes) -> Any:
    """Parse JSON; a duplicate key is a `ValueError`, which `json` would pass over."""
    return json.loads(raw, object_pairs_hook=_no_duplicates)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError(f"duplicate key among {sorted(key for key, _ in pairs)}")
    return result


def _short(store: Path, path: Path) -> str:
    return path.relative_to(store).as_posix()


def _manifest_files(root: Path, at: int = 4) -> Iterator[tuple[Path, str | None]]:
    """Yield each file under a directory, with what is wrong about its place, if anything."""
    for path in sorted(root.rglob("*")):
        depth = len(path.relative_to(root).parts)
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode) and depth < at:
            continue
        if stat.S_ISREG(mode) and depth == at:
            yield path, None
        else:
            kind = stat.filemode(mode)
            yield path, f"{_short(root.parent, path)} ({kind}) is at depth {depth}"


def _layers(document: Any) -> list[dict[str, Any]]:
    """Return config and layers of a manifest; a ValueError, TypeError or KeyError if odd."""
    layers = [document["config"], *document["layers"]]
    for layer in layers:
        if not DIGEST.fullmatch(layer["digest"]) or type(layer["size"]) is not int:
            raise ValueError(f"a layer has digest {layer['digest']!r}, size {layer['size']!r}")
    return layers


def _check_layer(store: Path, digest: str, layer: dict[str, Any]) -> list[str]:
    """Judge one layer: its blob is there, has its size, and is the tensor that it says."""
    blob = store / "blobs" / digest.replace(":", "-")
    if not blob.is_file():
        return [f"blob {digest} is missing"]
    if (nbytes := blob.stat().st_size) != layer["size"]:
        return [f"blob {digest} has {nbytes} bytes, expected {layer['size']}"]
    if layer.get("mediaType") != TENSOR:
        return []
    try:
        check_tensor_blob(blob, layer["name"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"tensor blob {digest} is malformed: {error!r}"]
    return []


def check_tensor_blob(path: Path, name: str) -> dict[str, Any]:
    """Return the header's entries of a well-formed tensor blob of the layer `name`.

    Keys are the layer's name, or begin with it; a component may be missing in front.

    Raises:
        ValueError: it is not one. KeyError, TypeError, AttributeError: so too.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        data_bytes = path.stat().st_size - 8 - length
        if length % 8 or data_bytes < 0:
            raise ValueError(f"header of {length} bytes, {data_bytes} left for data")
        header = parse_json(file.read(length))
    if list(header) != sorted(header) or not _has_sorted_metadata(header):
        raise ValueError(f"header keys {list(header)} are not sorted")
    entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
    if not any(_are_named(entries, own) for own in _own_names(name)):
        raise ValueError(f"layer name {name!r} is no prefix of {list(entries)}")
    end = 0
    for entry in sorted(entries.values(), key=lambda entry: entry["data_offsets"]):
        begin, begin_next = entry["data_offsets"]
        nbits = math.prod(entry["shape"]) * BITS[entry["dtype"]]
        if begin != end or nbits != (begin_next - begin) * 8:
            raise ValueError(f"{entry} does not follow offset {end} or has another size")
        end = begin_next
    if end != data_bytes:
        raise ValueError(f"offsets cover {end} of {data_bytes} bytes")
    return entries


def _own_names(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _are_named(keys: Mapping[str, Any], own: str) -> bool:
    return bool(keys) and all(key == own or key.startswith(f"{own}.") for key in keys)


def _has_sorted_metadata(header: dict[str, Any]) -> bool:
    metadata = header.get("__metadata__", {})
    return list(metadata) == sorted(metadata) and all(
        isinstance(value, str) for value in metadata.values()
    )


def _check_blobs(blobs: Path) -> Iterator[str]:
    for path in sorted(blobs.iterdir()) if blobs.is_dir() else ():
        if not BLOB_NAME.fullmatch(path.name):
            yield f"blobs/{path.name} does not belong there"
        elif not stat.S_ISREG(path.lstat().st_mode):
            yield f"blobs/{path.name} is not a regular file"
        elif (sha256 := file_sha256(path)) != path.name.removeprefix("sha256-"):
            yield f"blobs/{path.name} hashes to {sha256}"


def _check_reported(store: Path, reported: Mapping[str, str]) -> Iterator[str]:
    for name, digest in reported.items():
        found = manifest_digest(store, name)
        if found != digest:
            yield f"{name} was reported as {digest}, found {found}"


def _check_origins(store: Path, *, after_gc: bool) -> Iterator[str]:
    needed = {
        f"sha256-{file_sha256(path)}": path
        for path, problem in _manifest_files(store / "manifests")
        if not problem
    }
    for path in sorted((store / "origins").glob("*")):
        if stat.S_IMODE(path.lstat().st_mode) & 0o077:
            yield f"{_short(store, path)} can be read by others"
        place, end, config = path.read_bytes().partition(b"\0")
        if bool(end) != bool(config):
            yield f"{_short(store, path)} ends before its configuration"
        if config and path.name in needed:
            digest = f"sha256:{hashlib.sha256(config).hexdigest()}".encode()
            if digest not in needed[path.name].read_bytes():
                yield f"{_short(store, path)} has another configuration than its model"
        if not os.path.isabs(place) and not place.startswith(b"oci://") and (place or not end):
            yield f"{_short(store, path)} holds neither a path nor an address"
        if after_gc and path.name not in needed:
            yield f"{_short(store, path)} was left by gc: no manifest needs it"


def _check_history(store: Path) -> Iterator[str]:
    for path, problem in _manifest_files(store / "history", at=5):
        if problem or path.name != f"sha256-{file_sha256(path)}":
            yield f"{_short(store, path)} is not what a name stood for"


def _check_litter(store: Path, referenced: set[str]) -> Iterator[str]:
    for name in ("tmp", "quarantine", "history"):
        directory = store / name
        for path in sorted(directory.rglob("*")):
            yield f"{_short(store, path)} was left by gc"
    blobs = {path.name for path in (store / "blobs").glob("*")}
    for name in sorted(blobs - referenced):
        yield f"blobs/{name} was left by gc: no manifest names it"


def main() -> int:
    """Print the violations of a store; 1 if there are any."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--after-gc", action="store_true", help="gc just ended: no litter")
    options = parser.parse_args()
    violations = check_store(options.store, after_gc=options.after_gc)
    print("\n".join(violations) or "no violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
