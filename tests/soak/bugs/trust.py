"""Mistakes about what is believed: names, lengths, headers, and what is printed."""

from __future__ import annotations

from collections.abc import Iterator

from tests.soak.bugs.bug import Bug, bug


def _trust() -> Iterator[Bug]:
    yield bug(
        "the name of a blob is believed",
        "A F",
        "store/blobs",
        "            outcome = CommitOutcome.RENEWED\n",
        """
            self.fs.unlink(partial)
            return CommitOutcome.REUSED
""",
    )
    yield bug(
        "the memo looks at the size alone",
        "F",
        "store/memo",
        "        return [noted[digest.hex] == _identity(status) for digest, status in seen]",
        "        return [(noted[one.hex] or (0, 0))[1] == status.size for one, status in seen]",
    )
    yield bug(
        "the length of what was written is not compared",
        "B store",
        "store/durable",
        "    if actual != nbytes:",
        "    if actual < 0:",
    )
    yield bug(
        "a short write is taken for a whole one",
        "E",
        "store/fs",
        "            while view:\n                count",
        "            if view:\n                count",
    )
    yield bug(
        "links are followed",
        "F store",
        "store/fs",
        "seen = os.lstat(path)",
        "seen = os.stat(path)",
    )
    yield bug(
        "verify hashes nothing", "F", "store/blob_check", "if not self.quick", "if self is None"
    )
    yield bug(
        "verify names one model",
        "F",
        "store/blob_check",
        "        names = _names(uses)\n        seen",
        "        names = _names(uses)[:1]\n        seen",
    )
    yield bug(
        "a gap in a blob is not seen",
        "store",
        "store/blob_writer",
        "if self._placed != self.size:",
        "if self._placed < 0:",
    )
    yield bug(
        "what is printed is not escaped",
        "store K cli",
        "store/text",
        "    if is_printable(text):\n        return text",
        "    if text:\n        return text",
    )
    yield bug(
        "a store that everybody can write is trusted",
        "store",
        "store/store",
        "if why := _why_unsafe(seen, is_shared=self.fs.is_shared):",
        "if (why := _why_unsafe(seen, is_shared=self.fs.is_shared)) and not why:",
    )
    yield bug(
        "a key of JSON may come twice",
        "store",
        "store/json",
        "object_pairs_hook=_reject_duplicates",
        "object_pairs_hook=dict",
    )
    yield bug(
        "tensors may overlap",
        "store",
        "store/tensorfile",
        "        if entry.begin < end:\n",
        "        if entry.begin < 0:\n",
    )
    yield bug(
        "bytes after the last tensor are left out",
        "store K",
        "store/tensorfile",
        "    if end < available:\n",
        "    if available < 0:\n",
    )
    yield bug(
        "any text may be in a digest",
        "store",
        "store/digest",
        "        if not _is_hex(digits):",
        "        if not digits:",
    )
    yield bug(
        "of a path the last part alone is checked",
        "store importer",
        "store/paths",
        'for part in path.split("/"):',
        'for part in path.split("/")[-1:]:',
    )


TRUST = (*_trust(),)
