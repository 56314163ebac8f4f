"""Manual pages say what the help says, and man reads them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.cli.runner import COMMANDS, run
from tests.man import pages


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_every_flag_of_the_help(command):
    text = run("help", command).stdout
    page = run("help", command, "--man").succeeded().stdout.replace("\\-", "-")

    flags = re.findall(r"^(?:  -\w, |      )(--[a-z-]+)", text, re.MULTILINE)
    assert [
        flag for flag in flags if not re.search(rf"^\\fB.*{flag}", page, re.MULTILINE)
    ] == []
    assert ".SH EXIT STATUS" in page
    assert ".SH EXAMPLES" in page


@pytest.mark.parametrize("name", pages())
def test_a_page_is_one_that_man_reads(tmp_path, name):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    path = tmp_path / name
    path.write_text(pages()[name], encoding="utf-8")
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", str(path)],
        capture_output=True,
        check=False,
        text=True,
    )

    # A page has no date: the same help gives the same bytes.
    told = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert told == []
    shown = subprocess.run(
        ["mandoc", "-T", "ascii", str(path)], capture_output=True, check=True
    ).stdout.decode()
    text = re.sub(".\b", "", shown)
    assert "NAME" in text
    assert "EXIT STATUS" in text
