"""The examples of README and docs, run as they are shown.

    python tests/readme.py --write

Commands that begin with `$ ingot` run in the order of the page, in one store, in a directory
that has the fixtures, MiniLM, and the recipe of the page as `careful.toml`. A line `…` stands
for any lines. `--write` puts what comes out now in the place of what does not agree; times
are left as they are.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from store import ModelName, Store
from tests.cli.runner import spawn
from tests.importer.builders import REPOSITORY, reference_model

PAGES = ("README.md", "docs/recipes.md")
HOME = "/home/you/ingot"
EXAMPLE = re.compile(r"^\$ ingot (.*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
RECIPE = re.compile(r"^```toml\n((?:.*\n)*?)```", re.MULTILINE)
AGE = re.compile(r"\d+ (?:second|minute)s? ago")
SECONDS = re.compile(r"in \d+\.\d s$", re.MULTILINE)
CUT = "…\n"
ROTTEN = "encoder.layer.1.intermediate.dense.weight"
"""The tensor of MiniLM that loses a bit before the first `ingot verify`."""


def needs_minilm(page):
    """Whether a page has examples with the real model, which comes with a package."""
    return "all-MiniLM-L6-v2" in page


def replay(page, place):
    """Give the text of a page with the outputs that its commands have now, run in `place`."""
    # Links, because files that are seconds old are not believed to be unchanged
    names = {str(REPOSITORY.resolve()): HOME}
    (place / "fixtures").symlink_to(REPOSITORY / "fixtures")
    if needs_minilm(page):
        (place / "all-MiniLM-L6-v2").symlink_to(reference_model())
        names[str(reference_model().resolve())] = f"{HOME}/all-MiniLM-L6-v2"
    for recipe in RECIPE.findall(page):
        (place / "careful.toml").write_text(recipe, encoding="utf-8")
    store = place / "store"

    def run(example):
        command, shown = example.groups()
        body = shown.rstrip("\n") + "\n"
        if command == "verify":
            _rot(store)
        words = shlex.split(command)
        done = spawn(*words, store=store, cwd=place, stderr=subprocess.STDOUT)
        found = AGE.sub("just now", done.stdout.rstrip("\n") + "\n")
        for path in sorted(names, key=len, reverse=True):
            found = found.replace(path, names[path])
        return f"$ ingot {command}\n{_updated(body, found)}{shown[len(body) :]}"

    return EXAMPLE.sub(run, page)


def _updated(shown, found):
    parts = map(re.escape, _without_times(shown).split(CUT))
    if re.fullmatch("(?:.*\n)*".join(parts), _without_times(found)):
        return shown
    if shown.find(CUT) != len(shown) - len(CUT):
        return found  # what is cut in the middle is for people to cut again
    return "".join([*found.splitlines(keepends=True)[: shown.count("\n") - 1], CUT])


def _without_times(text):
    return SECONDS.sub("in 0.0 s", text)


def _rot(store):
    manifest = json.loads(Store(store).catalog.get(ModelName.parse("minilm")).data)
    (digest,) = [la["digest"] for la in manifest["layers"] if la.get("name") == ROTTEN]
    blob = store / "blobs" / digest.replace(":", "-")
    blob.chmod(0o600)
    with blob.open("r+b") as file:
        file.seek(100_000)
        (byte,) = file.read(1)
        file.seek(100_000)
        file.write(bytes([byte ^ 1]))


def main():
    """Write the pages again."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", required=True, help="the pages again")
    parser.parse_args()
    for name in PAGES:
        path = REPOSITORY / name
        page = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as place:
            found = replay(page, Path(place))
        print(f"{name}: {'as it was' if found == page else 'written'}")
        path.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
