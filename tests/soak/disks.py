"""File systems of one's own: a tmpfs, an ext4 image on a loop device, and ballast on them."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

BALLAST = "ballast"
MKFS = ("mkfs.ext4", "-q", "-F", "-m", "0")


@cache
def why_no_mount() -> str | None:
    """Why nothing can be mounted here, or None."""
    if os.geteuid() != 0:
        return "only root can mount"
    with tempfile.TemporaryDirectory() as place:
        done = _try("mount", "-t", "tmpfs", "none", place)
        if not done:
            _try("umount", place)
        return done


@cache
def why_no_loop() -> str | None:
    """Why no image can be mounted here, or None."""
    if why := why_no_mount():
        return why
    if shutil.which("mkfs.ext4", path=_sbin()) is None:
        return "mkfs.ext4 is not installed"
    with tempfile.TemporaryDirectory() as place:
        try:
            with ext4(Path(place), 4 << 20):
                return None
        except subprocess.CalledProcessError as error:
            return f"{error.cmd}: {error.stderr.strip()}"


@contextlib.contextmanager
def tmpfs(place: Path, nbytes: int) -> Iterator[Path]:
    """Mount a tmpfs in the directory `place` while the context lasts."""
    disk = place / "disk"
    disk.mkdir()
    shell("mount", "-t", "tmpfs", "-o", f"size={nbytes}", "none", str(disk))
    try:
        yield disk
    finally:
        shell("umount", str(disk))


@contextlib.contextmanager
def ext4(place: Path, nbytes: int, *options: str) -> Iterator[Path]:
    """Mount a new ext4 image in the directory `place`; `options` are those of mkfs."""
    disk = place / "disk"
    disk.mkdir(exist_ok=True)
    image = place / "image"
    with image.open("wb") as file:
        file.truncate(nbytes)
    shell(*MKFS, *options, str(image))
    mount(image, disk)
    try:
        yield disk
    finally:
        shell("umount", str(disk))


def mount(image: Path, disk: Path) -> None:
    """Mount an image; its journal is committed each second."""
    shell("mount", "-o", "loop,commit=1", str(image), str(disk))


def leave_bytes(disk: Path, nbytes: int) -> None:
    """Fill a file system but for `nbytes`."""
    os.sync()  # what is allocated late counts as free until then
    with (disk / BALLAST).open("wb") as file:
        seen = os.statvfs(disk)
        rest = seen.f_bavail * seen.f_frsize - nbytes
        while rest > 0:
            try:
                os.posix_fallocate(file.fileno(), 0, rest)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                file.truncate(0)
                rest -= seen.f_frsize  # the file system wants a block of it for itself
            else:
                return


def leave_files(disk: Path, count: int) -> None:
    """Take all inodes of a file system but `count`."""
    ballast = disk / BALLAST
    ballast.mkdir()
    made = []
    try:
        while True:
            made.append(ballast / str(len(made)))
            made[-1].touch()
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    for path in made[-1 - count : -1]:
        path.unlink()


def free_all(disk: Path) -> None:
    """Remove the ballast."""
    ballast = disk / BALLAST
    if ballast.is_dir():
        shutil.rmtree(ballast)
    else:
        ballast.unlink(missing_ok=True)


def shell(*argv: str) -> None:
    """Run a program of the system, which must succeed."""
    environment = {**os.environ, "PATH": _sbin()}
    subprocess.run(argv, check=True, capture_output=True, text=True, env=environment)


def _try(*argv: str) -> str | None:
    try:
        shell(*argv)
    except (OSError, subprocess.CalledProcessError) as error:
        return str(getattr(error, "stderr", "") or error).strip()
    return None


def _sbin() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
