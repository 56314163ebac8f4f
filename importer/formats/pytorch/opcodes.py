"""The opcodes of pickles that no file of weights has, by name, for messages."""

from __future__ import annotations

from typing import Final

OTHERS: Final = {
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
