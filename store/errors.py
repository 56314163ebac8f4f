"""The errors a user can meet, one class per exit code."""

from __future__ import annotations

import copyreg
import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

Facts = Mapping[str, str | int]
"""What an error is about, by name: what a hint needs to name the thing that helps."""

NO_FACTS: Final[Facts] = MappingProxyType({})


class IngotError(Exception):
    """An error whose message is written for the user.

    Attributes:
        exit_code: what the process ends with; stable forever (docs/errors.md).
        code: a stable word for scripts, such as `E_ST_TRUNCATED`.
        hint: what helps whatever the program that asked, or None. Flags and commands are
            not named here: `cli.hints` knows by the code what the command line offers.
        facts: values that such a hint names.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, code: str, hint: str | None = None, facts: Facts = NO_FACTS
    ) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.facts = facts

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is made again from `args` alone otherwise, which lack the code.
        state = {**self.__dict__, "facts": dict(self.facts)}
        return copyreg.__newobj__, (type(self), *self.args), state  # type: ignore[attr-defined]


class UsageError(IngotError):
    """The call itself is wrong: a bad name or an impossible combination."""

    exit_code = 2


class InputError(IngotError):
    """The source is malformed, incomplete or hostile."""

    exit_code = 3


class UnsupportedError(IngotError):
    """Well-formed, but not supported."""

    exit_code = 4


class IntegrityError(IngotError):
    """The store is damaged."""

    exit_code = 5


class BusyError(IngotError):
    """A lock was not obtained in time."""

    exit_code = 6


class NoSpaceError(IngotError):
    """The disk, the quota or the size limit does not admit the bytes."""

    exit_code = 7


class StorageError(IngotError):
    """The machine failed: an I/O error, permissions, an unsafe store."""

    exit_code = 8


class NotFoundError(IngotError):
    """The model, tag or source does not exist."""

    exit_code = 9


class NetworkError(IngotError):
    """The network or the server behind it failed; trying again may help."""

    exit_code = 10


class AuthError(IngotError):
    """The server wants other credentials, or any."""

    exit_code = 11


class DiffersError(IngotError):
    """What was to be the same is not."""

    exit_code = 12


_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_no_space(error: OSError) -> bool:
    """Return whether the file system, the quota or the size limit was full."""
    return error.errno in _NO_SPACE


_CODES: Final[Mapping[int, str]] = MappingProxyType(
    {errno.EACCES: "E_ACCESS", errno.EPERM: "E_ACCESS", errno.EROFS: "E_READ_ONLY"}
)
_TOO_LONG: Final = "Use a shorter path: the file system does not take one of this length"
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_exhausted(error: OSError) -> bool:
    """Return whether descriptors or memory ran out: nothing is wrong with the file."""
    return error.errno in _EXHAUSTED


def from_os_error(error: OSError) -> IngotError:
    """Translate what the operating system refused into the user's terms."""
    what = error.strerror or str(error)
    where = f"`{error.filename}`: " if error.filename else ""
    name = errno.errorcode.get(error.errno or 0, "EIO")
    if is_no_space(error):
        return NoSpaceError(f"{where}{what}", code="E_NOSPACE")
    code = "E_EXHAUSTED" if is_exhausted(error) else _CODES.get(error.errno or 0, "E_IO")
    hint = _TOO_LONG if error.errno == errno.ENAMETOOLONG else None
    return StorageError(f"{where}{what} ({name})", code=code, hint=hint)


def in_words(error: IngotError | OSError) -> str:
    """Return what failed as part of a finding, without python's `[Errno 5]`."""
    return str(from_os_error(error) if isinstance(error, OSError) else error)
