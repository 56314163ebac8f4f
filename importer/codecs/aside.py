"""Run work in a thread that nobody has to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


def aside(work: Callable[[], _Result]) -> Future[_Result]:
    """Start work in another thread, which does not keep the process from ending.

    Making kernels ready is such work. In the main thread python may handle a signal inside a
    callback of LLVM's, where what the handler raises is lost: of nine SIGTERMs while a kernel
    was compiled there three were lost. Nor should a process that is interrupted wait for it.
    """
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done
