"""A stored model as a source: its tensors, and the record of how it was made."""

from typing import Final

RECORD_KEY: Final = "ingot"
"""Of the record in a configuration, after the keys that Ollama reads."""
