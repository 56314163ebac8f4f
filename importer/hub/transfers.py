"""Several files at once from the Hub into its cache."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable
from typing import Final

from importer.events import Event, Fetched, Fetching, Listener
from importer.http.together import together
from importer.hub.download import download
from importer.hub.repository import HubClient, HubFile
from store.errors import NoSpaceError

_OVER_HTTP: Final = 50_000_000_000
"""Bytes of the largest file that comes over HTTP; larger ones need huggingface_hub (Xet)."""


class Transfers:
    """Downloads from one repository that share connections and end together."""

    def __init__(self, hub: HubClient, commit: str, listen: Listener) -> None:
        self._hub = hub
        self._commit = commit
        self._listener = listen
        self._mutex = threading.Lock()

    def get(self, files: Iterable[HubFile]) -> None:
        """Fetch those of the files that the cache lacks; report when that begins and ends.

        Raises:
            NoSpaceError: they do not fit; nothing was fetched.
            IngotError: a transfer failed; what has arrived is kept.
        """
        missing = [file for file in files if self._hub.find(self._commit, file) is None]
        nbytes = sum(file.size for file in missing)
        self._check_space(missing)
        started = time.monotonic()
        self._listen(Fetching(self._hub.source.repository, self._commit, len(missing), nbytes))
        # The largest first, so that no connection is left alone with one at the end.
        missing.sort(key=lambda file: (-file.size, file.path))
        together(
            lambda file: download(self._hub, file, self._listen),
            [file for file in missing if file.size <= _OVER_HTTP],
            self._hub.stop,
        )
        if missing:
            self._listen(Fetched(len(missing), nbytes, time.monotonic() - started))

    def _listen(self, event: Event) -> None:
        with self._mutex:  # a listener hears of one event at a time
            self._listener(event)

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
