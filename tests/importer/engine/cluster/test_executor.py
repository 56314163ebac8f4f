"""The executor: what comes back, what is cancelled, and whom it refuses."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import pytest

from importer.engine.cluster import connection, executor
from importer.engine.cluster.connection import connected
from importer.engine.cluster.executor import Cluster
from importer.engine.cluster.fitness import View, look, versions
from importer.engine.cluster.site import Site
from importer.sources.file import find
from store.errors import InputError, NetworkError, UsageError

STARTED, STOPPED = threading.Event(), threading.Event()


def double(number):
    return 2 * number


def refuse(number):
    raise InputError(f"no {number}", code="E_TEST", facts={"number": number})


def fail_to_read(_):
    raise OSError(5, "Input/output error", "/data/file")


def work_until_stopped(_):
    with Site.here().at_work() as task:
        STARTED.set()
        try:
            while True:
                task.stop.check()
                time.sleep(0.005)
        finally:
            STOPPED.set()


def count_threads(_):
    with Site.here().at_work() as task:
        time.sleep(0.05)
        return task.threads


def die_as_all_did(_):
    from distributed import KilledWorker

    raise KilledWorker("job", SimpleNamespace(address="tcp://last:1"), 3)


@pytest.fixture
def view(tmp_path):
    (tmp_path / "store" / "tmp" / "writer").mkdir(parents=True)
    (tmp_path / "store" / "blobs").mkdir()
    (tmp_path / "weights").write_bytes(b"12345")
    return View.of_store(tmp_path / "store", "writer", [find("weights", tmp_path / "weights")])


@pytest.fixture
def client(address, view):
    with connected(address) as client:
        cluster = Cluster(client, address)
        cluster.check(view)
        yield cluster


def test_every_job_comes_back_with_its_result(client):
    assert dict(client.run(range(100), double)) == {number: 2 * number for number in range(100)}


def test_jobs_are_taken_as_late_as_possible(client):
    taken = []

    def jobs():
        for number in range(1000):
            taken.append(number)
            yield number

    results = client.run(jobs(), double)
    next(results)

    client._look()
    assert client.threads == 4
    assert len(taken) <= 2 * 4 + 1


def test_an_error_of_ours_arrives_whole(client):
    with pytest.raises(InputError, match="no 7") as caught:
        list(client.run([7], refuse))

    assert (caught.value.code, caught.value.facts) == ("E_TEST", {"number": 7})


def test_an_error_of_the_system_names_the_worker(client):
    with pytest.raises(OSError, match="on worker inproc:") as caught:
        list(client.run([7], fail_to_read))

    assert (caught.value.errno, caught.value.filename) == (5, "/data/file")


def test_what_runs_is_stopped_when_nobody_waits_any_more(client):
    def jobs():
        yield 1
        STARTED.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(client.run(jobs(), work_until_stopped))

    assert STOPPED.wait(10)


def test_tasks_share_the_threads_of_their_worker(client):
    given = [threads for _, threads in client.run(range(16), count_threads)]

    assert set(given) <= {1, 2}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"root": "/nowhere"}, "the store `/nowhere` is not there"),
        ({"folder": "other"}, "is another store"),
        ({"files": [("/nowhere/weights", 5, 0)]}, "No such file"),
    ],
)
def test_a_worker_that_sees_something_else_is_refused(client, view, change, expected):
    client._fit.clear()

    with pytest.raises(UsageError, match=expected) as caught:
        client.check(view._replace(**change))

    assert caught.value.code == "E_CLUSTER_PATH"
    assert "worker inproc:" in str(caught.value)


def test_a_file_of_another_size_or_time_is_another_file(view):
    ((path, size, mtime_ns),) = view.files
    assert not look(*view)["problem"]

    assert (
        "5 bytes there, expected 6"
        in look(*view._replace(files=[(path, 6, mtime_ns)]))["problem"]
    )
    os.utime(path, ns=(0, 17))
    assert "mtime 17 ns there" in look(*view)["problem"]
    assert not look(*view._replace(files=[(path, size, 0)]))["problem"]  # a blob


@pytest.mark.parametrize("whose", ["scheduler", "worker"])
def test_another_version_is_refused(whose, monkeypatch):
    monkeypatch.setattr(executor, "versions", lambda: {**versions(), "numpy": "1.0"})

    with pytest.raises(UsageError, match=r"has numpy .*, expected 1\.0 as here") as caught:
        executor._compare(whose, "tcp://there:1", "", {**versions(), "codecs": "1"})

    assert caught.value.code == "E_CLUSTER_VERSION"
    assert str(caught.value).startswith(f"{whose} tcp://there:1 has numpy")


@pytest.mark.parametrize("address", ["", "foo://here:1", "tcp://", "localhost:port"])
def test_what_is_not_an_address_is_a_mistake_in_the_call(address):
    with pytest.raises(UsageError, match="not the address"), connected(address):
        pass


def test_nobody_who_answers_is_the_network(monkeypatch):
    monkeypatch.setattr(connection, "_CONNECTING", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"

        with pytest.raises(NetworkError, match="no scheduler answers") as caught:
            connected(address).__enter__()

    assert caught.value.code == "E_CLUSTER_SCHEDULER"


CONNECTS_AGAIN = """
import gc
from distributed import utils
from importer.engine.cluster import connection

class Thread(utils._CollectErrorThread):
    def __init__(self, *args, **options):
        if gc.isenabled():
            gc.collect()  # at the worst moment
        super().__init__(*args, **options)

def connect(address):
    try:
        connection.connected(address).__enter__()
    except Exception as error:
        return error.code

gc.set_threshold(0)
connection._CONNECTING = 0.3
utils._CollectErrorThread = Thread
first = connect("foo://here:1")
print(first, connect("tcp://127.0.0.1:9"))
"""


def test_a_client_that_never_connected_does_not_lock_the_next():
    command = [sys.executable, "-c", CONNECTS_AGAIN]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.split() == ["E_CLUSTER_ADDRESS", "E_CLUSTER_SCHEDULER"], done.stderr


def test_without_dask_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(connection, "_has_dask", lambda: False)

    with pytest.raises(UsageError, match="not installed") as caught, connected("tcp://h:1"):
        pass

    assert caught.value.code == "E_CLUSTER_MISSING"


def test_a_job_that_kills_its_workers_is_the_clusters_failure(client):
    with pytest.raises(NetworkError, match=r"the last was tcp://last:1") as caught:
        list(client.run([1], die_as_all_did))

    assert caught.value.code == "E_CLUSTER_DIED"


def test_a_worker_that_comes_later_is_looked_at_too(client, monkeypatch):
    results = client.run(range(100), double)
    next(results)
    client._fit.clear()  # as if they had come now
    client._looked = 0
    monkeypatch.setattr(executor, "versions", lambda: {**versions(), "numpy": "1.0"})

    with pytest.raises(UsageError, match="has numpy"):
        list(results)


def test_without_workers_there_is_a_time_to_give_up(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr(executor, "_FIRST_WORKER", 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        empty = LocalCluster(n_workers=0, processes=False, dashboard_address=None)
    address = empty.scheduler_address
    with (
        empty,
        connected(address) as client,
        pytest.raises(NetworkError, match="has no worker, waited"),
    ):
        Cluster(client, address)


def test_when_all_workers_have_gone_there_is_one_too(client, monkeypatch):
    monkeypatch.setattr(executor, "_NO_WORKER", 0)
    monkeypatch.setattr(client._client, "nthreads", dict)

    with pytest.raises(NetworkError, match="has had no worker for"):
        client._look()
