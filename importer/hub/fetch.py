"""From a repository on the Hub to the files of a source: fetch what the import reads."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, TypeVar

from importer.events import Fetched, Fetching, Listener, Received
from importer.hub.download import StoppedError, Tell, download, read_range
from importer.hub.errors import OfflineError, UnreachableError
from importer.hub.repository import HubClient, HubFile, Listing
from importer.sources import hub_cache
from importer.sources.file import Identity, SourceFile, find
from importer.sources.location import HubRepository
from importer.sources.selection import Needed, needed, visible
from importer.sources.tree import Origin, Tree, read_tree
from store import limits
from store.errors import InputError, NetworkError, NoSpaceError
from store.tensorfile import LENGTH_BYTES
from store.text import printable

_CONNECTIONS: Final = 8
"""As many as huggingface_hub opens."""
_HEAD_BYTES: Final = 128 << 10
"""Of a weights file, read at first: most headers are shorter."""
_REPORT_BYTES: Final = 1 << 20
_OVER_HTTP: Final = 50_000_000_000
"""Bytes of the largest file that the Hub sends but in pieces of its own (Xet)."""

_Item = TypeVar("_Item")


@contextlib.contextmanager
def fetched(
    source: HubRepository, variant: str | None, listen: Listener, *, only_headers: bool = False
) -> Iterator[Tree]:
    """Give the files of a repository; those that the import reads are in the cache.

    Args:
        variant: of the weights, such as `fp16`.
        only_headers: no weights, and no large files, whose content a plan does not need.
            Until the end of the block, files of the right size stand for them.

    Raises:
        NotFoundError: there is no such repository or revision, or the network is forbidden
            and the cache lacks something.
        InputError: it is malformed, incomplete or hostile.
        UnsupportedError: no format that we read.
        NetworkError: the network, or the server.
        AuthError: other credentials are needed.
        NoSpaceError: it does not fit.
    """
    hub = HubClient(source)
    try:
        listing = hub.listing()
    except (UnreachableError, OfflineError) as error:
        yield _cached(hub, variant, error)
        return
    fetch = _Fetch(hub, listing, listen)
    if not only_headers:
        yield fetch.whole(variant)
        return
    with tempfile.TemporaryDirectory(prefix="ingot-") as directory:
        yield fetch.heads(variant, Path(directory))


def _cached(
    hub: HubClient, variant: str | None, error: UnreachableError | OfflineError
) -> Tree:
    """Make do with what the cache has, because the Hub cannot be asked."""
    seen = hub.cached()
    if seen is None:
        if isinstance(error, UnreachableError):
            raise error
        raise _lacking(error, f"`{hub.source}` is not in the cache of the Hub") from error
    commit, listed = seen
    snapshot = hub.snapshot(commit).resolve()
    origin = Origin(hub.source.repository, commit)
    notes: list[str] = []
    if isinstance(error, UnreachableError):
        notes.append(f"{error}; took commit {commit} from the cache")
    if listed is None:
        tree = read_tree(snapshot)
        files = [_cached_file(snapshot, file.path) for file in tree.files]
        notes.append("the cache has no list of the repository's files: took those it has")
        return Tree(snapshot, tuple(files), tree.left_out, origin, tuple(notes))
    paths, left_out = visible(listed)

    def check(those: Iterable[str]) -> None:
        lacking = sorted(path for path in those if not (snapshot / path).is_file())
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            what = f"the cache lacks `{printable(lacking[0])}`{more} of `{hub.source}`"
            raise _lacking(error, what) from error

    def index(path: str) -> SourceFile:
        check([path])
        return _cached_file(snapshot, path)

    wanted = needed(paths, variant, str(hub.source), index).everything
    check(wanted)
    files = [
        _cached_file(snapshot, path) if path in wanted else _absent(snapshot, path)
        for path in paths
    ]
    return Tree(snapshot, tuple(files), left_out, origin, tuple(notes))


def _lacking(
    error: UnreachableError | OfflineError, what: str
) -> UnreachableError | OfflineError:
    hint = "Run the command again with the network, to fetch what is missing"
    return type(error)(f"{what}, and {error}", code=error.code, hint=hint)


def _cached_file(snapshot: Path, path: str) -> SourceFile:
    pointer = snapshot / path
    location = _inside(snapshot, pointer.resolve(strict=True), path)
    return find(path, location, hub_cache.declared_sha256(pointer))


def _inside(snapshot: Path, location: Path, path: str) -> Path:
    if not any(location.is_relative_to(place) for place in hub_cache.places_of(snapshot)):
        raise InputError(
            f"`{printable(path)}` is a link that leaves the cache",
            code="E_PATH",
            hint=f"Remove it from `{printable(str(snapshot))}`: it will be fetched again",
        )
    return location


def _absent(root: Path, path: str, size: int = 0) -> SourceFile:
    # Never opened: it is there to be named among what is left out.
    return SourceFile(path, root / path, Identity(0, 0, size, 0))


class _Fetch:
    def __init__(self, hub: HubClient, listing: Listing, listen: Listener) -> None:
        self._hub = hub
        self._commit = listing.commit
        self._files = {file.path: file for file in listing.files}
        self._paths, self._left_out = visible(self._files)
        self._listen = listen
        self._mutex = threading.Lock()

    def whole(self, variant: str | None) -> Tree:
        """Fetch everything that the import reads."""
        wanted = self._needed(variant).everything
        self._get(wanted)
        snapshot = self._hub.snapshot(self._commit)
        self._complete(snapshot, wanted)
        hub_cache.write_ref(self._hub.folder, self._hub.source.revision, self._commit)
        return self._tree(snapshot.resolve(), {path: self._file(path) for path in wanted})

    def heads(self, variant: str | None, directory: Path) -> Tree:
        """Fetch what a plan reads; give files of the right size for the rest."""
        need = self._needed(variant)
        parts = [
            path
            for path in sorted(need.everything - need.indexes)
            if path in need.weights or self._files[path].size > limits.CONFIG_BYTES
            if self._hub.find(self._commit, self._files[path]) is None
        ]
        whole = need.everything - set(parts)
        self._get(whole)
        here = {path: self._file(path) for path in whole}

        def stand_in(numbered: tuple[int, str]) -> None:
            number, path = numbered
            location = directory.resolve() / str(number)
            head = self._head(self._files[path]) if path in need.weights else b""
            with location.open("xb") as file:
                file.write(head)
                file.truncate(self._files[path].size)
            here[path] = find(path, location, self._files[path].sha256)

        self._run(stand_in, list(enumerate(parts)))
        return self._tree(self._hub.folder, here)

    def _needed(self, variant: str | None) -> Needed:
        def index(path: str) -> SourceFile:
            if self._hub.find(self._commit, self._files[path]) is None:
                download(self._hub, self._files[path])
            return self._file(path)

        return needed(self._paths, variant, str(self._hub.source), index)

    def _file(self, path: str) -> SourceFile:
        file = self._files[path]
        location = self._hub.find(self._commit, file)
        assert location is not None, f"`{path}` was fetched and is not there"
        snapshot = self._hub.snapshot(self._commit).resolve()
        return find(path, _inside(snapshot, location, path), file.sha256)

    def _tree(self, root: Path, here: Mapping[str, SourceFile]) -> Tree:
        files = [
            here.get(path) or _absent(root, path, self._files[path].size)
            for path in self._paths
        ]
        origin = Origin(self._hub.source.repository, self._commit)
        return Tree(root, tuple(files), self._left_out, origin)

    def _get(self, paths: Iterable[str]) -> None:
        files = [self._files[path] for path in paths]
        missing = [file for file in files if self._hub.find(self._commit, file) is None]
        nbytes = sum(file.size for file in missing)
        self._check_space(missing)
        started = time.monotonic()
        self._listen(Fetching(self._hub.source.repository, self._commit, len(missing), nbytes))
        # The largest first, so that no connection is left alone with one at the end.
        missing.sort(key=lambda file: (-file.size, file.path))
        self._run(self._download, [file for file in missing if file.size <= _OVER_HTTP])
        if missing:
            self._listen(Fetched(len(missing), nbytes, time.monotonic() - started))

    def _download(self, file: HubFile) -> None:
        with self._counted(file.path) as tell:
            download(self._hub, file, tell)

    @contextlib.contextmanager
    def _counted(self, path: str) -> Iterator[Tell]:
        pending = 0

        def report() -> None:
            nonlocal pending
            with self._mutex:
                self._listen(Received(path, pending))
            pending = 0

        def tell(nbytes: int) -> None:
            nonlocal pending
            pending += nbytes
            if abs(pending) >= _REPORT_BYTES:
                report()

        yield tell
        report()

    def _check_space(self, missing: Iterable[HubFile]) -> None:
        root = self._hub.cache
        nbytes = 0
        for file in missing:
            part = self._hub.part(file)
            nbytes += file.size - (part.stat().st_size if part.exists() else 0)
        there = next(path for path in (root, *root.parents) if path.exists())
        free = shutil.disk_usage(there).free
        if nbytes > free:
            raise NoSpaceError(
                f"the download needs {nbytes} bytes, the cache `{root}` has {free} free; "
                "nothing was fetched",
                code="E_NOSPACE",
                hint="Free some space (`hf cache prune` may help), or set HF_HOME",
            )

    def _complete(self, snapshot: Path, wanted: Iterable[str]) -> None:
        files = [self._files[path] for path in wanted]
        for file in files:
            # Where there are no links, huggingface_hub knows what to do.
            if self._hub.blob(file).is_file() and self._hub.has_links:
                with contextlib.suppress(OSError):
                    hub_cache.link(self._hub.blob(file), snapshot / file.path)
        try:
            self._hub.complete(self._commit, self._files.keys() - set(wanted))
        except NetworkError:
            # Only the list of files, for later; unless something is missing.
            if not all((snapshot / file.path).is_file() for file in files):
                raise

    def _head(self, file: HubFile) -> bytes:
        head = read_range(self._hub, file, 0, min(file.size, _HEAD_BYTES))
        length = LENGTH_BYTES + int.from_bytes(head[:LENGTH_BYTES], "little")
        # A length that cannot be is refused by whoever parses it.
        end = min(length, file.size, LENGTH_BYTES + limits.HEADER_BYTES)
        if end > len(head):
            head += read_range(self._hub, file, len(head), end)
        return head

    def _run(self, work: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """Do something with each item, some at a time; the first failure ends all."""
        pool = ThreadPoolExecutor(_CONNECTIONS)
        futures = [pool.submit(work, item) for item in items]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            # A signal does not wait for a connection that says nothing: parts are kept anyway.
            self._hub.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        errors = [error for future in done if (error := future.exception()) is not None]
        if errors:
            self._hub.stop.set()
        pool.shutdown(cancel_futures=True)
        if errors:
            raise next((e for e in errors if not isinstance(e, StoppedError)), errors[0])
