"""Which version of ingot this is."""

from __future__ import annotations


def version_of_ingot() -> str:
    """Return the version that is installed, in words where none is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ingot")
    except PackageNotFoundError:
        return "(not installed)"
