"""A repository as the cache has it, because the Hub cannot be asked."""

from __future__ import annotations

from collections.abc import Iterable

from importer.http.ranges import UnreachableError
from importer.hub.errors import OfflineError
from importer.hub.files import absent_file, cached_file, needed_of, roles_of
from importer.hub.repository import HubClient
from importer.sources.file import SourceFile
from importer.sources.selection import visible
from importer.sources.tree import Origin, Tree, read_tree
from store.text import printable


def cached_tree(
    hub: HubClient, variant: str | None, error: UnreachableError | OfflineError
) -> Tree:
    """Return the files of a repository of which the cache has what an import reads.

    Args:
        hub: the repository.
        variant: of the weights, such as `fp16`.
        error: why the Hub was not asked.

    Raises:
        UnreachableError: the cache lacks something, and there was no answer.
        OfflineError: the cache lacks something, and the network is forbidden.
        InputError: a file of the cache is hostile or malformed.
        UnsupportedError: a format that we do not read.
    """
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
        files = [cached_file(snapshot, file.path, file.role) for file in tree.files]
        notes.append("the cache has no list of the repository's files: took those it has")
        return Tree(snapshot, tuple(files), tree.left_out, origin, tuple(notes))
    paths, left_out = visible(listed)
    roles = roles_of(paths)

    def check(those: Iterable[str]) -> None:
        lacking = sorted(path for path in those if not (snapshot / path).is_file())
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            what = f"the cache lacks `{printable(lacking[0])}`{more} of `{hub.source}`"
            raise _lacking(error, what) from error

    def index(path: str) -> SourceFile:
        check([path])
        return cached_file(snapshot, path, roles[path])

    wanted = needed_of(roles, str(hub.source), variant, index).everything
    check(wanted)
    files = [
        cached_file(snapshot, path, role)
        if path in wanted
        else absent_file(snapshot, path, role)
        for path, role in roles.items()
    ]
    return Tree(snapshot, tuple(files), left_out, origin, tuple(notes))


def _lacking(
    error: UnreachableError | OfflineError, what: str
) -> UnreachableError | OfflineError:
    return type(error)(f"{what}, and {error}", code=error.code, hint=error.hint)
