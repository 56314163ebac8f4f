"""Where `strace` can break a command, and how: calls, the faults that each can have."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CHANGING = ("openat", "write", "pwrite64", "fsync", "fdatasync", "rename", "link", "linkat")
CHANGING += ("mkdir", "unlink", "rmdir", "fchmod", "ftruncate", "flock", "fallocate")
CHANGING += ("sync_file_range",)
LOOKING = ("newfstatat", "fstat", "statfs", "statx", "getdents64", "read", "pread64", "preadv")
CALLS = (*CHANGING, *LOOKING)

ERRORS = {
    "openat": ("EIO", "EMFILE", "EACCES", "EINTR"),
    "write": ("EIO", "ENOSPC", "EDQUOT", "EINTR"),
    "pwrite64": ("EIO", "ENOSPC", "EINTR"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "fdatasync": ("EIO",),
    "rename": ("EIO", "ENOSPC", "EACCES", "EROFS"),
    "link": ("EIO", "ENOSPC", "EACCES"),
    "linkat": ("EIO", "ENOSPC", "EACCES", "EPERM"),
    "mkdir": ("EIO", "ENOSPC", "EACCES", "EROFS"),
    "unlink": ("EIO", "EACCES", "EROFS"),
    "rmdir": ("EIO", "EACCES"),
    "fchmod": ("EIO", "EROFS", "EPERM"),
    "ftruncate": ("EIO",),
    "flock": ("EIO", "EINTR", "ENOLCK"),
    "fallocate": ("EIO", "ENOSPC", "EOPNOTSUPP", "EINTR"),
    "sync_file_range": ("EIO", "ENOSPC"),
    "newfstatat": ("EIO", "EACCES"),
    "fstat": ("EIO",),
    "statfs": ("EIO",),
    "statx": ("EIO", "EACCES"),
    "getdents64": ("EIO",),
    "read": ("EIO", "EINTR"),
    "pread64": ("EIO", "EINTR"),
    "preadv": ("EIO", "EINTR"),
}
CREATING = ("ENOSPC", "EROFS")
# Injected numbers are returned without the call: a device that lies. At the end of a file its
# length tells; in the middle (pwrite64) nobody would know without reading all of it back.
LIES = {"write": "retval=1", "pread64": "retval=0", "preadv": "retval=0"}
LASTING = {
    "openat": "EIO",
    "write": "ENOSPC",
    "pwrite64": "ENOSPC",
    "fsync": "EIO",
    "rename": "EROFS",
    "unlink": "EIO",
}

_LINE = re.compile(r"(?P<thread>\d+) +(?P<call>\w+)\((?P<words>.*)")
_PATH = re.compile(r'<(/[^<>"]*)>|"(/[^"]*)"')


@dataclass(frozen=True, slots=True)
class Point:
    """One call of a command.

    Attributes:
        number: which of the calls of its thread on this path, from 1.
        creates: it may make a new file.
    """

    call: str
    path: str
    number: int
    creates: bool = False

    def inject(self, fault: str, log: Path) -> tuple[str, ...]:
        """The options of strace that put a fault on this call; a `+` is "from now on"."""
        fault, lasting, _ = fault.partition("+")
        when = f"{self.number}{lasting}"
        inject = f"inject={self.call}:{fault}:when={when}"
        return ("-o", str(log), "-y", "-P", self.path, "-e", f"trace={self.call}", "-e", inject)

    def was_met(self, log: Path, fault: str) -> bool:
        """Whether strace broke any call."""
        return ("killed by SIGKILL" if "KILL" in fault else "(INJECTED)") in log.read_text()

    def shown(self, root: Path) -> str:
        """Say which call this is."""
        return f"{self.call} {self.number} of {self.path.removeprefix(str(root))}"


def traced(log: Path) -> tuple[str, ...]:
    """The options of strace that log all calls of interest."""
    return ("-o", str(log), "-y", "-s", "0", "-e", f"trace={','.join(CALLS)}")


def points_in(log: Path, roots: tuple[Path, ...]) -> list[Point]:
    """Read the calls on what is below `roots` from the log of a rehearsal."""
    points: dict[Point, None] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    inside = tuple(f"{root}/" for root in roots)
    for line in log.read_text(errors="surrogateescape").splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        thread, call, words = match.groups()
        # Of a rename the first path, as any call matches by any of its paths.
        paths = [first or second for first, second in _PATH.findall(words)]
        for path in [path for path in paths if f"{path}/".startswith(inside)][:1]:
            counts[thread, call, path] += 1
            number = counts[thread, call, path]
            points[Point(call, path, number, "O_CREAT" in words)] = None
    return list(points)


def faults_of(point: Point) -> list[str]:
    """The faults that this call can have."""
    faults = []
    if point.call in CHANGING:
        faults += ["error=EINTR:signal=KILL", "signal=KILL"]
    faults += (f"error={error}" for error in ERRORS[point.call])
    if point.creates:
        faults += (f"error={error}" for error in CREATING)
    if point.call in LIES:
        faults.append(LIES[point.call])
    if point.call in LASTING:
        faults.append(f"error={LASTING[point.call]}+")
    return faults
