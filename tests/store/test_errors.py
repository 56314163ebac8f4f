from __future__ import annotations

import errno
import pickle

import pytest

from store import errors
from store.errors import IngotError, NoSpaceError, StorageError, from_os_error, is_no_space


def all_errors():
    return [kind for kind in vars(errors).values() if isinstance(kind, type)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_quota_or_limit_is_no_space(number):
    error = OSError(number, "full", "file")

    assert is_no_space(error)
    assert isinstance(from_os_error(error), NoSpaceError)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES, errno.EMFILE])
def test_anything_else_is_the_machine(number):
    error = from_os_error(OSError(number, "broken", "file"))

    assert isinstance(error, StorageError)
    assert str(error) == f"`file`: broken ({errno.errorcode[number]})"


def test_an_error_without_number_and_name_is_translated():
    assert str(from_os_error(OSError("broken"))) == "broken (EIO)"


def test_exit_codes_are_those_that_are_promised():
    codes = {
        kind.__name__: kind.exit_code for kind in all_errors() if issubclass(kind, IngotError)
    }

    assert codes == {
        "IngotError": 1,
        "UsageError": 2,
        "InputError": 3,
        "UnsupportedError": 4,
        "IntegrityError": 5,
        "BusyError": 6,
        "NoSpaceError": 7,
        "StorageError": 8,
        "NotFoundError": 9,
        "NetworkError": 10,
        "AuthError": 11,
        "DiffersError": 12,
    }


def test_want_of_descriptors_has_a_code_of_its_own():
    assert from_os_error(OSError(errno.EMFILE, "too many", "file")).code == "E_EXHAUSTED"
    assert from_os_error(OSError(errno.EIO, "broken", "file")).code == "E_IO"


@pytest.mark.parametrize(
    "kind", [kind for kind in all_errors() if issubclass(kind, IngotError)]
)
def test_an_error_is_whole_after_a_journey(kind):
    error = kind("what", code="E_X", hint="help", facts={"n": 1})

    there = pickle.loads(pickle.dumps(error))

    assert (type(there), str(there), vars(there)) == (kind, "what", vars(error))
