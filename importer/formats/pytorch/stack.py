"""The stack, the marks and the memo of a pickle's reader, and what it may allocate."""

from __future__ import annotations

from typing import Final

from importer.formats.pytorch.problems import malformed

BUDGET: Final = 192 << 20
"""Bytes that the values of one pickle may take, about: 10^5 tensors take half of it."""
STACK: Final = 1 << 20
VALUE: Final = 64
"""Bytes that a small value takes, about."""
_MARKS: Final = 64
_MEMO: Final = 4 << 20
_NOTHING: Final = object()


class Stack:
    """What a pickle has put down and not yet taken.

    Attributes:
        where: what to call the file in a message.
        values: the stack.
        marks: how many values were below each mark.
    """

    def __init__(self, where: str) -> None:
        """Begin with nothing."""
        self.where: Final = where
        self.values: list[object] = []
        self.marks: list[int] = []
        self._memo: list[object] = []
        self._left = BUDGET

    def charge(self, nbytes: int) -> None:
        """Count bytes that are about to be allocated."""
        self._left -= nbytes
        if self._left < 0:
            malformed(self.where, f"the pickle asks for more than {BUDGET} bytes of memory")

    def push(self, value: object, nbytes: int = VALUE) -> None:
        """Put a new value on the stack."""
        self.charge(nbytes)
        self.values.append(value)

    def pop(self) -> object:
        """Take the top value; none from below the last mark."""
        if len(self.values) <= (self.marks[-1] if self.marks else 0):
            malformed(self.where, "the pickle takes a value that it did not put there")
        return self.values.pop()

    def top(self) -> object:
        """Return the top value, and leave it there."""
        value = self.pop()
        self.values.append(value)
        return value

    def pop_mark(self) -> list[object]:
        """Take all values above the last mark, and the mark."""
        if not self.marks:
            malformed(self.where, "the pickle takes a mark that it did not set")
        start = self.marks.pop()
        values = self.values[start:]
        del self.values[start:]
        return values

    def mark(self) -> None:
        """Set a mark."""
        if len(self.marks) >= _MARKS:
            malformed(self.where, f"the pickle nests more than {_MARKS} marks")
        self.marks.append(len(self.values))

    def put(self, index: int) -> None:
        """Remember the top value under a number."""
        # The first is 1 in what Python 2 wrote.
        if index > len(self._memo) + 1 or index >= _MEMO:
            malformed(self.where, f"the pickle remembers a value as number {index}")
        value = self.top()
        while len(self._memo) <= index:
            self._memo.append(_NOTHING)
        self._memo[index] = value

    def get(self, index: int) -> None:
        """Put the value of a number on the stack."""
        value = self._memo[index] if index < len(self._memo) else _NOTHING
        if value is _NOTHING:
            malformed(self.where, f"the pickle has no value of number {index}")
        self.values.append(value)
