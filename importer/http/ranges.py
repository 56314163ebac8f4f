"""A range of bytes over HTTP, however often the connection breaks."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final, NamedTuple

from store.errors import NO_FACTS, Facts, NetworkError
from store.parallel import StoppedError

TRIES: Final = 5
"""In a row that bring no byte, before a transfer is given up."""
_FIRST_WAIT: Final = 0.25
"""In seconds; four times as long after each further failure."""
_LONGEST_WAIT: Final = 8.0
_PARTIAL: Final = 206
_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class UnreachableError(NetworkError):
    """A server does not answer, or says that it cannot; it may later.

    Attributes:
        wait: seconds after which it wants to be asked again, or None where it does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str | None = None,
        facts: Facts = NO_FACTS,
        wait: float | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, facts=facts)
        self.wait = wait


class Patience:
    """Decides how often and after which time something is tried again.

    Attributes:
        failures: in a row.
    """

    def __init__(
        self, tries: int, stop: threading.Event, longest: float = _LONGEST_WAIT
    ) -> None:
        self._tries, self._stop, self._longest = tries, stop, longest
        self.failures = 0

    def wait(self, error: UnreachableError) -> None:
        """Wait after a failure.

        Raises:
            UnreachableError: it was one too many.
            StoppedError: something else ended the work meanwhile.
        """
        self.failures += 1
        if self.failures >= self._tries:
            raise error
        pause = min(_FIRST_WAIT * 4.0 ** (self.failures - 1), self._longest)
        if self._stop.wait(pause if error.wait is None else error.wait):
            raise StoppedError from None


class Answer(NamedTuple):
    """The body of an answer.

    Attributes:
        start: offset of its first byte, which is 0 where a server does not know ranges.
        chunks: of it.
    """

    start: int
    chunks: Iterable[bytes]


Ask = Callable[[int], AbstractContextManager[Answer]]
"""Asks for the bytes from an offset on."""


def received(
    ask: Ask, start: int, end: int, patience: Patience, cut: Callable[[int], UnreachableError]
) -> Generator[bytes]:
    """Yield the bytes from `start` to before `end`.

    Args:
        ask: the server, anew after each failure.
        start: offset of the first byte.
        end: offset behind the last.
        patience: with failures in a row that bring no byte.
        cut: gives the error of an answer that ends too early, at an offset.

    Raises:
        UnreachableError: they cannot be had.
    """
    while start < end:
        try:
            with ask(start) as answer:
                position = answer.start
                for chunk in answer.chunks:
                    wanted = chunk[max(start - position, 0) : max(end - position, 0)]
                    position += len(chunk)
                    if wanted:
                        start += len(wanted)
                        patience.failures = 0
                        yield wanted
                    if position >= end:
                        return
            raise cut(position)
        except UnreachableError as error:
            patience.wait(error)


def first_byte(status: int, headers: Mapping[str, str], start: int, size: int) -> int | None:
    """Return the offset at which an answer begins that was asked to begin at `start`.

    None means that it says what cannot be, such as another range, or another size of the file.
    """
    if status != _PARTIAL:
        return 0
    match = _RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None or int(match[1]) != start or match[2] not in {"*", str(size)}:
        return None
    return start
