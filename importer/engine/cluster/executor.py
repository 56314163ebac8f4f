"""An executor whose jobs run on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import pickle
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto, unique
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from importer.engine.cluster.fitness import TOPIC, View, look, versions
from store.errors import IngotError, NetworkError, UsageError
from store.text import printable

if TYPE_CHECKING:
    from distributed import Client, Future

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")

_FIRST_WORKER: Final = 30.0
"""Seconds to wait for a worker at the start."""
_NO_WORKER: Final = 300.0
"""Seconds to wait for one later: those that died may be started again."""
_AT_ONCE: Final = 64
"""Results that are fetched together: all of them are held meanwhile."""
_LOOK: Final = 1.0
"""Seconds between two looks at which workers there are."""
_AHEAD: Final = 2
"""Jobs for each thread of the cluster that are handed out at a time: one to do, one to follow.
What is made and not taken yet is bounded so, too."""


@unique
class _End(Enum):
    END = auto()


class Cluster:
    """Runs jobs on the workers of a cluster; see `Executor`.

    A worker holds what a job made until the next result is asked for: whoever runs jobs takes
    over meanwhile. Jobs of a worker that dies are run again by another.

    Attributes:
        workers: that there were at the last look.
        threads: of all of them.
    """

    def __init__(self, client: Client, address: str) -> None:
        """Wait for a worker.

        Raises:
            NetworkError: none came.
        """
        from distributed import KilledWorker  # noqa: PLC0415 - only now it is known to be there

        self._client, self._address = client, address
        self._deaths: type[Exception] = KilledWorker
        self._expected: View | None = None
        self._fit: set[str] = set()
        self.workers = self.threads = 0
        self._looked = self._seen = 0.0
        with self._talking():
            try:
                client.wait_for_workers(1, timeout=_FIRST_WORKER)
            except TimeoutError:
                raise NetworkError(
                    f"the scheduler at `{printable(address)}` has no worker, waited "
                    f"{_FIRST_WORKER:.0f} s for one",
                    code="E_CLUSTER_WORKERS",
                ) from None
        self._look()

    def check(self, view: View) -> None:
        """Make sure that all workers, those that come later too, see and run the same.

        Raises:
            UsageError: one does not; it names the worker, what was expected and found.
        """
        from importer.engine.cluster.site import Site  # noqa: PLC0415 - it imports Dask

        self._expected = view
        with self._talking():
            try:
                there = self._client.run_on_scheduler(versions)
            except Exception as error:  # noqa: BLE001 - whatever keeps it from ingot
                _refuse("scheduler", self._address, "", f"cannot run ingot: {error}", _VERSION)
        _compare("scheduler", self._address, "", there)
        self._look()
        with self._talking():
            self._client.register_plugin(Site())

    def listen(self, heard: Callable[[dict[str, Any]], None]) -> None:
        """Have messages of workers handed over, in a thread of the client."""
        with self._talking():
            self._client.subscribe_topic(TOPIC, lambda event: heard(event[1]))

    def run(
        self, jobs: Iterable[_Job], work: Callable[[_Job], _Result]
    ) -> Iterator[tuple[_Job, _Result]]:
        """Yield each job with its result; see `Executor`.

        Raises:
            NetworkError: the scheduler is gone, all workers are, or a job kills them.
        """
        waiting = iter(jobs)
        running: dict[Future[Any], _Job] = {}
        done: SimpleQueue[Future[Any]] = SimpleQueue()
        try:
            while True:
                while len(running) < max(1, _AHEAD * self.threads):
                    job = next(waiting, _End.END)
                    if job is _End.END:
                        break
                    running[self._submit(job, work, done)] = job
                if not running:
                    return
                for future, result in self._results(self._next(done)):
                    yield running.pop(future), result
                    # The client has what it needs: from now on the worker may let go.
                    with self._talking():
                        future.release()
        finally:
            with contextlib.suppress(Exception):
                if running and self._client.status == "running":
                    self._client.cancel(list(running))

    def _submit(
        self, job: _Job, work: Callable[[_Job], _Result], done: SimpleQueue[Future[Any]]
    ) -> Future[Any]:
        from importer.engine.cluster.site import perform  # noqa: PLC0415 - it imports Dask

        payload = pickle.dumps((work, job), pickle.HIGHEST_PROTOCOL)
        with self._talking():
            future = self._client.submit(perform, payload, key=f"ingot-{uuid.uuid4().hex}")
            future.add_done_callback(done.put)
        return future

    def _next(self, done: SimpleQueue[Future[Any]]) -> list[Future[Any]]:
        """Wait for what is done next; return all that is."""
        while True:
            if time.monotonic() - self._looked >= _LOOK:
                self._look()
            with contextlib.suppress(Empty):
                found = [done.get(timeout=_LOOK)]
                while not done.empty() and len(found) < _AT_ONCE:
                    found.append(done.get())
                return found

    def _results(self, futures: list[Future[Any]]) -> Iterator[tuple[Future[Any], Any]]:
        """Yield the results of what is done: fetched at once, as a round trip takes 5 ms."""
        good = [future for future in futures if future.status == "finished"]
        try:
            results = self._client.gather(good)
        except Exception:  # noqa: BLE001 - one by one it shows what was wrong, and with which
            good, results = [], []
        yield from zip(good, results, strict=True)
        for future in (future for future in futures if future not in good):
            yield future, self._result(future)

    def _result(self, future: Future[Any]) -> Any:  # noqa: ANN401 - of any job
        with self._talking():
            failure = future.exception() if future.status == "error" else None
            if failure is None:
                return future.result()  # it was lost meanwhile, and is done again
        if isinstance(failure, self._deaths):
            last = getattr(getattr(failure, "last_worker", None), "address", "unknown")
            raise NetworkError(
                f"every worker that tried one of the jobs died, the last was {printable(last)}",
                code="E_CLUSTER_DIED",
            )
        self._look()  # if it came from a worker that nobody has looked at, this tells more
        raise failure

    def _look(self) -> None:
        """See which workers there are, and whether new ones are fit."""
        with self._talking():
            threads = self._client.nthreads()
        now = self._looked = time.monotonic()
        self.workers, self.threads = len(threads), sum(threads.values())
        if threads:
            self._seen = now
        elif self._seen and now - self._seen > _NO_WORKER:
            raise NetworkError(
                f"the scheduler at `{printable(self._address)}` has had no worker for "
                f"{_NO_WORKER:.0f} s",
                code="E_CLUSTER_WORKERS",
            )
        if self._expected is not None and (fresh := threads.keys() - self._fit):
            self._check(sorted(fresh), self._expected)

    def _check(self, workers: list[str], expected: View) -> None:
        with self._talking():
            answers = self._client.run(look, *expected, workers=workers, on_error="return")
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, OSError):
                continue  # it has gone meanwhile
            if isinstance(answer, Exception):
                _refuse("worker", worker, "", f"cannot run ingot: {answer}", _VERSION)
            _compare("worker", worker, answer["host"], answer["versions"])
            if problem := answer["problem"]:
                _refuse("worker", worker, answer["host"], f"does not fit: {problem}", _PATH)
            self._fit.add(worker)

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        """Say so when the scheduler is gone, in place of what Dask's client raises then."""
        try:
            yield
        except IngotError:
            raise
        except Exception as error:
            is_lost = isinstance(error, OSError | TimeoutError | _cancelled())
            if self._client.status == "running" and not is_lost:
                raise
            raise NetworkError(
                f"the connection to the scheduler at `{printable(self._address)}` was lost",
                code="E_CLUSTER_LOST",
            ) from error


_VERSION: Final = "E_CLUSTER_VERSION"
_PATH: Final = "E_CLUSTER_PATH"
_NAMES: Final = {"codecs": "revision of the codecs", "python": "Python"}


def _compare(kind: str, address: str, host: str, there: dict[str, str]) -> None:
    for name, expected in versions().items():
        if (found := there.get(name, "none")) != expected:
            what = f"has {_NAMES.get(name, name)} {found}, expected {expected} as here"
            _refuse(kind, address, host, what, _VERSION)


def _refuse(kind: str, address: str, host: str, what: str, code: str) -> NoReturn:
    where = f"{kind} {printable(address)}" + (f" on {printable(host)}" if host else "")
    raise UsageError(f"{where} {printable(what)}; nothing was begun there", code=code)


def _cancelled() -> type[BaseException]:
    from concurrent.futures import CancelledError  # noqa: PLC0415 - Dask has imported it

    return CancelledError
