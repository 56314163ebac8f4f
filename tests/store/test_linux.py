from __future__ import annotations

import ctypes
import errno

import pytest

from store import linux


class Kernel:
    """Stands for libc: each call ends with the next of some error numbers, then well."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)
        self.calls = 0

    def __call__(self, *_):
        self.calls += 1
        if not self.numbers:
            return 0
        ctypes.set_errno(self.numbers.pop(0))
        return -1


@pytest.fixture
def kernel(monkeypatch):
    def make(*numbers):
        made = Kernel(*numbers)
        monkeypatch.setattr(linux, "_libc", lambda _: made)
        return made

    return make


def test_a_reservation_that_a_signal_interrupts_is_made_again(kernel):
    made = kernel(errno.EINTR, errno.EINTR)

    linux.reserve(0, 1)

    assert made.calls == 3


@pytest.mark.parametrize(
    "number",
    # Of sandboxes that know no such call, and of file systems of all kinds.
    [errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENODEV, errno.ENOTTY],
)
def test_where_nothing_can_be_reserved_nothing_is(kernel, number):
    made = kernel(number)

    linux.reserve(0, 1)

    assert made.calls == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EFBIG])
def test_space_that_is_not_there_is_told(kernel, number):
    kernel(number)

    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number tells
        linux.reserve(0, 1)

    assert caught.value.errno == number


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_bytes_that_writing_back_loses_are_told(kernel, number):
    made = kernel(number)

    with pytest.raises(OSError) as caught:  # noqa: PT011 - its number tells
        linux.start_writing_back(0, 0, 1)

    assert caught.value.errno == number
    assert made.calls == 1


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.ESPIPE, errno.EINVAL])
def test_where_writing_back_cannot_be_begun_the_sync_does_it(kernel, number):
    kernel(number)

    linux.start_writing_back(0, 0, 1)


def test_reserved_space_is_no_content(tmp_path):
    with (tmp_path / "x").open("wb") as file:
        linux.reserve(file.fileno(), 5000)

    assert (tmp_path / "x").stat().st_size == 0


def test_free_memory_is_given_back(kernel):
    made = kernel()

    linux.give_back_memory()

    assert made.calls == 1


def test_where_the_library_keeps_its_memory_nothing_happens(monkeypatch):
    monkeypatch.setattr(linux, "_libc", lambda _: None)

    linux.give_back_memory()
