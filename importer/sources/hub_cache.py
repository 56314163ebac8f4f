"""The Hugging Face cache: its layout, as far as that is documented.

models--org--name/refs/main                a file with a commit
models--org--name/snapshots/<commit>/…     links to
models--org--name/blobs/<SHA-256 or Git's hash>   which since 2.0 may be links to
blobs/<2 digits>/<Xet's hash>              which all repositories share
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from store.errors import InputError
from store.text import printable

_REPOSITORY: Final = "models--.+"
_COMMIT: Final = "[0-9a-f]{40}"
_SHA256: Final = "[0-9a-f]{64}"
_COMMIT_BYTES: Final = 64


def is_commit(revision: str) -> bool:
    """Return whether a revision is a full commit hash, which never moves."""
    return re.fullmatch(_COMMIT, revision) is not None


def repository_folder(cache: Path, repository: str) -> Path:
    """Return the folder of the cache for a model repository `org/name`."""
    return cache / f"models--{repository.replace('/', '--')}"


def enter_repository(source: Path) -> Path:
    """Return the snapshot that a `models--org--name` directory stands for, else `source`.

    Raises:
        InputError: it has no snapshot, or several and no `refs/main` that names one.
    """
    snapshots = source / "snapshots"
    if not snapshots.is_dir() or not re.fullmatch(_REPOSITORY, source.resolve().name):
        return source
    there = sorted(entry.name for entry in snapshots.iterdir() if entry.is_dir())
    main = read_ref(source, "main")
    if main is None and len(there) == 1:
        return snapshots / there[0]
    if main in there:
        return snapshots / main
    names = ", ".join(f"`snapshots/{printable(name)}`" for name in there[:10]) or "no snapshot"
    said = f"`refs/main` names `{main}`" if main is not None else "there is no `refs/main`"
    raise InputError(
        f"`{printable(str(source))}`: {said}, and there is {names}",
        code="E_SRC_AMBIGUOUS",
        hint="Name the directory of a snapshot, or import `hf:org/name@revision`",
    )


def repository_of(snapshot: Path) -> tuple[str, str] | None:
    """Return the repository `org/name` and the commit of a snapshot directory, if it is one."""
    folder = snapshot.parent.parent.name
    if snapshot.parent.name != "snapshots" or not is_commit(snapshot.name):
        return None
    # No name on the Hub has two dashes.
    organization, dashes, name = folder.removeprefix("models--").partition("--")
    is_named = folder.startswith("models--") and dashes and "--" not in name
    return (f"{organization}/{name}", snapshot.name) if is_named else None


def read_ref(folder: Path, revision: str) -> str | None:
    """Return the commit of a branch or tag when it was last fetched, if that is known."""
    try:
        with (folder / "refs" / revision).open("rb") as file:
            commit = file.read(_COMMIT_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return commit if is_commit(commit) else None


def write_ref(folder: Path, revision: str, commit: str) -> None:
    """Write down which commit a branch or tag is now."""
    if is_commit(revision) or read_ref(folder, revision) == commit:
        return
    target = folder / "refs" / revision
    target.parent.mkdir(parents=True, exist_ok=True)
    import tempfile  # noqa: PLC0415 - 1.3 ms that only downloads need

    with tempfile.NamedTemporaryFile(
        "w", dir=target.parent, suffix=".tmp", delete=False
    ) as new:
        new.write(commit)
    os.chmod(new.name, 0o644)
    os.replace(new.name, target)


def link(blob: Path, pointer: Path) -> None:
    """Make a file of a snapshot a link to its blob, as the cache has it.

    Raises:
        OSError: the file system has no links.
    """
    target = os.path.relpath(blob, pointer.parent)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.symlink(target, pointer)
    except FileExistsError:
        if pointer.is_symlink() and os.readlink(pointer) == target:
            return
        pointer.unlink()
        os.symlink(target, pointer)


def declared_sha256(file: Path) -> str | None:
    """Return the SHA-256 that the Hub declared for a file of a snapshot, if it did.

    It is the name of the blob that the file links to.
    """
    try:
        name = os.path.basename(os.readlink(file))
    except OSError:
        return None
    return name if re.fullmatch(_SHA256, name) else None


def places_of(root: Path) -> tuple[Path, ...]:
    """Return where links of a source may lead: into it, and from a snapshot to its blobs."""
    if root.parent.name == "snapshots" and "--" in root.parent.parent.name:
        folder = root.parent.parent
        return (root, folder / "blobs", folder.parent / "blobs")
    return (root,)
