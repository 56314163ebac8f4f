"""`NAME@ID`: what a name stands for, or stood for before it was replaced or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from store.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from store import Digest, ModelName, Store
    from store.catalog import StoredManifest
    from store.writer import Writer

AT: Final = "@"


def check_text(text: str) -> None:
    """Make sure that a text may be a name, an ID or `NAME@ID`, before a store is looked at.

    Raises:
        UsageError: it is none of them.
    """
    from store.lookup import check_text as check_plain

    if AT in text:
        _parsed(text)
        return
    try:
        check_plain(text)
    except UsageError as error:
        error.hint = made_of(text) or error.hint
        raise


def made_of(text: str) -> str | None:
    """Return the hint for a path in place of a stored model; None where it is not like one."""
    import os
    import shlex

    from store.text import printable

    if not (text.startswith(("./", "../", "/", "~")) or os.path.lexists(text)):
        return None
    words = printable(shlex.join(["ingot", "create", "NAME", text]))
    return f"A model of the store is named here; `{words}` makes one of a path"


def find_former(store: Store, text: str) -> StoredManifest:
    """Return the manifest that `NAME@ID` names.

    Args:
        store: to look in.
        text: a name, `@`, and at least four digits of a digest.

    Raises:
        UsageError: the text is not that, or means several manifests.
        NotFoundError: the name never stood for such a model, or gc has been there since.
    """
    from cli.views.text import rfc3339

    name, wanted = _parsed(text)
    now = store.catalog.find(name)
    known: dict[Digest, StoredManifest] = {
        one.digest: one for one in (*store.history.read(name), *([now] if now else ()))
    }
    found = [one for digest, one in known.items() if digest.hex.startswith(wanted)]
    if len(found) > 1:
        these = ", ".join(f"{one.digest.short} of {rfc3339(one.mtime_ns)}" for one in found)
        message = f"`{text}` may be any of {these}"
        raise UsageError(message, code="E_ID_AMBIGUOUS", hint="Give more digits")
    if not found:
        from cli.commands.options import store_option

        message = f"`{name}` has no `{wanted}` in its history"
        hint = (
            f"`ingot list --history{store_option(store)}` shows what can be brought back; "
            "`ingot gc` removes all of it"
        )
        raise NotFoundError(message, code="E_HISTORY", hint=hint)
    return found[0]


def _parsed(text: str) -> tuple[ModelName, str]:
    from store import ModelName
    from store.lookup import digits_of

    before, _, after = text.partition(AT)
    name, wanted = ModelName.parse(before), digits_of(after)
    if wanted is None:
        message = f"`{text}`: expected at least four digits of an ID after the `{AT}`"
        raise UsageError(message, code="E_ID", hint="`ingot list --history` shows them")
    return name, wanted


def restore(writer: Writer, former: StoredManifest, target: ModelName) -> StoredManifest | None:
    """Set `target` to what a name stood for before; return what it stood for until now.

    Raises:
        NotFoundError: gc, or another program, has removed blobs of it since.
    """
    from store.text import count
    from store.writer import BlobsGoneError

    try:
        return writer.copy(former, target)
    except BlobsGoneError as error:
        raise NotFoundError(
            f"{count(len(error.gone), 'blob')} of `{former.name}{AT}{former.digest.short}` "
            f"cannot be found, the first is {error.gone[0].digest}",
            code="E_HISTORY_GONE",
        ) from error


def list_former(pattern: str, store: Store, *, json: bool) -> None:
    """Print what names that a glob or a beginning chooses stood for before."""
    import time

    from cli.views.console import out, out_json, talk, warn
    from cli.views.table import table
    from cli.views.text import ago, rfc3339
    from store import IngotError
    from store.lookup import is_chosen
    from store.text import count, printable, size

    rows, models, problems = [], [], []
    known = store.history.read()
    for former in sorted(known, key=lambda one: str(one.name)):
        if not is_chosen(former.name, pattern):
            continue
        current = store.catalog.find(former.name)
        if current is not None and current.digest == former.digest:
            continue
        try:
            manifest = former.parse()
        except IngotError as error:
            problems.append(f"{former.name}@{former.digest.short}: {error}")
            continue
        gone = sum(not store.blobs.holds(ref) for ref in set(manifest.blobs))
        models.append(
            {
                "name": str(former.name),
                "digest": str(former.digest),
                "size": manifest.nbytes,
                "modified": rfc3339(former.mtime_ns),
                "missing_blobs": gone,
            }
        )
        after = _after(former, (*known, *([current] if current is not None else ())))
        now = time.time()
        rows.append(
            (
                str(former.name),
                former.digest.short,
                size(manifest.nbytes),
                ago(former.mtime_ns, now),
                "removed" if after is None else ago(after.mtime_ns, now),
                "" if after is None else after.digest.short,
                f"{count(gone, 'blob')} gone" if gone else "",
            )
        )
    for problem in problems:
        warn(problem)
    if json:
        out_json("list", {"models": models, "problems": problems})
        return
    head = ("NAME", "ID", "SIZE", "SET", "REPLACED", "BY", "")
    out(table([head, *rows], spare=(3,)))
    if rows:
        talk("`ingot cp NAME@ID NAME` brings one back, until `ingot gc`")
    elif pattern:
        talk(f"no former version has a name that matches `{printable(pattern)}`")
    elif not problems:
        talk("no name has a former version since the last `ingot gc`")


def _after(former: StoredManifest, known: Iterable[StoredManifest]) -> StoredManifest | None:
    """Return what a name was set to next, or None where the name was removed."""
    later = (
        one
        for one in known
        if one.name == former.name
        and one.digest != former.digest
        and one.mtime_ns >= former.mtime_ns
    )
    return min(later, key=lambda one: one.mtime_ns, default=None)
