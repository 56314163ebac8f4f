"""How the parsers of UQFF refuse: every message names the file and what is wrong with it."""

from __future__ import annotations

from typing import Final, NoReturn

from store.errors import InputError, UnsupportedError

_AGAIN: Final = "Write the model again, with `mistralrs quantize`"


def malformed(where: str, message: str, code: str = "E_UQFF_LAYER") -> NoReturn:
    """Raise InputError for what mistral.rs does not write."""
    raise InputError(f"{where}: {message}", code=code, hint=_AGAIN)


def unread(where: str, message: str, code: str = "E_UQFF_KIND") -> NoReturn:
    """Raise UnsupportedError for what is well-formed, and not read."""
    raise UnsupportedError(f"{where}: {message}", code=code, hint=_AGAIN)
