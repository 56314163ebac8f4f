"""The Modelfile of `create`: which file it is, and what the paths in it mean."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from store.errors import IngotError, InputError, NotFoundError
from store.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from importer.modelfile.instructions import Modelfile, Named
    from importer.sources.location import Source, StoredModel
    from store.catalog import Catalog

USUAL = "Modelfile"
"""The file that is read where no source and no file is named, as `ollama create` does."""


class Given(NamedTuple):
    """A Modelfile, and the directory that its paths are from."""

    content: Modelfile
    directory: Path
    name: str

    def source(self, stored: Callable[[str], StoredModel | None], catalog: Catalog) -> Source:
        """Return what FROM names.

        Args:
            stored: returns the stored model that a text means, or None.
            catalog: of the models that may have been meant by a misspelled name.

        Raises:
            InputError: there is no FROM.
            UsageError: what it names cannot be a source.
            NotFoundError: what it names does not exist.
        """
        from importer.sources.location import (
            check_not_misspelled,
            missing,
            parse_source,
        )

        if (base := self.content.base) is None:
            raise InputError(
                f"`{printable(self.name)}` has no FROM line",
                code="E_MODELFILE",
                hint="FROM names a directory, a file, a model in the store or one on the Hub",
            )
        with _told_where(base):
            found = self._expanded(base) or parse_source(base.text, stored, self.directory)
            check_not_misspelled(found, base.text, catalog)
            if isinstance(found, Path) and not os.path.lexists(found):
                raise missing(found)
        return found

    def path(self, named: Named | None) -> Path | None:
        """Return the path that ADAPTER or DRAFT names, or None where neither is there.

        Raises:
            NotFoundError: it does not exist.
        """
        if named is None:
            return None
        found = self._expanded(named) or self.directory / named.text
        if not os.path.lexists(found):
            with _told_where(named):
                raise NotFoundError(
                    f"`{printable(str(found))}` does not exist",
                    code="E_SRC_MISSING",
                    hint="ADAPTER names a directory that PEFT wrote, and DRAFT one of a model",
                )
        return found

    def _expanded(self, named: Named) -> Path | None:
        if not named.text.startswith("~"):
            return None
        try:
            return Path(named.text).expanduser()
        except RuntimeError:
            named.place.bad("there is no such user's home directory")


@contextlib.contextmanager
def _told_where(named: Named) -> Iterator[None]:
    """Have an error about what a Modelfile names say where it does."""
    try:
        yield
    except IngotError as error:
        place = named.place
        error.args = (f"`{printable(place.name)}`, line {place.line}: {error}",)
        raise


def load(file: str | None, *, has_source: bool) -> Given | None:
    """Read the Modelfile that is named, or the one in the current directory, or none.

    Args:
        file: its path; `-` for standard input.
        has_source: whether a source is named, and nothing is looked for.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is not a Modelfile.
    """
    if file is None and (has_source or not Path(USUAL).is_file()):
        return None
    from importer.modelfile.grammar import LARGEST
    from importer.modelfile.instructions import read_modelfile

    name = file or USUAL
    if name == "-":
        data, directory = sys.stdin.buffer.read(LARGEST + 1), Path()
    else:
        directory = Path(name).parent
        try:
            with Path(name).open("rb") as opened:
                data = opened.read(LARGEST + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError) as error:
            raise NotFoundError(
                f"there is no Modelfile `{printable(name)}`", code="E_MODELFILE_MISSING"
            ) from error
    return Given(read_modelfile(data, name), directory, name)
