"""From a repository on the Hub to the files of a source: fetch what the import reads."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from importer.events import Listener
from importer.http.ranges import UnreachableError
from importer.http.together import together
from importer.hub.cached import cached_tree
from importer.hub.download import download
from importer.hub.errors import OfflineError
from importer.hub.files import absent_file, inside, needed_of, roles_of
from importer.hub.headers import stand_in
from importer.hub.repository import HubClient, Listing
from importer.hub.transfers import Transfers
from importer.sources import hub_cache
from importer.sources.file import SourceFile, find
from importer.sources.location import HubRepository
from importer.sources.selection import Needed, visible
from importer.sources.tree import Origin, Tree
from store import limits
from store.errors import NetworkError


@contextlib.contextmanager
def fetched(
    source: HubRepository, variant: str | None, listen: Listener, *, only_headers: bool = False
) -> Iterator[Tree]:
    """Yield the files of a repository; those that the import reads are in the cache.

    Args:
        source: the repository.
        variant: of the weights, such as `fp16`.
        listen: hears of what is fetched.
        only_headers: fetch no weights, and no large files, whose content a plan does not
            need. Until the end of the block, files of the right size stand for them.

    Raises:
        NotFoundError: there is no such repository or revision, or the network is forbidden
            and the cache lacks something.
        InputError: the repository is malformed, incomplete or hostile.
        UnsupportedError: it is in no format that we read.
        NetworkError: the network or the server failed.
        AuthError: other credentials are needed.
        NoSpaceError: the files do not fit.
    """
    hub = HubClient(source)
    try:
        listing = hub.listing()
    except (UnreachableError, OfflineError) as error:
        yield cached_tree(hub, variant, error)
        return
    fetch = _Fetch(hub, listing, listen)
    if not only_headers:
        yield fetch.whole(variant)
        return
    with tempfile.TemporaryDirectory(prefix="ingot-") as directory:
        yield fetch.heads(variant, Path(directory))


class _Fetch:
    def __init__(self, hub: HubClient, listing: Listing, listen: Listener) -> None:
        self._hub = hub
        self._commit = listing.commit
        self._files = {file.path: file for file in listing.files}
        paths, self._left_out = visible(self._files)
        self._roles = roles_of(paths)
        self._transfers = Transfers(hub, listing.commit, listen)

    def whole(self, variant: str | None) -> Tree:
        """Fetch everything that the import reads."""
        wanted = self._needed(variant).everything
        self._transfers.get(self._files[path] for path in wanted)
        snapshot = self._hub.snapshot(self._commit)
        self._complete(snapshot, wanted)
        hub_cache.write_ref(self._hub.folder, self._hub.source.revision, self._commit)
        return self._tree(snapshot.resolve(), {path: self._file(path) for path in wanted})

    def heads(self, variant: str | None, directory: Path) -> Tree:
        """Fetch what a plan reads; files of the right size in `directory` are the rest."""
        need = self._needed(variant)
        parts = [
            path
            for path in sorted(need.everything - need.indexes)
            if path in need.weights or self._files[path].size > limits.CONFIG_BYTES
            if self._hub.find(self._commit, self._files[path]) is None
        ]
        whole = need.everything - set(parts)
        self._transfers.get(self._files[path] for path in whole)
        here = {path: self._file(path) for path in whole}

        def make(numbered: tuple[int, str]) -> None:
            number, path = numbered
            location = directory.resolve() / str(number)
            here[path] = stand_in(self._hub, self._files[path], self._roles[path], location)

        together(make, list(enumerate(parts)), self._hub.stop)
        return self._tree(self._hub.folder, here)

    def _needed(self, variant: str | None) -> Needed:
        def index(path: str) -> SourceFile:
            if self._hub.find(self._commit, self._files[path]) is None:
                download(self._hub, self._files[path])
            return self._file(path)

        sizes = {path: file.size for path, file in self._files.items()}
        return needed_of(self._roles, str(self._hub.source), variant, index, sizes)

    def _file(self, path: str) -> SourceFile:
        file = self._files[path]
        location = self._hub.find(self._commit, file)
        assert location is not None, f"`{path}` was fetched and is not there"
        snapshot = self._hub.snapshot(self._commit).resolve()
        return find(path, inside(snapshot, location, path), self._roles[path], file.sha256)

    def _tree(self, root: Path, here: Mapping[str, SourceFile]) -> Tree:
        files = [
            here.get(path) or absent_file(root, path, role, self._files[path].size)
            for path, role in self._roles.items()
        ]
        origin = Origin(self._hub.source.repository, self._commit)
        return Tree(root, tuple(files), self._left_out, origin)

    def _complete(self, snapshot: Path, wanted: Iterable[str]) -> None:
        """Make the snapshot one that huggingface_hub takes for its own."""
        files = [self._files[path] for path in wanted]
        for file in files:
            # Where there are no links, huggingface_hub knows what to do.
            if self._hub.blob(file).is_file() and self._hub.has_links:
                with contextlib.suppress(OSError):
                    hub_cache.link(self._hub.blob(file), snapshot / file.path)
        try:
            self._hub.complete(self._commit, self._files.keys() - set(wanted))
        except NetworkError:
            # It only kept the list of files, for later; unless something is missing.
            if not all((snapshot / file.path).is_file() for file in files):
                raise
