"""Mistakes about who may be at work: locks, pins, and what gc takes for nobody's."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.bugs.bug import Bug, bug


def _writers() -> Iterator[Bug]:
    yield bug(
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
    yield bug(
        "a writer looks before it has the lock",
        "I",
        "store/writer",
        "        # Pin, then look: the other way round",
        """
        if self._blobs.holds(ref):
            with self._lock.shared():
                self._pin([ref])
                return CommitOutcome.REUSED
        # Pin, then look: the other way round""",
    )
    yield bug(
        "publish does not look at the blobs",
        "store",
        "store/writer",
        "        if gone:\n",
        "        if gone and not gone:\n",
    )


def _gc() -> Iterator[Bug]:
    yield bug(
        "gc takes a shared lock",
        "I J",
        "store/lock",
        'self._take("store", exclusive=True',
        'self._take("store", exclusive=False',
    )
    yield bug(
        "gc ignores pins", "A J", "store/mark", "                named |= self._pins(folder)\n"
    )
    yield bug(
        "gc takes every writer for dead",
        "A J",
        "store/mark",
        "        if lock is None:\n            return True",
        "        if lock is None:\n            return False",
    )
    yield bug(
        "gc believes any lock",
        "J",
        "store/lock",
        "        return False\n",
        "        return True\n",
    )
    yield bug(
        "gc passes over manifests that it cannot read",
        "store",
        "store/mark",
        '_refuse(f"`{shown}` cannot be read: {error}")',
        "continue",
    )
    yield bug(
        "gc passes over manifests of a schema that it does not know",
        "store",
        "store/mark",
        "if not manifest.is_supported:",
        "if False:",
    )
    yield bug(
        "gc passes over what is no manifest",
        "store",
        "store/mark",
        '_refuse(f"`{shown}` is not a manifest: {entry.why}", hint=_STRAY)',
        "continue",
    )
    yield bug(
        "gc takes unreadable pins for none",
        "A",
        "store/mark",
        '        except FileNotFoundError:\n            return ""',
        '        except OSError:\n            return ""',
    )
    yield bug(
        "gc takes the writers of other hosts for dead",
        "store",
        "store/mark",
        "return identity.host not in self.forget",
        "return False",
    )
    yield bug(
        "gc takes the writers before a reboot for living",
        "store",
        "store/mark",
        "        if identity.boot != boot:\n            return False",
        "        if identity.boot != boot:\n            return True",
    )
    yield bug(
        "gc forgets that a manifest names a configuration",
        "A store",
        "store/mark",
        "for ref in manifest.blobs)",
        "for ref in manifest.layers)",
    )


LOCKS = (
    *_writers(),
    *_gc(),
)
