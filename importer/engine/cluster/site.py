"""What a worker of a cluster has for imports: kernels, and the tasks whose results it holds."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from distributed import Reschedule, WorkerPlugin, get_worker

from importer.codecs.base import KernelSpec, Runtime
from importer.codecs.runtime import NUMPY, KernelRuntime, prepare
from importer.engine.cluster.fitness import TOPIC
from store.parallel import Stop, StoppedError

NAME: Final = "ingot"
"""Of the plugin."""
_STOPPED: Final = frozenset({"cancelled"})
_OVER: Final = frozenset({"released", "forgotten"})


def perform(payload: bytes) -> object:
    """Do one job, which is pickled with the function that does it: a task of the cluster.

    Pickled by us, because the scheduler would take a plan apart in search of tasks.
    """
    work, job = pickle.loads(payload)  # noqa: S301 - whoever has the cluster may run anything
    try:
        return work(job)
    except StoppedError:
        raise Reschedule from None
    except OSError as error:
        where = f"{error.strerror} on worker {get_worker().address}"
        raise OSError(error.errno, where, error.filename) from error


@dataclass(slots=True)
class Task:
    """What a worker knows of a task of ours.

    Attributes:
        threads: that it may use.
        stop: set when nobody wants its result any more.
        held: closed when the result is taken, or nobody wants it.
        is_over: whether that has come.
    """

    threads: int
    stop: Stop = field(default_factory=Stop)
    held: contextlib.ExitStack | None = None
    is_over: bool = False
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def hold(self, held: contextlib.ExitStack) -> None:
        """Keep what is held for as long as the cluster keeps the task's result."""
        with self.mutex:
            if not self.is_over:
                self.held = held
                return
        held.close()

    def end(self) -> None:
        """Let go of what is held, and of what will be."""
        self.stop.set()
        with self.mutex:
            self.is_over, held, self.held = True, self.held, None
        if held is not None:
            held.close()


class Site(WorkerPlugin):
    """What a worker has for imports: kernels, and the tasks whose results it holds.

    Dask counts who needs a result. The client lets go of it after it has pinned the blobs
    itself; if the client dies, or cancels, the scheduler does so: either way the worker's
    state of the task changes, and the pins go. No heartbeat of ours.
    """

    name = NAME
    idempotent = True

    def setup(self, worker: Any) -> None:  # noqa: ANN401 - Dask's, in any version
        """Begin with a worker."""
        self._worker = worker
        self._mutex = threading.Lock()
        self._loading = threading.Lock()
        self._given = 0
        self._tasks: dict[object, Task] = {}
        self._kernels: Counter[KernelSpec] = Counter()
        self._runtime: KernelRuntime = NUMPY
        # Letting go takes the lock of the store: not in the thread that talks to the cluster.
        self._closer = ThreadPoolExecutor(1, "ingot-closer")

    @classmethod
    def here(cls) -> Site:
        """Return that of the worker whose task this is."""
        site = get_worker().plugins[NAME]
        assert isinstance(site, Site), f"{site!r} took the name of our plugin"
        return site

    @property
    def address(self) -> str:
        """Of the worker."""
        return str(self._worker.address)

    def teardown(self, worker: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """Let go of everything."""
        with self._mutex:
            tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            self._closer.submit(task.end)
        self._closer.shutdown(wait=False)

    def transition(self, key: object, start: str, finish: str, **_: object) -> None:  # noqa: ARG002
        """See what becomes of a task: cancelled while it runs, or its result not needed."""
        if finish in _STOPPED and (task := self._tasks.get(key)) is not None:
            task.stop.set()
        elif finish in _OVER:
            with self._mutex:
                task = self._tasks.pop(key, None)
            if task is not None:
                self._closer.submit(task.end)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[Task]:
        """Yield the task that runs in this thread, with threads that no other task has."""
        key = self._worker.get_current_task()
        with self._mutex:
            threads = max(1, self._worker.state.nthreads - self._given)
            self._given += threads
            task = self._tasks[key] = Task(threads)
        try:
            yield task
        finally:
            with self._mutex:
                self._given -= threads

    def runtime(self, needed: Counter[KernelSpec], session: str) -> Runtime:
        """Return kernels: prepared once, for all tasks of the worker.

        Args:
            needed: by a whole import, with the bytes that each will read.
            session: that is told of what is noteworthy.
        """
        with self._loading:
            if self._kernels != needed:
                self._kernels = needed
                announce = {"session": session, "compiling": True}
                self._runtime = prepare(needed, lambda: self.tell(announce))
                if (problem := self._runtime.problem) is not None:
                    where = f"worker {self.address}: {problem}"
                    self.tell({"session": session, "problem": where})
            return self._runtime

    def tell(self, message: dict[str, object]) -> None:
        """Tell whoever listens."""
        self._worker.log_event(TOPIC, message)
