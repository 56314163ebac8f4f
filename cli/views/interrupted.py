"""What is said when a signal ends a command: what is kept, and how to go on."""

from __future__ import annotations

from typing import Final

from cli.views.progress_state import (
    COLLECTING,
    COPYING,
    FETCHING,
    LOADING,
    MEASURING,
    PULLING,
    PUSHING,
    SAVING,
    WRITING,
    State,
)
from store.text import count

_BLOB: Final = "blob"
_AGAIN: Final = "run the same command to go on"
_ARRIVED: Final = f"interrupted: what has arrived is kept; {_AGAIN}"
_SAID: Final = {
    FETCHING: _ARRIVED,
    PULLING: _ARRIVED,
    MEASURING: f"interrupted while measuring: every blob is kept; {_AGAIN}",
    PUSHING: f"interrupted while pushing; no name was set; {_AGAIN}",
    SAVING: "interrupted while saving: nothing is kept; the same command begins again",
    COLLECTING: f"interrupted: what was not removed yet is; {_AGAIN}",
}


def interrupted_line(state: State) -> str:
    """Return what is kept of what a command did, by how far it is."""
    phase = state.phase
    if phase in _SAID:
        return _SAID[phase]
    if phase in {WRITING, LOADING, COPYING} and state.items and state.noun == _BLOB:
        done = f"{state.items_done:,} of {count(state.items, _BLOB)}"
        return f"interrupted: kept {done}; {_AGAIN}"
    if state.has_published:
        return f"interrupted while {phase}: what was made is kept; {_AGAIN}"
    return f"interrupted while {phase}; nothing was changed"
