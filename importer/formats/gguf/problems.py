"""How the parser of GGUF refuses: every message names the file and what is wrong."""

from __future__ import annotations

from typing import Final, NoReturn

from store.errors import InputError, UnsupportedError

_AGAIN: Final = "The file is incomplete or damaged: fetch it again"


def malformed(where: str, message: str, code: str = "E_GGUF") -> NoReturn:
    """Raise InputError for bytes that no writer of GGUF makes."""
    raise InputError(f"{where}: {message}", code=code)


def truncated(where: str, message: str) -> NoReturn:
    """Raise InputError for a file that is shorter than it says."""
    raise InputError(f"{where}: {message}", code="E_GGUF_TRUNCATED", hint=_AGAIN)


def unread(where: str, message: str, code: str = "E_GGUF_KIND") -> NoReturn:
    """Raise UnsupportedError for what is well-formed, and not read."""
    raise UnsupportedError(f"{where}: {message}", code=code)
