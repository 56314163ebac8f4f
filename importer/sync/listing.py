"""A list of models as a TOML file, read strictly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from importer.recipes.budget import Budget, parse_budget, recipe_of
from importer.recipes.options import parse_options
from importer.recipes.recipe import Misaligned
from importer.recipes.toml_table import Table, document_of
from importer.request import ImportRequest
from importer.sources.location import HubRepository, Source, StoredModel, parse_source
from store import Digest, ModelName
from store.errors import IngotError, InputError, NotFoundError, UsageError
from store.text import parse_size, printable

_LARGEST: Final = 1 << 20
_TEXTS: Final = (
    "revision",
    "variant",
    "quantize",
    "recipe",
    "embedding",
    "lm_head",
    "vision",
    "experts",
    "on_misaligned",
    "calibrate",
    "imatrix",
    "target_size",
    "sensitivity",
)
_FLAGS: Final = ("symmetric", "allow_nonfinite", "strict", "report", "unpack")


Find: TypeAlias = Callable[[str], StoredModel | None]


class Listed(NamedTuple):
    """A model of a list.

    Attributes:
        name: that it gets.
        source: as the list spells it.
        options: everything else that the list says of it, by key.
        directory: that relative paths are from.
    """

    name: ModelName
    source: str
    options: Mapping[str, Any]
    directory: Path

    def request(
        self,
        commit: str | None = None,
        threads: int = 1,
        max_memory: int | None = None,
        find: Find | None = None,
    ) -> ImportRequest:
        """Return the import that makes it.

        Args:
            commit: of the repository, or None for the one that the revision names now.
            threads: that write blobs.
            max_memory: in bytes, or None.
            find: the stored model that a text means, such as an ID, or None; without it
                every text that can be a name is taken for one.

        Raises:
            UsageError: a word is not what it should be.
            NotFoundError: there is no such recipe.
        """
        given = self.options
        recipe = given.get("recipe")
        if recipe is not None and (self.directory / recipe).is_file():
            recipe = str(self.directory / recipe)
        if (budget := self._budget()) is not None:
            recipe = recipe_of(given.get("quantize"), recipe)
        imatrix = self._imatrix()
        experts, misaligned = given.get("experts"), given.get("on_misaligned")
        asked = parse_options(
            given.get("quantize"),
            group_size=given.get("group_size"),
            recipe=recipe,
            rules=given.get("rules", ()),
            roles={
                "embedding": given.get("embedding"),
                "lm-head": given.get("lm_head"),
                "vision": given.get("vision"),
            },
            misaligned=Misaligned(misaligned) if misaligned else None,
            stacked=None if experts is None else experts == "stacked",
            allow_nonfinite=given.get("allow_nonfinite", False),
            calibrate=given.get("calibrate"),
            symmetric=given.get("symmetric"),
            has_imatrix=imatrix is not None,
            chooses=budget is not None,
        )
        return ImportRequest(
            self.name,
            self._place(commit, find),
            asked,
            variant=given.get("variant"),
            threads=threads,
            max_memory=max_memory,
            strict=given.get("strict", False),
            report=given.get("report", False),
            unpack=given.get("unpack", False),
            imatrix=imatrix,
            budget=budget,
        )

    @property
    def is_remote(self) -> bool:
        """Whether it comes from the Hub, where a commit never changes."""
        return isinstance(self._place(None), HubRepository)

    def _budget(self) -> Budget | None:
        given = self.options
        size, sensitivity = given.get("target_size"), given.get("sensitivity")
        nbytes = None if size is None else parse_size(size)
        if size is not None and nbytes is None:
            message = f"`target_size` is `{printable(size)}`, expected bytes, or such as 5GB"
            raise UsageError(message, code="E_BUDGET_SIZE", hint="M is 1024 K, MB is 1000 KB")
        if sensitivity is not None:
            sensitivity = str(self.directory / sensitivity)
        allow = given.get("allow", ())
        return parse_budget(nbytes, given.get("target_bpw"), allow, sensitivity)

    def _imatrix(self) -> Path | Digest | None:
        text = self.options.get("imatrix")
        if text is None or not text.startswith("sha256:"):
            return None if text is None else self.directory / text
        return Digest.parse(text)

    def _place(self, commit: str | None, find: Find | None = None) -> Source:
        def stored(text: str) -> StoredModel | None:
            return find(text) if find is not None else stored_model(text)

        source = Path(self.source).expanduser() if self.source.startswith("~") else None
        place = source or parse_source(self.source, stored, self.directory)
        if not isinstance(place, HubRepository):
            return place
        revision = commit or self.options.get("revision") or place.revision
        return HubRepository.checked(place.repository, revision)._replace(variant=place.variant)


def stored_model(text: str) -> StoredModel | None:
    """Take a word that is not a path for the name of a model, if it can be one."""
    try:
        return StoredModel(ModelName.parse(text))
    except IngotError:
        return None


def read_listing(path: Path) -> tuple[Listed, ...]:
    """Read a list of models.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is not a list of models.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError) as error:
        message = f"there is no list of models `{printable(name)}`"
        raise NotFoundError(message, code="E_SYNC_MISSING") from error
    if len(data) > _LARGEST:
        bad_listing(name, f"it has more than {_LARGEST} bytes")
    table = _ListTable(name, "", document_of(data, lambda why: bad_listing(name, why)))
    listed = [
        _listed(_ListTable(name, f"model {number}: ", row), path.parent)
        for number, row in enumerate(table.tables("model"), 1)
    ]
    table.end()
    if not listed:
        bad_listing(name, "it has no [[model]]")
    seen: dict[str, ModelName] = {}
    for one in listed:
        if (twin := seen.setdefault(str(one.name).lower(), one.name)) is not one.name:
            bad_listing(name, f"`{twin}` is listed twice")
    return tuple(listed)


def bad_listing(name: str, what: str, hint: str | None = None) -> NoReturn:
    """Raise InputError: a file is not a list of models."""
    raise InputError(
        f"list `{printable(name)}`: {printable(what, 300)}", code="E_SYNC", hint=hint
    )


class _ListTable(Table):
    """A table of a list."""

    what = "list of models"

    def bad(self, what: str, hint: str | None = None) -> NoReturn:
        bad_listing(self._name, self._where + what, hint)


def _listed(table: _ListTable, directory: Path) -> Listed:
    name, source = table.text("name", ""), table.text("source", "")
    options: dict[str, Any] = {key: table.text(key, "") for key in _TEXTS}
    options["group_size"] = table.integer("group_size", 0)
    if table.has("target_bpw"):  # as text: nothing is to depend on how a float is written
        options["target_bpw"] = f"{table.positive('target_bpw', 0):g}"
    options |= {key: list(table.texts(key)) for key in ("rules", "allow")}
    options |= {key: table.boolean(key, default=False) for key in _FLAGS}
    for key, words in (
        ("experts", {"packed", "stacked"}),
        ("on_misaligned", {*map(str, Misaligned)}),
    ):
        if options[key]:
            table.word(key, "", words)
    table.end()  # first: a key may be missing because it is misspelled
    if not name or not source:
        table.bad("expected `name` and `source`")
    try:
        parsed = ModelName.parse(name)
        found = Listed(parsed, source, {k: v for k, v in options.items() if v}, directory)
        place = found.request().source
    except IngotError as error:
        table.bad(str(error), error.hint)
    if found.options.get("revision") and not isinstance(place, HubRepository):
        table.bad("`revision` belongs to a source on the Hub")
    if isinstance(place, StoredModel) and place.name == parsed:
        table.bad(f"`{parsed}` is made of itself")
    return found
