"""A model repository on the Hub: its name, its files, and where the cache has them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from importer.hub.errors import odd_answer, refused, translated
from importer.sources import hub_cache
from importer.sources.location import HubRepository
from store import limits
from store.errors import InputError
from store.paths import why_unsafe
from store.text import printable

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfApi, RepoFile

_HASH: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository.

    Attributes:
        path: relative to the repository, with `/`.
        size: in bytes.
        url: that it is fetched from.
        oid: Git's hash of the file, or of its pointer if it is in the large file storage.
        sha256: that the Hub declares for a file in the large file storage.
    """

    path: str
    size: int
    url: str
    oid: str
    sha256: str | None = None

    @property
    def key(self) -> str:
        """The name of the blob in the cache, which the Hub also gives as ETag."""
        return self.sha256 or self.oid


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository at a commit."""

    commit: str
    files: tuple[HubFile, ...]


class HubClient:
    """One repository, reached through huggingface_hub.

    Attributes:
        source: the repository and its revision.
        patience: seconds to wait for an answer, or for its next byte.
        cache: the directory of all repositories.
        folder: of this repository in the cache.
        has_links: whether the cache may use symbolic links.
        stop: ends transfers between two chunks when it is set.
    """

    def __init__(self, source: HubRepository) -> None:
        """Read what the environment says of cache, endpoint and token, and nothing else yet."""
        from huggingface_hub import HfApi, constants  # noqa: PLC0415

        patience = float(constants.HF_HUB_DOWNLOAD_TIMEOUT)
        _configure(source.repository, patience)
        self.source: Final = source
        self.patience: Final = patience
        self.cache: Final = Path(constants.HF_HUB_CACHE).expanduser().resolve()
        self.folder: Final = hub_cache.repository_folder(self.cache, source.repository)
        self.has_links: Final = not constants.HF_HUB_DISABLE_SYMLINKS
        self.stop: Final = threading.Event()
        self._api: Final[HfApi] = HfApi(library_name="ingot")

    def session(self) -> httpx2.Client:
        """Return the HTTP client, which threads share."""
        from huggingface_hub import get_session  # noqa: PLC0415

        return get_session()

    def headers(self) -> dict[str, str]:
        """Return the headers of every request, the token among them."""
        from huggingface_hub.utils import build_hf_headers  # noqa: PLC0415

        # Compressed bytes could not be counted.
        return build_hf_headers(library_name="ingot", headers={"Accept-Encoding": "identity"})

    def listing(self) -> Listing:
        """Ask the Hub which commit the revision is, and which files that commit has.

        Raises:
            UnreachableError: there is no answer.
            OfflineError: the user forbade the network.
            InputError: a file has a name that is not safe everywhere.
            IngotError: the Hub refuses.
        """
        from huggingface_hub import RepoFile  # noqa: PLC0415
        from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

        repository = self.source.repository
        with translated(repository):
            try:
                info = self._api.model_info(
                    repository, revision=self.source.revision, timeout=self.patience
                )
                commit = info.sha or ""
                if not hub_cache.is_commit(commit):
                    raise odd_answer(f"the commit is `{commit}`")
                entries = self._api.list_repo_tree(repository, recursive=True, revision=commit)
                files = (entry for entry in entries if isinstance(entry, RepoFile))
                return Listing(commit, self._checked_files(files, commit))
            except HfHubHTTPError:
                raise  # some are a ValueError, too
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise odd_answer(f"{type(error).__name__}: {error}") from error

    def cached(self) -> tuple[str, tuple[str, ...] | None] | None:
        """Return the commit that the cache has of the revision, and the paths of its files.

        The files are None where nobody kept the list; the whole is None without a snapshot.
        """
        from huggingface_hub import get_cached_repo_tree  # noqa: PLC0415
        from huggingface_hub.errors import CachedRepoTreeNotFoundError  # noqa: PLC0415

        revision = self.source.revision
        commit = (
            revision
            if hub_cache.is_commit(revision)
            else hub_cache.read_ref(self.folder, revision)
        )
        if commit is None or not self.snapshot(commit).is_dir():
            return None
        try:
            entries = get_cached_repo_tree(self.source.repository, revision=commit)
        except CachedRepoTreeNotFoundError:
            return commit, None
        paths = sorted((entry.path for entry in entries), key=str.encode)
        for path in paths:
            _check_name(path)
        return commit, tuple(paths)

    def snapshot(self, commit: str) -> Path:
        """Return the directory of a commit in the cache."""
        return self.folder / "snapshots" / commit

    def blob(self, file: HubFile) -> Path:
        """Return where the cache has the content of a file."""
        return self.folder / "blobs" / file.key

    def part(self, file: HubFile) -> Path:
        """Return where the cache has what has arrived of a file that is not whole yet."""
        return self.folder / "blobs" / f"{file.key}.incomplete"

    def find(self, commit: str, file: HubFile) -> Path | None:
        """Return where the cache has a whole file of a commit, links resolved, if it does."""
        for place in (self.snapshot(commit) / file.path, self.blob(file)):
            if place.is_file() and place.stat().st_size == file.size:
                return place.resolve()
        return None

    def complete(self, commit: str, unwanted: Iterable[str]) -> None:
        """Have huggingface_hub keep the list of files, and fetch what is not there yet.

        That is usually nothing: it fetches what it alone can (files above 50 GB, or all on
        systems without links).

        Args:
            commit: of the files.
            unwanted: the paths that nobody needs.

        Raises:
            IngotError: as `listing`.
        """
        from glob import escape  # noqa: PLC0415

        from huggingface_hub import snapshot_download  # noqa: PLC0415
        from huggingface_hub.utils import tqdm  # noqa: PLC0415

        class Silent(tqdm):
            def __init__(self, *args: object, **kwargs: object) -> None:
                kwargs["disable"] = True
                super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]  # theirs

        with translated(self.source.repository):
            snapshot_download(
                self.source.repository,
                revision=commit,
                ignore_patterns=[escape(path) for path in unwanted],
                tqdm_class=Silent,
                library_name="ingot",
            )

    def _checked_files(self, entries: Iterable[RepoFile], commit: str) -> tuple[HubFile, ...]:
        from huggingface_hub import hf_hub_url  # noqa: PLC0415

        files: dict[str, HubFile] = {}
        for entry in entries:
            _check_name(entry.path)
            if len(files) >= limits.FILES_PER_SOURCE:
                raise InputError(
                    f"`{self.source}` has more than {limits.FILES_PER_SOURCE} files",
                    code="E_LIMIT",
                )
            sha256 = entry.lfs.sha256 if entry.lfs is not None else None
            url = hf_hub_url(self.source.repository, entry.path, revision=commit)
            file = HubFile(entry.path, entry.size, url, entry.blob_id, sha256)
            if not _HASH.fullmatch(file.key) or type(file.size) is not int or file.size < 0:
                raise odd_answer(f"`{entry.path}` has the hash `{file.key}`")
            files[entry.path] = file
        return tuple(sorted(files.values(), key=lambda file: file.path.encode()))


def _configure(repository: str, patience: float) -> None:
    """Have huggingface_hub print nothing, and never wait for ever, or for long in silence."""
    from huggingface_hub import get_session, set_client_factory  # noqa: PLC0415
    from huggingface_hub.utils import logging  # noqa: PLC0415

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # theirs

    def bound(request: httpx2.Request) -> None:
        given = request.extensions.get("timeout") or {}
        bounds = dict.fromkeys(("connect", "read", "write", "pool"), patience)
        bounds |= {key: value for key, value in given.items() if value is not None}
        request.extensions = {**request.extensions, "timeout": bounds}

    def limited(response: httpx2.Response) -> None:
        # It would sleep for minutes.
        if response.status_code == 429:  # noqa: PLR2004 - too many requests
            raise refused(response, repository)

    default = get_session()
    client = type(default)
    hooks: dict[str, list[Callable[..., object]]] = {
        kind: [hook for hook in given if hook.__module__ != __name__]
        for kind, given in default.event_hooks.items()
    }
    hooks["request"].append(bound)
    hooks["response"].append(limited)
    set_client_factory(
        lambda: client(event_hooks=hooks, follow_redirects=True, timeout=patience)
    )


def _check_name(path: str) -> None:
    if why := why_unsafe(path):
        raise InputError(
            f"the repository has a file `{printable(path)}`, whose name {why}",
            code="E_PATH",
            hint="Names in a model have to work, and to stay inside it, on every system: "
            "rename the file in a copy of the repository",
        )
