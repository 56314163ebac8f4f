"""Mistakes about imports: what is made again, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.bugs.bug import Bug, bug


def _imports() -> Iterator[Bug]:
    yield bug(
        "equal tensors have equal blobs",
        "importer",
        "importer/engine/reuse",
        "sha256(revision + form +",
        "sha256(revision +",
    )
    yield bug(
        "inodes are not counted before an import",
        "importer",
        "importer/engine/space",
        "return _Needed(nbytes, count + _DOCUMENT_FILES, content)",
        "return _Needed(nbytes, 0, content)",
    )
    yield bug(
        "tensors of any dtype have equal blobs",
        "importer",
        "importer/engine/reuse",
        'f"\\0{transcoder!r} {allows}"',
        'f"\\0{allows}"',
    )
    yield bug(
        "what is not finite has been allowed for good",
        "importer",
        "importer/engine/reuse",
        'f"\\0{transcoder!r} {allows}"',
        'f"\\0{transcoder!r}"',
    )
    yield bug(
        "every revision of the codecs makes the same",
        "importer",
        "importer/engine/reuse",
        "sha256(revision + form +",
        "sha256(form +",
    )
    yield bug(
        "a noted blob may have any size",
        "importer",
        "importer/engine/reuse",
        "if found is not None and found[1] == job.nbytes else None",
        "if found is not None else None",
    )
    yield bug(
        "a source whose time was set back is as it was",
        "importer",
        "importer/engine/reuse",
        "max(seen.mtime_ns, seen.ctime_ns)",
        "seen.mtime_ns",
    )
    yield bug(
        "a source that was written a moment ago is as it was",
        "store",
        "store/memo",
        "identity.changed_ns < row[4] - GRANULARITY_NS",
        "identity.changed_ns <= row[4]",
    )
    yield bug(
        "a killed import has noted nothing",
        "store",
        "store/cache_database",
        "len(rows) >= _SAVE_EVERY or time.monotonic() - self._saved > _SAVE_SECONDS",
        "not rows",
    )
    yield bug(
        "a source that changes meanwhile is not noticed",
        "importer",  # the last look, before publishing, hides it from a command
        "importer/sources/file",
        """
        if not file.may_be(Identity.of(os.fstat(descriptor))):
            changed(file)
""",
        "\n",
    )
    yield bug(
        "a source is not looked at again before it is published",
        "importer cli",
        "importer/sources/file",
        "        return Identity.of(os.stat(file.location)) == file.identity",
        "        return bool(os.stat(file.location))",
    )
    yield bug(
        # Before it publishes, an import sees that the source has changed, as the cli tests try.
        "a source may end early",
        "importer",
        "importer/sources/file",
        "        if count == 0:\n            changed(file)\n",
        "        if count == 0:\n            return\n",
    )
    yield bug(
        "a download is not compared with its hash",
        "hub",
        "importer/hub/download",
        "        if digest.is_right():",
        "        if digest:",
    )
    yield bug(
        "what an earlier run fetched is not hashed",
        "hub",
        "importer/hub/download",
        "            digest.update(piece)\n",
        "            pass\n",
    )
    yield bug(
        "a download does not go on where it ended",
        "hub",
        "importer/hub/download",
        "        have = target.tell()\n",
        "        have = target.seek(0)\n        digest = _Digest(file)\n",
    )
    yield bug(
        "a part that is too long is kept",
        "hub",
        "importer/hub/download",
        "            target.truncate(0)\n",
        "            pass\n",
    )
    yield bug(
        "an answer may begin anywhere",
        "hub",
        "importer/http/ranges",
        "match is None or int(match[1]) != start or match[2]",
        "match is None or match[2]",
    )
    yield bug(
        "a bad part is not fetched again",
        "hub",
        "importer/hub/download",
        "if _fill(hub, file, tell, tries) or _fill(hub, file, tell, tries):",
        "if _fill(hub, file, tell, tries):",
    )
    yield bug(
        "a download has its name before it is synced",
        "hub",
        "importer/hub/download",
        "        os.fsync(descriptor)\n",
    )


IMPORTS = (*_imports(),)
