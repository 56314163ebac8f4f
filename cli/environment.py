"""Where the store is, unless an option says it."""

from typing import Final

STORE_VARIABLE: Final = "INGOT_STORE"
DEFAULT_STORE: Final = "~/.models"
