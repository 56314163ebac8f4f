"""The console examples of README and docs, run as they are shown.

    python tests/pages.py            name the pages that no longer agree
    python tests/pages.py --write    put there what the commands print now

One shell runs a page from top to bottom, in a copy of the clone that has the fixtures and with
a home of its own, so that `~/.models` is empty. In a block "```console" a line that begins with
`$ ` is a command, and what follows is what it prints on stdout and stderr. A block with
`title="NAME"` is a file of that name. What is shown must be what is printed, except that

- a line `…` stands for any lines, and `…` within a line for any characters,
- times (`in 0.1 s`) are not compared, and ages are `just now`,
- the clone is `/home/you/ingot`, and the home is `/home/you`.
"""

from __future__ import annotations

import argparse
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.cli.runner import environment
from tests.importer.builders import REPOSITORY

HOME = "/home/you"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
PROGRAM = """
import cli.views.text
from cli.main import run
cli.views.text.ago = lambda *_: "just now"
run()
"""
"""The command without a clock: `9 seconds ago` is wider, and moves the columns behind it."""
SECONDS = re.compile(r"in \d+\.\d s$", re.MULTILINE)
NUMBER = re.compile(r"[0-9a-f]*[0-9][0-9a-f]*")
"""Digests, too."""
CUT = "…"
END = "\x1e"
"""Between the outputs of two commands; no command prints it, because it is a control code."""
LONGEST_SECONDS = 120


class Example(NamedTuple):
    """A command, what the page shows of it, and the blank lines after that."""

    command: str
    shown: str
    blank: str

    def __str__(self):
        """The example as it stands on the page."""
        return (
            "".join(f"{line}\n" for line in (f"$ {self.command}", self.shown) if line)
            + self.blank
        )


def pages():
    """The pages with examples, as paths in the repository."""
    docs = sorted((REPOSITORY / "docs").rglob("*.md"))
    found = [path for path in (REPOSITORY / "README.md", *docs) if examples(path.read_text())]
    return [str(path.relative_to(REPOSITORY)) for path in found]


def examples(page):
    """All examples of a page, from top to bottom."""
    found = []
    for block in BLOCK.findall(page):
        for command, text in EXAMPLE.findall(block):
            shown = text.rstrip("\n")
            blank = text[len(shown) + 1 :] if shown else text
            found.append(Example(command, shown, blank))
    return found


def replay(page, place):
    """Give the text of a page with what its commands print now, run below `place`."""
    found = examples(page)
    outputs = iter(zip(found, _run(page, found, place), strict=True))

    def block(text):
        return f"```console\n{EXAMPLE.sub(lambda _: str(_updated(*next(outputs))), text[1])}```"

    return BLOCK.sub(block, page)


def _run(page, found, place):
    home = _home()
    try:
        return _outputs(page, found, place, home)
    finally:
        shutil.rmtree(home)


def _home():
    """Make a directory whose path is as long as `HOME`: lines break at the same words."""
    while True:
        found = Path("/tmp", secrets.token_hex((len(HOME) - len("/tmp/")) // 2))
        try:
            found.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return found.resolve()


def _outputs(page, found, place, home):
    clone, binaries = home / "ingot", place / "bin"
    clone.mkdir()
    binaries.mkdir()
    # A link, because files that are seconds old are not believed to be unchanged
    (clone / "fixtures").symlink_to(REPOSITORY / "fixtures")
    for name, content in FILE.findall(page):
        (clone / name).write_text(content, encoding="utf-8")
    command = binaries / "ingot"
    words = f"{shlex.quote(sys.executable)} -c {shlex.quote(PROGRAM)}"
    command.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    # Each command finds the exit code of the one before, as in a shell that people type into
    script = place / "page.sh"
    lines = (f"{one.command}\ns=$?; printf '\\036'; (exit $s)\n" for one in found)
    script.write_text("".join(lines), encoding="utf-8")
    mine = {key: value for key, value in environment().items() if not key.startswith("HF_")}
    mine |= {"COLUMNS": "100"}  # as wide as a page
    mine |= {"HOME": str(home), "LC_ALL": "C.UTF-8", "PATH": f"{binaries}:{mine['PATH']}"}
    mine |= {"XDG_CACHE_HOME": str(home / ".cache")}
    done = subprocess.run(
        ["sh", str(script)],
        cwd=clone,
        env=mine,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    text = done.stdout.decode().replace(str(REPOSITORY.resolve()), f"{HOME}/ingot")
    *outputs, rest = text.replace(str(home), HOME).split(END)
    assert rest == "", rest
    return [output.rstrip("\n") for output in outputs]


def _updated(example, found):
    if _agrees(example.shown, found):
        return example
    return example._replace(shown=_cut(example.shown, found))


def _agrees(shown, found):
    lines = [
        "(?:.*\n)*"
        if line.strip() == CUT
        else ".*".join(map(re.escape, line.split(CUT))) + "\n"
        for line in _without_times(shown).splitlines()
    ]
    text = "".join(f"{line}\n" for line in _without_times(found).splitlines())
    return re.fullmatch("".join(lines), text) is not None


def _cut(shown, found):
    # What is cut at the end stays so; elsewhere lines are found that differ in numbers alone.
    *kept, last = shown.splitlines() or [""]
    if last.strip() == CUT and CUT not in "".join(kept):
        return "\n".join([*found.splitlines()[: len(kept)], CUT])
    lines = shown.splitlines()
    wanted = (
        "((?:.*\n)*?)" if line.strip() == CUT else f"({_of_any_numbers(line)}\n)"
        for line in lines
    )
    agrees = re.fullmatch("".join(wanted), f"{found}\n")
    if agrees is None:
        return found
    again = (
        line if CUT in line else now.rstrip("\n")
        for line, now in zip(lines, agrees.groups(), strict=True)
    )
    return "\n".join(again)


def _of_any_numbers(line):
    return ".*".join(NUMBER.sub(r"[0-9a-f]+", re.escape(part)) for part in line.split(CUT))


def _without_times(text):
    return SECONDS.sub("in 0.0 s", text)


def main():
    """Compare the pages, or write them again."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write what differs again")
    parser.add_argument("pages", nargs="*", help="all by default")
    asked = parser.parse_args()
    differ = False
    for name in asked.pages or pages():
        path = REPOSITORY / name
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as place:
            found = replay(page, Path(place))
        differ |= found != page
        print(f"{name}: {'agrees' if found == page else 'differs'}")
        if asked.write:
            path.write_text(found, encoding="utf-8")
    return 1 if differ and not asked.write else 0


if __name__ == "__main__":
    sys.exit(main())
