"""Whether an import fits is known before its first write."""

from __future__ import annotations

import errno
import os

import pytest

from importer.engine.space import check_space, telling_space
from store import Store
from store.errors import NoSpaceError
from store.fs import FileSystem
from store.status import Free
from tests.cli.runner import run
from tests.importer.builders import MODELS


class Disk(FileSystem):
    """The real file system, but for what it says is free; it notes where it was asked."""

    def __init__(self, nbytes=1 << 40, block=4096, files=None):
        self.is_free = Free(nbytes, block, files)
        self.asked = []

    def free(self, path):
        self.asked.append(path)
        return self.is_free


def check(tmp_path, sizes, **disk):
    check_space(Store(tmp_path / "not" / "there", Disk(**disk)), sizes)


def refused(tmp_path, sizes, **disk):
    with pytest.raises(NoSpaceError) as caught:
        check(tmp_path, sizes, **disk)
    assert (caught.value.exit_code, caught.value.code) == (7, "E_NOSPACE")
    return str(caught.value)


def test_what_fits_passes(tmp_path):
    check(tmp_path, [1000, 0, 10**9])


def test_what_does_not_fit_is_refused_with_numbers(tmp_path):
    message = refused(tmp_path, [10**9], nbytes=10**9)

    assert f"`{tmp_path / 'not' / 'there'}` has 1.0 GB (1,000,000,000 bytes) free; " in message
    assert message.endswith("nothing was written")
    assert int(message.partition("(")[2].partition(" ")[0].replace(",", "")) >= 10**9


def test_a_file_takes_whole_blocks(tmp_path):
    tiny = [1] * 100_000

    check(tmp_path, tiny, nbytes=100 << 20, block=1)
    refused(tmp_path, tiny, nbytes=100 << 20, block=4096)


def test_a_small_import_needs_little_more_than_its_files_take(tmp_path):
    """36 blobs of qwen3 in int4 were refused with 1.3 MB free: 476 KB are written."""
    sizes = [13_000] * 35 + [2_000]

    check(tmp_path, sizes, nbytes=1_000_000)
    told = refused(tmp_path, sizes, nbytes=500_000)
    assert "457,000 of them content" in told


def test_what_is_counted_is_what_an_import_takes(tmp_path):
    place = tmp_path / "store"
    run("create", "m", MODELS / "tiny-llama", "-q", "int4", store=place).succeeded()
    blobs = [path.stat().st_size for path in (place / "blobs").iterdir()]
    taken = sum(path.lstat().st_blocks * 512 for path in (place, *place.rglob("*")))

    with Store(place) as store:
        block = store.fs.free(place).block
    check(tmp_path, blobs, nbytes=taken + (200 << 10), block=block)
    refused(tmp_path, blobs, nbytes=taken, block=block)


def test_documents_take_space_too(tmp_path):
    refused(tmp_path, [], nbytes=1000)


def test_files_are_counted_where_the_file_system_counts_them(tmp_path):
    check(tmp_path, [1] * 9, files=100)
    assert "files, the file system of" in refused(tmp_path, [1] * 9, files=8)


def test_what_an_import_writes_beside_its_blobs_takes_files_too(tmp_path):
    assert "has 4 left" in refused(tmp_path, [1], files=4)


def test_a_huge_import_is_only_arithmetic(tmp_path):
    assert "needs up to 8796 PB (8,796,093," in refused(tmp_path, [8 << 40] * 10**6)


def test_the_nearest_directory_that_exists_is_asked(tmp_path):
    disk = Disk()

    check_space(Store(tmp_path / "a" / "b" / "c", disk), [1])

    assert disk.asked == [tmp_path]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_fills_up_on_the_way_is_told_with_numbers(tmp_path, error):
    store = Store(tmp_path, Disk(nbytes=4096, files=7))

    with pytest.raises(NoSpaceError) as caught, telling_space(store, [10**9]):
        raise OSError(error, os.strerror(error), "/s/0.partial")

    message = str(caught.value)
    assert message.startswith(
        f"`/s/0.partial`: {os.strerror(error)}; the import needs up to 1.0 GB (1,0"
    )
    assert message.endswith(
        f"files, `{tmp_path}` has 4.1 KB (4,096 bytes) and 7 files free now"
    )


def test_files_that_nobody_counts_are_not_told(tmp_path):
    with pytest.raises(NoSpaceError) as caught, telling_space(Store(tmp_path, Disk()), [1]):
        raise OSError(errno.ENOSPC, "full")

    assert str(caught.value).endswith(f"`{tmp_path}` has 1.1 TB ({1 << 40:,} bytes) free now")


def test_another_failure_is_told_as_it_is(tmp_path):
    with pytest.raises(OSError, match="broken"), telling_space(Store(tmp_path, Disk()), [1]):
        raise OSError(errno.EIO, "broken")
