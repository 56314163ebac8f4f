"""How the parsers of PyTorch's files refuse: every message names the file and what is wrong."""

from __future__ import annotations

from typing import Final, NoReturn

from store.errors import InputError, UnsupportedError

_SAFE: Final = "Save the weights as safetensors where you trust the file"


def malformed(where: str, message: str, code: str = "E_PT_PICKLE") -> NoReturn:
    """Raise InputError for bytes that PyTorch does not write."""
    raise InputError(f"{where}: {message}", code=code)


def forbidden(where: str, message: str, code: str) -> NoReturn:
    """Raise InputError for a pickle that would run something; ours runs nothing."""
    raise InputError(f"{where}: {message}", code=code, hint=_SAFE)


def unread(where: str, message: str) -> NoReturn:
    """Raise UnsupportedError for what is well-formed, and not read."""
    raise UnsupportedError(f"{where}: {message}", code="E_PT_KIND", hint=_SAFE)
