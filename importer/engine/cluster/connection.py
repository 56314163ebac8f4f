"""The way to a Dask cluster: its address, and what is said when nobody answers."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from store.errors import NetworkError, UsageError
from store.text import printable

if TYPE_CHECKING:
    from distributed import Client

_CONNECTING: Final = 10.0
"""Seconds for the scheduler to answer."""
_CLOSING: Final = 3.0
_LOGGERS: Final = (
    "asyncio",
    "distributed",
    "distributed.client",
    "distributed.core",
    "tornado",
    "tornado.application",
)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """Yield a client of a scheduler; whatever it holds when the block ends is let go.

    Args:
        address: such as `tcp://10.0.0.1:8786`, or the path of a scheduler file.

    Raises:
        UsageError: it is not an address, or Dask is not installed.
        NetworkError: nobody answers there.
    """
    if not _has_dask():
        raise UsageError(
            "a cluster needs the package `distributed`, which is not installed",
            code="E_CLUSTER_MISSING",
        )
    with _quiet():
        client = _client(address)
        try:
            yield client
        finally:
            # Also releases what the client holds, so that workers stop and drop their pins.
            with _uncollected(), contextlib.suppress(Exception):
                client.close(_CLOSING)


def reach(address: str) -> None:
    """Make sure that a scheduler answers; the errors are those of `connected`."""
    with connected(address):
        pass


def _has_dask() -> bool:
    return importlib.util.find_spec("distributed") is not None


def _client(address: str) -> Client:
    from distributed import Client  # noqa: PLC0415 - 0.5 s that other imports do not need

    where: dict[str, str] = {"address": address}
    if Path(address).is_file():
        where = {"scheduler_file": address}
    elif not address or address.rpartition(":")[2].strip("/") == "":
        raise _no_address(address)
    try:
        with _uncollected(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # versions are ours to judge, and to phrase
            return Client(**where, timeout=_CONNECTING, set_as_default=False, name="ingot")
    except ValueError as error:
        raise _no_address(address) from error
    except Exception as error:
        raise NetworkError(
            f"no scheduler answers at `{printable(address)}`, waited up to {_CONNECTING:.0f} s",
            code="E_CLUSTER_SCHEDULER",
        ) from error


def _no_address(address: str) -> UsageError:
    return UsageError(
        f"`{printable(address)}` is not the address of a scheduler, expected such as "
        "`tcp://10.0.0.1:8786`",
        code="E_CLUSTER_ADDRESS",
    )


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector while a client starts or closes.

    A client that never connected, or whose closing took too long, is garbage that closes itself
    when it is collected. That takes a lock of Dask's which starting or closing another holds: a
    process that was collected between the two waited for itself forever.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from writing to stderr: what matters of it becomes an error of ours."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    importlib.import_module("distributed")  # it gives its loggers their levels
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
