"""What arrives is what the Hub declares, however often the connection breaks."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from importer.http.ranges import UnreachableError
from importer.hub.download import download, read_range
from importer.hub.repository import HubClient
from importer.sources.location import HubRepository
from store.errors import NetworkError
from tests.hub.server import Fault, git_hash, sha256

pytestmark = pytest.mark.usefixtures("in_process")
CONTENT = random.Random(1).randbytes(300_000)
DIGEST = sha256(CONTENT)


@pytest.fixture
def remote(hub):
    """A repository with one large file and a small one."""
    hub.add("org/model", {"model.safetensors": CONTENT, "config.json": b"{}"})
    client = HubClient(HubRepository("org/model"))
    files = {file.path: file for file in client.listing().files}
    hub.forget_requests()
    return client, files["model.safetensors"]


def test_a_listing_has_sizes_and_hashes_of_every_page(hub):
    files = {f"{number:02}.json": b"x" * number for number in range(23)} | {"a.bin": b"large"}
    commit = hub.add("org/model", files).head

    listing = HubClient(HubRepository("org/model")).listing()

    assert listing.commit == commit
    assert [(file.path, file.size, file.key) for file in listing.files] == [
        (path, len(content), sha256(content) if path == "a.bin" else git_hash(content))
        for path, content in sorted(files.items())
    ]


@pytest.mark.parametrize("seed", range(10))
def test_a_broken_transfer_goes_on_where_it_broke(hub, remote, seed):
    client, file = remote
    cut = random.Random(seed).randrange(1, len(CONTENT))
    hub.faults.append(Fault(DIGEST, cut=cut))

    with pytest.raises(UnreachableError):
        download(client, file, tries=1)
    kept = client.part(file).read_bytes()
    told = []
    download(client, file, lambda event: told.append(event.nbytes), tries=1)

    assert kept == CONTENT[:cut]
    assert [(wanted, sent) for _, wanted, sent in hub.bodies()] == [
        (None, cut),
        (f"bytes={cut}-{len(CONTENT) - 1}", len(CONTENT) - cut),
    ]
    assert client.blob(file).read_bytes() == CONTENT
    assert sum(told) == len(CONTENT)
    assert not client.part(file).exists()


def test_one_run_outlives_many_broken_connections(hub, remote):
    client, file = remote
    hub.faults.append(Fault(DIGEST, cut=70_000, times=4))

    download(client, file)

    assert [sent for _, _, sent in hub.bodies()] == [70_000, 70_000, 70_000, 70_000, 20_000]
    assert client.blob(file).read_bytes() == CONTENT


def test_it_is_given_up_when_nothing_arrives_any_more(hub, remote):
    client, file = remote
    hub.faults.append(Fault(DIGEST, status=503, times=None))

    with pytest.raises(UnreachableError) as caught:
        download(client, file, tries=2)

    assert caught.value.exit_code == 10
    assert len([seen for seen in hub.requests if seen.storage]) == 2


def test_a_server_without_ranges_sends_everything_again(hub, remote):
    client, file = remote
    hub.faults += [Fault(DIGEST, cut=100_000), Fault(DIGEST, no_ranges=True)]

    download(client, file)

    assert client.blob(file).read_bytes() == CONTENT


def test_a_part_that_was_altered_meanwhile_is_not_believed(remote):
    client, file = remote
    part = client.part(file)
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes([CONTENT[0] ^ 1]) + CONTENT[1:200_000])
    told = []

    download(client, file, lambda event: told.append(event.nbytes))

    assert client.blob(file).read_bytes() == CONTENT
    assert sum(told) == len(CONTENT)


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 1])
def test_a_part_that_is_as_long_as_the_file_or_longer_is_checked(remote, size):
    client, file = remote
    part = client.part(file)
    part.parent.mkdir(parents=True)
    part.write_bytes((CONTENT + b"?")[:size])
    told = []

    download(client, file, lambda event: told.append(event.nbytes))

    assert client.blob(file).read_bytes() == CONTENT
    assert sum(told) == len(CONTENT)


def test_a_file_is_durable_before_it_has_its_name(remote, monkeypatch):
    client, file = remote
    synced = set()
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.add(os.fstat(fd).st_ino), sync(fd)))
    monkeypatch.setattr(
        os, "replace", lambda *paths: (synced.remove(os.stat(paths[0]).st_ino), replace(*paths))
    )

    download(client, file)

    assert client.blob(file).read_bytes() == CONTENT
    assert synced == set()


def test_bytes_that_change_on_the_way_are_refused(hub, remote):
    client, file = remote
    hub.faults.append(Fault(DIGEST, flip=7, times=None))

    with pytest.raises(NetworkError) as caught:
        download(client, file)

    assert caught.value.code == "E_HUB_DAMAGED"
    assert list((client.folder / "blobs").iterdir()) == []


def test_a_small_file_has_the_hash_that_git_gives_it(hub, remote):
    client, _ = remote
    file = next(file for file in client.listing().files if file.path == "config.json")
    hub.repositories["org/model"].commits[hub.repositories["org/model"].head] = {
        "config.json": b"[]"
    }

    with pytest.raises(NetworkError) as caught:
        download(client, file)

    assert caught.value.code == "E_HUB_DAMAGED"


def test_a_blob_of_another_size_is_fetched_again(remote):
    client, file = remote
    blob = client.blob(file)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(CONTENT[:-1])

    download(client, file)

    assert blob.read_bytes() == CONTENT


def test_two_at_once_fetch_a_file_once(hub, remote):
    client, file = remote
    hub.faults.append(Fault(DIGEST, seconds=0.3))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: download(client, file), range(2)))

    assert len(hub.bodies()) == 1


@pytest.mark.parametrize("no_ranges", [False, True])
def test_a_range_is_read_and_no_more(hub, remote, no_ranges):
    client, file = remote
    hub.faults.append(Fault(DIGEST, no_ranges=no_ranges))

    assert read_range(client, file, 1000, 1010) == CONTENT[1000:1010]
    assert hub.bodies()[0][1] == "bytes=1000-1009"


def test_an_answer_for_another_range_is_refused(hub, remote):
    client, file = remote
    wrong = {"Content_Range": "bytes 5-9/300000"}
    hub.faults.append(Fault(DIGEST, status=206, headers=wrong, times=None))

    with pytest.raises(NetworkError) as caught:
        read_range(client, file, 1000, 1010)

    assert caught.value.code == "E_HUB_ANSWER"
