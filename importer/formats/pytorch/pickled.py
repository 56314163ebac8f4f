"""A reader of the pickles that PyTorch writes: a list of opcodes, and nothing that runs.

It builds strings, numbers, tuples, lists and dictionaries; what it may "call" are functions of
`names.py`, which make descriptions of tensors. An opcode or a global outside of the list is an
error. What it may allocate is bounded by a budget, which every value is charged to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NoReturn

from importer.formats.pytorch.names import resolve
from importer.formats.pytorch.problems import forbidden, malformed, unread
from importer.formats.pytorch.stream import Stream
from importer.formats.pytorch.values import Named, Ordered, Storage

LoadStorage = Callable[[tuple[object, ...]], Storage]
"""Makes a storage of a persistent id."""

BUDGET: Final = 192 << 20
"""Bytes that the values of one pickle may take, about: 10^5 tensors take half of it."""
_PICKLE_BYTES: Final = 128 << 20
_STACK: Final = 1 << 20
_MARKS: Final = 64
_MEMO: Final = 4 << 20
_NAME: Final = 256
_STRING: Final = 1 << 20
_LONG: Final = 16
_NOTHING: Final = object()
_PROTOCOL: Final = 2
_VALUE = 64
_ENTRY = 100
_FIRST_ENTRY = 250
_KEYS: Final = frozenset({str, int, bool, type(None)})
_LARGEST_KEY: Final = 1 << 32


def load(stream: Stream, load_storage: LoadStorage) -> object:
    """Read one pickle; the stream is then behind it.

    Raises:
        InputError: it is malformed, or asks for more than data.
        UnsupportedError: a kind of tensor that is not read.
    """
    return _Machine(stream, load_storage).run()


class _Machine:
    def __init__(self, stream: Stream, load_storage: LoadStorage) -> None:
        self._stream: Final = stream
        self._where: Final = stream.where
        self._load_storage: Final = load_storage
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: list[object] = []
        self._left = BUDGET
        self._stop_at: Final = stream.position + _PICKLE_BYTES

    def run(self) -> object:
        start = self._stream.take(2)
        if start[:1] != b"\x80":
            malformed(self._where, "a pickle does not begin with its protocol")
        if start[1] != _PROTOCOL:
            malformed(self._where, f"a pickle of protocol {start[1]}, PyTorch writes 2")
        take, actions = self._stream.take, _ACTIONS
        while (code := take(1)) != b".":
            action = actions.get(code)
            if action is None:
                self._refuse(code)
            action(self)
            if len(self._stack) > _STACK:
                malformed(self._where, f"the pickle stacks more than {_STACK} values")
            if self._stream.position > self._stop_at:
                malformed(self._where, f"a pickle of more than {_PICKLE_BYTES} bytes")
        result = self._pop()
        if self._stack or self._marks:
            malformed(self._where, "the pickle ends with values left over")
        return result

    def _refuse(self, code: bytes) -> NoReturn:
        name = _OTHERS.get(code)
        shown = f"the opcode {name}" if name else f"the byte {code.hex()}, which is no opcode"
        forbidden(
            self._where,
            f"the pickle has {shown}, which PyTorch does not write for weights: nothing was "
            "executed",
            "E_PT_OPCODE",
        )

    # The stack, the memo, the budget.

    def _charge(self, nbytes: int) -> None:
        self._left -= nbytes
        if self._left < 0:
            malformed(self._where, f"the pickle asks for more than {BUDGET} bytes of memory")

    def _push(self, value: object, nbytes: int = _VALUE) -> None:
        self._charge(nbytes)
        self._stack.append(value)

    def _pop(self) -> object:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            malformed(self._where, "the pickle takes a value that it did not put there")
        return self._stack.pop()

    def _top(self) -> object:
        value = self._pop()
        self._stack.append(value)
        return value

    def _pop_mark(self) -> list[object]:
        if not self._marks:
            malformed(self._where, "the pickle takes a mark that it did not set")
        start = self._marks.pop()
        values = self._stack[start:]
        del self._stack[start:]
        return values

    def mark(self) -> None:
        if len(self._marks) >= _MARKS:
            malformed(self._where, f"the pickle nests more than {_MARKS} marks")
        self._marks.append(len(self._stack))

    def _put(self, index: int) -> None:
        # The first is 1 in what Python 2 wrote.
        if index > len(self._memo) + 1 or index >= _MEMO:
            malformed(self._where, f"the pickle remembers a value as number {index}")
        value = self._top()
        while len(self._memo) <= index:
            self._memo.append(_NOTHING)
        self._memo[index] = value

    def _get(self, index: int) -> None:
        value = self._memo[index] if index < len(self._memo) else _NOTHING
        if value is _NOTHING:
            malformed(self._where, f"the pickle has no value of number {index}")
        self._stack.append(value)

    # Opcodes.

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._stream.take(struct.calcsize(form)))
        return int(number)

    def binput(self) -> None:
        self._put(self._stream.take(1)[0])

    def long_binput(self) -> None:
        self._put(self._number("<I"))

    def binget(self) -> None:
        self._get(self._stream.take(1)[0])

    def long_binget(self) -> None:
        self._get(self._number("<I"))

    def none(self) -> None:
        self._stack.append(None)

    def true(self) -> None:
        self._stack.append(True)

    def false(self) -> None:
        self._stack.append(False)

    def binint(self) -> None:
        self._push(self._number("<i"))

    def binint1(self) -> None:
        self._stack.append(self._stream.take(1)[0])

    def binint2(self) -> None:
        self._push(self._number("<H"))

    def long1(self) -> None:
        length = self._stream.take(1)[0]
        if length > _LONG:
            malformed(self._where, f"the pickle has a number of {length} bytes")
        self._push(int.from_bytes(self._stream.take(length), "little", signed=True))

    def binfloat(self) -> None:
        (number,) = struct.unpack(">d", self._stream.take(8))
        self._push(number)

    def _string(self, length: int) -> None:
        if length > _STRING:
            malformed(self._where, f"the pickle has a string of {length} bytes")
        data = self._stream.take(length)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            malformed(self._where, "the pickle has a string that is not UTF-8")
        self._push(text, _VALUE + 4 * length)

    def binunicode(self) -> None:
        self._string(self._number("<I"))

    def short_binstring(self) -> None:
        self._string(self._stream.take(1)[0])

    def empty_tuple(self) -> None:
        self._stack.append(())

    def empty_list(self) -> None:
        self._push([])

    def empty_dict(self) -> None:
        self._push({})

    def empty_set(self) -> None:
        self._push(Named("a set"))

    def _tuple(self, values: list[object]) -> None:
        self._push(tuple(values), _VALUE + 8 * len(values))

    def tuple(self) -> None:
        self._tuple(self._pop_mark())

    def tuple1(self) -> None:
        self._tuple([self._pop()])

    def tuple2(self) -> None:
        self._tuple([self._pop(), self._pop()][::-1])

    def tuple3(self) -> None:
        self._tuple([self._pop(), self._pop(), self._pop()][::-1])

    def _extend(self, values: list[object]) -> None:
        target = self._top()
        if type(target) is not list:
            malformed(self._where, "the pickle appends to what is not a list")
        self._charge(16 * len(values))
        target.extend(values)

    def append(self) -> None:
        self._extend([self._pop()])

    def appends(self) -> None:
        self._extend(self._pop_mark())

    def _set(self, values: list[object]) -> None:
        target = self._top()
        if type(target) is not dict and type(target) is not Ordered:
            malformed(self._where, "the pickle sets an item of what is not a dictionary")
        if len(values) % 2:
            malformed(self._where, "the pickle sets a key without a value")
        if values and not target:
            self._charge(_FIRST_ENTRY)
        self._charge(_ENTRY * (len(values) // 2))
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Hashing a tuple takes time that grows with all that is in it, and large numbers
            # can be chosen so that all have one hash.
            if type(key) not in _KEYS or (type(key) is int and abs(key) >= _LARGEST_KEY):
                malformed(
                    self._where, "the pickle has a key that is neither text nor a small number"
                )
            if key in target:
                malformed(self._where, "the pickle sets one key of a dictionary twice")
            target[key] = value

    def setitem(self) -> None:
        self._set([self._pop(), self._pop()][::-1])

    def setitems(self) -> None:
        self._set(self._pop_mark())

    def find(self) -> None:
        module = self._stream.line(_NAME)
        name = self._stream.line(_NAME)
        self._push(resolve(self._where, module, name))

    def reduce(self) -> None:
        arguments, function = self._pop(), self._pop()
        if isinstance(function, Named) or not callable(function):
            name = function.name if isinstance(function, Named) else "what is not a function"
            forbidden(self._where, f"the pickle calls {name}", "E_PT_OPCODE")
        if type(arguments) is not tuple:
            malformed(self._where, "the pickle calls a function without a tuple of arguments")
        self._charge(_FIRST_ENTRY)
        if len(arguments) == 1 and type(arguments[0]) is list:
            self._charge(_ENTRY * len(arguments[0]))
        self._stack.append(function(self._where, arguments))

    def newobj(self) -> None:
        """Make an object without its class's `__init__`: of weights an OrderedDict alone."""
        arguments, cls = self._pop(), self._pop()
        if cls is not resolve(self._where, "collections", "OrderedDict") or arguments != ():
            name = cls.name if isinstance(cls, Named) else "what is not a class"
            forbidden(self._where, f"the pickle makes an object of {name}", "E_PT_OPCODE")
        self._push(Ordered(), _FIRST_ENTRY)

    def build(self) -> None:
        """Drop the attributes of an OrderedDict, such as its `_metadata`."""
        state, target = self._pop(), self._top()
        if type(target) is not Ordered or type(state) is not dict:
            forbidden(
                self._where,
                "the pickle gives attributes to what is not an OrderedDict (the opcode BUILD, "
                "which could run `__setstate__`): nothing was executed",
                "E_PT_OPCODE",
            )

    def binpersid(self) -> None:
        pid = self._pop()
        if type(pid) is not tuple:
            malformed(self._where, "the pickle has a persistent id that is not a tuple")
        if pid[:1] == ("module",):
            unread(self._where, "it holds a module, not only weights")
        self._push(self._load_storage(pid), 2 * _VALUE)


_ACTIONS: Final[dict[bytes, Callable[[_Machine], None]]] = {
    b"(": _Machine.mark,
    b")": _Machine.empty_tuple,
    b"]": _Machine.empty_list,
    b"}": _Machine.empty_dict,
    b"\x8f": _Machine.empty_set,
    b"t": _Machine.tuple,
    b"\x85": _Machine.tuple1,
    b"\x86": _Machine.tuple2,
    b"\x87": _Machine.tuple3,
    b"N": _Machine.none,
    b"\x88": _Machine.true,
    b"\x89": _Machine.false,
    b"J": _Machine.binint,
    b"K": _Machine.binint1,
    b"M": _Machine.binint2,
    b"\x8a": _Machine.long1,
    b"G": _Machine.binfloat,
    b"X": _Machine.binunicode,
    b"U": _Machine.short_binstring,
    b"q": _Machine.binput,
    b"r": _Machine.long_binput,
    b"h": _Machine.binget,
    b"j": _Machine.long_binget,
    b"a": _Machine.append,
    b"e": _Machine.appends,
    b"s": _Machine.setitem,
    b"u": _Machine.setitems,
    b"c": _Machine.find,
    b"R": _Machine.reduce,
    b"\x81": _Machine.newobj,
    b"b": _Machine.build,
    b"Q": _Machine.binpersid,
}
_OTHERS: Final = {
    b"\x80": "PROTO in the middle",
    b"\x93": "STACK_GLOBAL",
    b"i": "INST",
    b"o": "OBJ",
    b"\x82": "EXT1",
    b"\x83": "EXT2",
    b"\x84": "EXT4",
    b"\x92": "NEWOBJ_EX",
    b"P": "PERSID",
    b"\x94": "MEMOIZE",
    b"\x95": "FRAME",
    b"B": "BINBYTES",
    b"C": "SHORT_BINBYTES",
    b"\x8e": "BINBYTES8",
    b"\x8d": "BINUNICODE8",
    b"\x8c": "SHORT_BINUNICODE",
    b"\x96": "BYTEARRAY8",
    b"\x97": "NEXT_BUFFER",
    b"\x98": "READONLY_BUFFER",
    b"\x8b": "LONG4",
    b"\x90": "ADDITEMS",
    b"\x91": "FROZENSET",
    b"T": "BINSTRING",
    b"S": "STRING",
    b"V": "UNICODE",
    b"I": "INT",
    b"L": "LONG",
    b"F": "FLOAT",
    b"l": "LIST",
    b"d": "DICT",
    b"p": "PUT",
    b"g": "GET",
    b"0": "POP",
    b"1": "POP_MARK",
    b"2": "DUP",
}
