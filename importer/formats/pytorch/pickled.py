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
from importer.formats.pytorch.opcodes import OTHERS
from importer.formats.pytorch.problems import forbidden, malformed, unread
from importer.formats.pytorch.stack import STACK, VALUE, Stack
from importer.formats.pytorch.stream import Stream
from importer.formats.pytorch.values import Named, Ordered, Storage

LoadStorage = Callable[[tuple[object, ...]], Storage]
"""Makes a storage of a persistent id."""

_PICKLE_BYTES: Final = 128 << 20
_NAME: Final = 256
_STRING: Final = 1 << 20
_LONG: Final = 16
_PROTOCOLS: Final = frozenset({2, 3})
"""Of weights, the third has the opcodes of the second: what it adds is bytes, in none."""
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


class _Machine(Stack):
    def __init__(self, stream: Stream, load_storage: LoadStorage) -> None:
        super().__init__(stream.where)
        self._stream: Final = stream
        self._load_storage: Final = load_storage
        self._stop_at: Final = stream.position + _PICKLE_BYTES

    def run(self) -> object:
        start = self._stream.take(2)
        if start[:1] != b"\x80":
            malformed(self.where, "a pickle does not begin with its protocol")
        if start[1] not in _PROTOCOLS:
            malformed(
                self.where,
                f"a pickle of protocol {start[1]}, expected 2, which PyTorch writes, or 3",
            )
        take, actions = self._stream.take, _ACTIONS
        while (code := take(1)) != b".":
            action = actions.get(code)
            if action is None:
                self._refuse(code)
            action(self)
            if len(self.values) > STACK:
                malformed(self.where, f"the pickle stacks more than {STACK} values")
            if self._stream.position > self._stop_at:
                malformed(self.where, f"a pickle of more than {_PICKLE_BYTES} bytes")
        result = self.pop()
        if self.values or self.marks:
            malformed(self.where, "the pickle ends with values left over")
        return result

    def _refuse(self, code: bytes) -> NoReturn:
        name = OTHERS.get(code)
        byte = f"the byte {code.hex()}, which is not an opcode"
        shown = f"the opcode {name}" if name else byte
        forbidden(
            self.where,
            f"the pickle has {shown}, which PyTorch does not write for weights: nothing was "
            "executed",
            "E_PT_OPCODE",
        )

    # Opcodes.

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._stream.take(struct.calcsize(form)))
        return int(number)

    def binput(self) -> None:
        self.put(self._stream.take(1)[0])

    def long_binput(self) -> None:
        self.put(self._number("<I"))

    def binget(self) -> None:
        self.get(self._stream.take(1)[0])

    def long_binget(self) -> None:
        self.get(self._number("<I"))

    def none(self) -> None:
        self.values.append(None)

    def true(self) -> None:
        self.values.append(True)

    def false(self) -> None:
        self.values.append(False)

    def binint(self) -> None:
        self.push(self._number("<i"))

    def binint1(self) -> None:
        self.values.append(self._stream.take(1)[0])

    def binint2(self) -> None:
        self.push(self._number("<H"))

    def long1(self) -> None:
        length = self._stream.take(1)[0]
        if length > _LONG:
            malformed(self.where, f"the pickle has a number of {length} bytes")
        self.push(int.from_bytes(self._stream.take(length), "little", signed=True))

    def binfloat(self) -> None:
        (number,) = struct.unpack(">d", self._stream.take(8))
        self.push(number)

    def _string(self, length: int) -> None:
        if length > _STRING:
            malformed(self.where, f"the pickle has a string of {length} bytes")
        data = self._stream.take(length)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            malformed(self.where, "the pickle has a string that is not UTF-8")
        self.push(text, VALUE + 4 * length)

    def binunicode(self) -> None:
        self._string(self._number("<I"))

    def short_binstring(self) -> None:
        self._string(self._stream.take(1)[0])

    def empty_tuple(self) -> None:
        self.values.append(())

    def empty_list(self) -> None:
        self.push([])

    def empty_dict(self) -> None:
        self.push({})

    def empty_set(self) -> None:
        self.push(Named("a set"))

    def _tuple(self, values: list[object]) -> None:
        self.push(tuple(values), VALUE + 8 * len(values))

    def tuple(self) -> None:
        self._tuple(self.pop_mark())

    def tuple1(self) -> None:
        self._tuple([self.pop()])

    def tuple2(self) -> None:
        self._tuple([self.pop(), self.pop()][::-1])

    def tuple3(self) -> None:
        self._tuple([self.pop(), self.pop(), self.pop()][::-1])

    def _extend(self, values: list[object]) -> None:
        target = self.top()
        if type(target) is not list:
            malformed(self.where, "the pickle appends to what is not a list")
        self.charge(16 * len(values))
        target.extend(values)

    def append(self) -> None:
        self._extend([self.pop()])

    def appends(self) -> None:
        self._extend(self.pop_mark())

    def _set(self, values: list[object]) -> None:
        target = self.top()
        if type(target) is not dict and type(target) is not Ordered:
            malformed(self.where, "the pickle sets an item of what is not a dictionary")
        if len(values) % 2:
            malformed(self.where, "the pickle sets a key without a value")
        if values and not target:
            self.charge(_FIRST_ENTRY)
        self.charge(_ENTRY * (len(values) // 2))
        for key, value in zip(values[::2], values[1::2], strict=True):
            # Hashing a tuple takes time that grows with all that is in it, and large numbers
            # can be chosen so that all have one hash.
            if type(key) not in _KEYS or (type(key) is int and abs(key) >= _LARGEST_KEY):
                malformed(
                    self.where, "the pickle has a key that is neither text nor a small number"
                )
            if key in target:
                malformed(self.where, "the pickle sets one key of a dictionary twice")
            target[key] = value

    def setitem(self) -> None:
        self._set([self.pop(), self.pop()][::-1])

    def setitems(self) -> None:
        self._set(self.pop_mark())

    def find(self) -> None:
        module = self._stream.line(_NAME)
        name = self._stream.line(_NAME)
        self.push(resolve(self.where, module, name))

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if isinstance(function, Named) or not callable(function):
            name = function.name if isinstance(function, Named) else "what is not a function"
            forbidden(self.where, f"the pickle calls {name}", "E_PT_OPCODE")
        if type(arguments) is not tuple:
            malformed(self.where, "the pickle calls a function without a tuple of arguments")
        self.charge(_FIRST_ENTRY)
        if len(arguments) == 1 and type(arguments[0]) is list:
            self.charge(_ENTRY * len(arguments[0]))
        self.values.append(function(self.where, arguments))

    def newobj(self) -> None:
        """Make an object without its class's `__init__`: of weights an OrderedDict alone."""
        arguments, cls = self.pop(), self.pop()
        if cls is not resolve(self.where, "collections", "OrderedDict") or arguments != ():
            name = cls.name if isinstance(cls, Named) else "what is not a class"
            forbidden(self.where, f"the pickle makes an object of {name}", "E_PT_OPCODE")
        self.push(Ordered(), _FIRST_ENTRY)

    def build(self) -> None:
        """Drop the attributes of an OrderedDict, such as its `_metadata`."""
        state, target = self.pop(), self.top()
        if type(target) is not Ordered or type(state) is not dict:
            forbidden(
                self.where,
                "the pickle gives attributes to what is not an OrderedDict (the opcode BUILD, "
                "which could run `__setstate__`): nothing was executed",
                "E_PT_OPCODE",
            )

    def binpersid(self) -> None:
        pid = self.pop()
        if type(pid) is not tuple:
            malformed(self.where, "the pickle has a persistent id that is not a tuple")
        if pid[:1] == ("module",):
            unread(self.where, "it holds a module, not only weights")
        self.push(self._load_storage(pid), 2 * VALUE)


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
