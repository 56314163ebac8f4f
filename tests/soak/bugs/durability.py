"""Mistakes about what a crash leaves, and what a failure does."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.bugs.bug import Bug, bug


def _syncs() -> Iterator[Bug]:
    yield bug("blobs are not synced", "A D", "store/writer", "self.fs.sync(file)", "pass")
    yield bug("manifests are not synced", "A D", "store/durable", "if sync:", "if False:")
    yield bug(
        "directories are not synced",
        "D",
        "store/fs",
        "                _full_sync(descriptor)\n        except",
        "                pass\n        except",
    )
    yield bug(
        "blobs/ is not synced before a manifest is",
        "A",
        "store/writer",
        "        self.fs.sync_directory(self._blobs.layout.blobs)",
        "        pass",
    )
    yield bug(
        "gc does not sync manifests", "A", "store/gc", "            self._sync_manifests()\n"
    )
    yield bug(
        "rm syncs nothing",
        "A",
        "store/catalog",
        "        self.fs.sync_directory(self.path(name).parent)",
        "        pass",
    )
    yield bug(
        "a failed sync is believed",
        "B",
        "store/fs",
        "    os.fsync(descriptor)",
        "    with contextlib.suppress(OSError):\n        os.fsync(descriptor)",
    )
    yield bug(
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
    yield bug(
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
    yield bug(
        "a bad blob goes before its good copy comes",
        "A",
        "store/blobs",
        "if seen.kind is Kind.DIRECTORY:",
        "if seen.kind is not None:",
    )
    yield bug(
        "a manifest has its name before its blobs have theirs for good",
        "A",
        "store/writer",
        """
        self.sync()
        with self._lock.shared():
            if origin is not None:
                # Before the manifest, and under one lock, or gc would find nothing that needs
                # it. A publication that fails leaves a file that gc removes.
                self._origins.put(digest, origin, partial_origin)
            return Publication(digest, self._replace(name, partial, manifest, digest))
""",
        """
        with self._lock.shared():
            if origin is not None:
                self._origins.put(digest, origin, partial_origin)
            done = Publication(digest, self._replace(name, partial, manifest, digest))
        self.sync()
        return done
""",
    )


def _failures() -> Iterator[Bug]:
    yield bug(
        "what failed is not tidied up",
        "B E",
        "store/writer",
        "                remove_folder(self.fs, self.folder)\n        if",
        "                pass\n        if",
    )
    yield bug(
        "a full disk is any failure",
        "E",
        "store/errors",
        "    return error.errno in _NO_SPACE",
        "    return error.errno in ()",
    )
    yield bug(
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


DURABILITY = (
    *_syncs(),
    *_failures(),
)
