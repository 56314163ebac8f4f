"""What is said when a signal ends a command: what is kept, and how to go on."""

from __future__ import annotations

import pytest

from cli.views.console import be_quiet, speak_json
from cli.views.progress import listening
from cli.views.progress_state import (
    COMPARING,
    COPYING,
    EVALUATING,
    FETCHING,
    LOADING,
    MEASURING,
    PULLING,
    PUSHING,
    READING,
    SAVING,
    WRITING,
)
from cli.views.progress_style import Style
from importer.events import (
    BlobDone,
    Fetched,
    Fetching,
    Measuring,
    ModelBegun,
    Moved,
    Moving,
    Planned,
    Published,
    Scanned,
)
from store import CommitOutcome, Digest

AGAIN = "run the same command to go on"
SCANNED = Scanned(3, 1, 30)
PLANNED = Planned(3, 30, 0)
DONE = BlobDone("a", 10, CommitOutcome.NEW)
PUBLISHED = Published(Digest.of(b"x"))
CASES = {
    "before anything is reported": ((READING, COMPARING), [], "reading; nothing was changed"),
    "while a plan is made": ((READING, WRITING), [SCANNED], "reading; nothing was changed"),
    "while kernels are compiled for a diff": (
        (READING, COMPARING),
        [SCANNED, SCANNED],
        "reading; nothing was changed",
    ),
    "while blobs are made": (
        (READING, WRITING),
        [SCANNED, PLANNED, DONE],
        f"interrupted: kept 1 of 3 blobs; {AGAIN}",
    ),
    "while blobs are measured": (
        (READING, WRITING, MEASURING),
        [SCANNED, PLANNED, DONE, DONE, DONE, Measuring(2, 30)],
        f"interrupted while measuring: every blob is kept; {AGAIN}",
    ),
    "while files are written": (
        (READING, WRITING),
        [SCANNED, Planned(2, 30, 0, "file")],
        "writing; nothing was changed",
    ),
    "while a model is fetched": (
        (FETCHING, READING, WRITING),
        [Fetching("org/m", "c0ffee", 3, 100)],
        f"interrupted: what has arrived is kept; {AGAIN}",
    ),
    "when a model was fetched": (
        (FETCHING, READING, WRITING),
        [Fetching("org/m", "c0ffee", 3, 100), Fetched(3, 100, 1.0)],
        "reading; nothing was changed",
    ),
    "while a model is pulled": (
        (PULLING,),
        [Moving("pulling", "x", 3, 30)],
        f"interrupted: what has arrived is kept; {AGAIN}",
    ),
    "while a model is pushed": (
        (PUSHING,),
        [Moving("pushing", "x", 3, 30), Moved("a", is_new=True)],
        f"interrupted while pushing; no name was set; {AGAIN}",
    ),
    "while a model is copied": (
        (COPYING,),
        [Moving("copying", "x", 3, 30), Moved("a", is_new=True)],
        f"interrupted: kept 1 of 3 blobs; {AGAIN}",
    ),
    "while the second model is loaded": (
        (LOADING,),
        [Moving("loading", "x", 1, 30), PUBLISHED, Moving("loading", "y", 2, 30)],
        f"interrupted: kept 0 of 2 blobs; {AGAIN}",
    ),
    "while models are saved": (
        (SAVING,),
        [Moving("saving", "x", 3, 30), Moved("a", is_new=True)],
        "interrupted while saving: nothing is kept; the same command begins again",
    ),
    "while the second model of a list is read": (
        (READING, WRITING),
        [ModelBegun("a", 1, 2), SCANNED, PLANNED, PUBLISHED, ModelBegun("b", 2, 2)],
        f"interrupted while reading: what was made is kept; {AGAIN}",
    ),
    "while a model runs": ((EVALUATING,), [], "running the model; nothing was changed"),
}


def interrupted_after(events, phases):
    with listening(Style.PLAIN, phases) as listen:
        for event in events:
            listen(event)
        raise KeyboardInterrupt


@pytest.mark.parametrize("when", CASES)
def test_what_is_kept_is_said(capsys, when):
    phases, events, told = CASES[when]
    speak_json(wanted=False)
    be_quiet(wanted=False)

    with pytest.raises(KeyboardInterrupt):
        interrupted_after(events, phases)

    last = capsys.readouterr().err.splitlines()[-1]
    assert last == (told if told.startswith("interrupted") else f"interrupted while {told}")
