"""Mistakes about repair: what is taken away, and what takes its place."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.bugs.bug import Bug, bug


def _repairs() -> Iterator[Bug]:
    yield bug(
        "a quarantine takes no lock",
        "store",
        "store/quarantine",
        """
    with store.lock.exclusive(wait):
        store.lock.check_effective("quarantine")
""",
        "\n    if bad:\n",
    )
    yield bug(
        "a quarantine does not look again",
        "store",
        "store/quarantine",
        "if store.blobs.status(suspect.digest) == suspect.seen:",
        "if store.blobs.status(suspect.digest):",
    )
    yield bug(
        "a quarantine believes any lock",
        "store",
        "store/quarantine",
        '        store.lock.check_effective("quarantine")\n',
    )
    yield bug(
        "a quarantine is not synced",
        "A",
        "store/quarantine",
        "        store.fs.sync_directory(directory)",
        "        pass",
    )
    yield bug(
        "a blob that cannot be read is quarantined",
        "store importer",
        "store/quarantine",
        """
            raise
        return Suspect(digest, seen, is_bad=False)
""",
        """
            raise
        return Suspect(digest, seen, is_bad=True)
""",
    )
    yield bug(
        "a repair takes what has another digest",
        "importer",
        "store/writer",
        "if self._wanted is not None and ref not in self._wanted:",
        "if self._wanted is not None and not ref:",
    )
    yield bug(
        "a repair keeps nothing of what was bad",
        "importer",
        "store/writer",
        "is_bad = self._wanted is not None",
        "is_bad = self._wanted is None and self._wanted is not None",
    )
    yield bug(
        "a repair believes the notes of earlier imports",
        "importer",
        "importer/verification/rebuild",
        "Reuse(self._store, attempt.plan, trusts=False)",
        "Reuse(self._store, attempt.plan, trusts=True)",
    )
    yield bug(
        "a repair believes that it knows the bad file",
        "importer",
        "importer/verification/rebuild",
        "            self._store.memo.forget(ref.digest)",
        "            pass",
    )
    yield bug(
        "a repair does not sync the names",
        "importer",
        "importer/verification/rebuild",
        "            writer.sync()\n",
    )
    yield bug(
        "a repair says that what differs is repaired",
        "importer",
        "importer/verification/rebuild",
        "        if done.installed is CommitOutcome.REFUSED:",
        "        if done.installed is None:",
    )
    yield bug(
        "a repair ends at a file of the source that cannot be read",
        "importer",
        "importer/verification/rebuild",
        """
            if not is_of_the_source(self._store, error):
                raise
            self._write_each(attempt, todo, writer)
""",
        "\n            raise\n",
    )
    yield bug(
        "a repair takes a store that fails for a source that fails",
        "importer",
        "importer/verification/blame",
        "        return bool(error.filename) and not inside and not is_no_space(error)",
        "        return bool(error.filename)",
    )
    yield bug(
        "a repair tries one model of a blob",
        "importer",
        "importer/verification/rebuild",
        "            for model in models:\n",
        "            for model in models[:1]:\n",
    )
    yield bug(
        "a repair believes what was found before",
        "importer",
        "importer/verification/repair",
        "return {suspect.digest: suspect for suspect in looked if suspect is not None}",
        "return {s.digest: s or Suspect(d, None, is_bad=True) for d, s in zip(order, looked)}",
    )
    yield bug(
        "a repair does not say which models are lost",
        "importer",
        "importer/verification/repair",
        "            for name in sorted(affected)",
        "            for name in ()",
    )
    yield bug(
        "a repair does not tell what is left",
        "importer",
        "importer/verification/repair",
        "    return (*again, *(f for f in rest if (f.problem, f.subject) not in seen))",
        "    return again",
    )
    yield bug(
        "a lock that is not free hides what was healed",
        "importer",
        "importer/verification/repair",
        "except (BusyError, UnsupportedError) as error:",
        "except UnsupportedError as error:",
    )
    yield bug(
        "a comparison ends at a blob that cannot be read",
        "importer",
        "importer/verification/compare",
        "        if not inside or is_exhausted(error):",
        "        if inside or not inside:",
    )


REPAIRS = (*_repairs(),)
