"""Mistakes that a change might make, as replacements in the text of the code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bug:
    """One mistake: `old` occurs once in the file and is replaced by `new`.

    Attributes:
        layers: that are known to see it (see seeded_bugs.py).
    """

    name: str
    layers: tuple[str, ...]
    file: str
    old: str
    new: str

    def plant(self, root: Path) -> None:
        """Make the mistake in the copy of the code at `root`.

        Raises:
            ValueError: the code is no longer as it was.
        """
        path = root / f"{self.file}.py"
        text = path.read_text("utf-8")
        if text.count(self.old) != 1:
            message = f"{self.name}: {path} has {text.count(self.old)} x {self.old!r}"
            raise ValueError(message)
        path.write_text(text.replace(self.old, self.new), "utf-8")


def _bug(name: str, layers: str, file: str, old: str, new: str = "") -> Bug:
    return Bug(name, tuple(layers.split()), file, old, new)


def _durability() -> Iterator[Bug]:
    yield _bug(
        "blobs are not synced", "A D", "store/blobs", "self._fs.sync(self._file)", "pass"
    )
    yield _bug("manifests are not synced", "A D", "store/durable", "if sync:", "if False:")
    yield _bug(
        "directories are not synced",
        "D",
        "store/fs",
        "                _full_sync(descriptor)\n        except",
        "                pass\n        except",
    )
    yield _bug(
        "blobs/ is not synced before a manifest is",
        "A",
        "store/writer",
        "        self._fs.sync_directory(self._blobs.layout.blobs)",
        "        pass",
    )
    yield _bug(
        "gc does not sync manifests", "A", "store/gc", "            self._sync_manifests()\n"
    )
    yield _bug(
        "rm syncs nothing",
        "A",
        "store/catalog",
        "        self.fs.sync_directory(self.path(name).parent)",
        "        pass",
    )
    yield _bug(
        "a failed sync is believed",
        "B",
        "store/fs",
        "    os.fsync(descriptor)",
        "    with contextlib.suppress(OSError):\n        os.fsync(descriptor)",
    )
    yield _bug(
        "a failed sync is tried again",
        "B",
        "store/fs",
        "    os.fsync(descriptor)",
        """
    try:
        os.fsync(descriptor)
    except OSError:
        os.fsync(descriptor)
""",
    )
    yield _bug(
        "a manifest is written in place",
        "A B",
        "store/catalog",
        "        self.fs.rename(partial, target)\n",
        """
        source = self.fs.open(partial)
        data = self.fs.read(source, 1 << 20, 0)
        self.fs.close(source)
        if self.fs.status(target) is not None:
            self.fs.unlink(target)
        file = self.fs.create(target)
        self.fs.write(file, data)
        self.fs.sync(file)
        self.fs.close(file)
""",
    )
    yield _bug(
        "a bad blob goes before its good copy comes",
        "A",
        "store/blobs",
        "if seen.kind is Kind.DIRECTORY:",
        "if seen.kind is not None:",
    )


def _locks() -> Iterator[Bug]:
    yield _bug(
        "writers take no lock",
        "I J",
        "store/lock",
        """
        held = self._take_shared(time.monotonic() + _SHARED_WAIT)
        try:
            yield
        finally:
            self.fs.close(held)
""",
        "\n        yield\n",
    )
    yield _bug(
        "gc takes a shared lock",
        "I J",
        "store/lock",
        'self._take("store", exclusive=True',
        'self._take("store", exclusive=False',
    )
    yield _bug(
        "gc ignores pins", "A J", "store/mark", "                named |= self._pins(folder)\n"
    )
    yield _bug(
        "gc takes every writer for dead",
        "A J",
        "store/mark",
        "        if lock is None:\n            return True",
        "        if lock is None:\n            return False",
    )
    yield _bug(
        "gc believes any lock",
        "J",
        "store/lock",
        "        return False\n",
        "        return True\n",
    )
    yield _bug(
        "gc passes over manifests that it cannot read",
        "units",
        "store/mark",
        '_refuse(f"`{shown}` cannot be read: {error}")',
        "continue",
    )
    yield _bug(
        "a writer looks before it has the lock",
        "I",
        "store/writer",
        "        # Pin, then look: the other way round",
        """
        if self._blobs.holds(ref):
            with self._lock.shared():
                self._pin([ref])
                return ref, Installed.REUSED
        # Pin, then look: the other way round""",
    )
    yield _bug(
        "publish does not look at the blobs",
        "units",
        "store/writer",
        "        if gone:\n",
        "        if gone and not gone:\n",
    )


def _trust() -> Iterator[Bug]:
    yield _bug(
        "the name of a blob is believed",
        "A F",
        "store/blobs",
        "            outcome = Installed.RENEWED\n",
        """
            self.fs.unlink(partial)
            return Installed.REUSED
""",
    )
    yield _bug(
        "the memo looks at the size alone",
        "F",
        "store/memo",
        "        return noted == _identity(status)",
        "        return noted is not None and noted[1] == status.size",
    )
    yield _bug(
        "equal tensors have equal blobs",
        "units",
        "importer/reuse",
        "sha256(revision + form +",
        "sha256(revision +",
    )
    yield _bug(
        "the length of what was written is not compared",
        "B units",
        "store/durable",
        "    if actual != nbytes:",
        "    if actual < 0:",
    )
    yield _bug(
        "a short write is taken for a whole one",
        "E",
        "store/fs",
        "            while view:\n                count",
        "            if view:\n                count",
    )
    yield _bug(
        "links are followed",
        "F units",
        "store/fs",
        "seen = os.lstat(path)",
        "seen = os.stat(path)",
    )
    yield _bug(
        "verify hashes nothing", "F", "store/verify", "if not self.quick", "if self is None"
    )
    yield _bug(
        "verify names one model",
        "F",
        "store/verify",
        "        names = tuple(sorted({str(use.name) for use in uses}))\n        seen",
        "        names = tuple(sorted({str(use.name) for use in uses}))[:1]\n        seen",
    )


def _failure() -> Iterator[Bug]:
    yield _bug(
        "what failed is not tidied up",
        "B E",
        "store/writer",
        "            self._remove_folder()\n        if",
        "            pass\n        if",
    )
    yield _bug(
        "a full disk is any failure",
        "E",
        "store/errors",
        "    return error.errno in _NO_SPACE",
        "    return error.errno in ()",
    )
    yield _bug(
        "inodes are not counted before an import",
        "units",
        "importer/space",
        "return _Needed(nbytes + _DOCUMENTS, count + _DOCUMENT_FILES)",
        "return _Needed(nbytes + _DOCUMENTS, 0)",
    )
    yield _bug(
        "readers write",
        "G",
        "store/store",
        "        self._check_version()\n\n",
        """
        self._check_version()
        if self.exists:
            self._write_version()

""",
    )


BUGS = (*_durability(), *_locks(), *_trust(), *_failure())
