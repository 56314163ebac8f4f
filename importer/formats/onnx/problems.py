"""How the parsers of ONNX files refuse: every message names the file and what is wrong."""

from __future__ import annotations

from typing import NoReturn

from store.errors import InputError, UnsupportedError


def malformed(where: str, message: str, code: str = "E_ONNX_WIRE") -> NoReturn:
    """Raise InputError for bytes that are not those of an ONNX model."""
    raise InputError(f"{where}: {message}", code=code)


def unread(where: str, message: str, code: str = "E_ONNX_KIND") -> NoReturn:
    """Raise UnsupportedError for what is well-formed, and not read."""
    raise UnsupportedError(f"{where}: {message}", code=code)
