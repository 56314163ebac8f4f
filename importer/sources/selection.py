"""Which weights a source has, by its paths: one choice for directories and for the Hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from importer.sources.alternatives import has_variant, select_alternative
from importer.sources.base import Selection
from importer.sources.completeness import check_complete, no_variant, no_weights
from importer.sources.containers import FORMATS
from importer.sources.containers.uqff import KEY as UQFF
from importer.sources.containers.uqff_shards import select_shards
from importer.sources.exported import place_exports
from importer.sources.file import SourceFile
from importer.sources.naming import WeightsName
from importer.sources.roles import OTHER_FORMAT, FileRole, LeftOut
from importer.sources.shards import select_weights
from store.errors import InputError

PIPELINE_INDEXES: Final = ("model_index.json", "modular_model_index.json")
"""Of diffusers: a pipeline's, and a modular pipeline's."""
MODULES: Final = "modules.json"
_STAGE: Final = "checkpoint-"
"""Begins the name of a directory that a training run leaves, before a number."""

Roles = Mapping[str, FileRole]
"""What each file of a source is, by path, sorted."""


class Choice(NamedTuple):
    """The weights of a source.

    Attributes:
        weights: of each directory that has any, sorted; `""` is the source itself.
        left_out: weights files that are not part of the model, and why.
    """

    weights: Mapping[str, Selection]
    left_out: tuple[LeftOut, ...]

    @property
    def indexes(self) -> frozenset[str]:
        """The paths of the files that say which further files there are."""
        indexes = (selection.index for selection in self.weights.values())
        return frozenset(index for index in indexes if index is not None)


class Needed(NamedTuple):
    """The paths that an import reads.

    Attributes:
        kept: the files that become layers, byte for byte.
        indexes: the files that name the weights.
        weights: the files that the tensors are in.
    """

    kept: frozenset[str]
    indexes: frozenset[str]
    weights: frozenset[str]

    @property
    def everything(self) -> frozenset[str]:
        """All of these paths."""
        return self.kept | self.indexes | self.weights


def choose(
    roles: Roles,
    source: str,
    variant: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Choice:
    """Choose the weights among the files of a source, without reading any.

    A directory is a component when it has weights: the source itself, and below a
    `model_index.json` or a `modules.json`, or where the source itself has none, every
    subdirectory. Files that stand alone are variants of one model, in whatever directory.

    Args:
        roles: of every file.
        source: what to call the source in an error.
        variant: of the weights, such as `fp16`.
        sizes: of files in bytes, by path, to be told where there is a choice.

    Raises:
        InputError: the choice is ambiguous, a numbered shard is missing, or there are no
            weights, or none of this variant.
        UsageError: there are several models, and nothing says which is meant.
        UnsupportedError: weights, or a part of them, are in a format that is not read.
    """
    left_out: list[LeftOut] = []
    weights: dict[str, Selection] = {}
    candidates = _candidates(roles, left_out)
    if alone := _alternatives(roles, candidates, variant):
        candidates = {"": alone}
    for directory, those in candidates.items():
        selection = _select(those, variant, left_out, sizes)
        if selection is not None:
            weights[directory] = selection
    if not weights:
        no_weights(roles, source)
    if variant is not None and not any(one.is_of_variant for one in weights.values()):
        no_variant(variant, roles.values())
    for directory, those in candidates.items():
        if not _is_stage(directory):
            check_complete(those, weights.get(directory))
    return Choice(weights, tuple(left_out))


def needed(roles: Roles, choice: Choice, indexes: Mapping[str, SourceFile]) -> Needed:
    """Return which files of a source are read, so that no others are fetched.

    Args:
        roles: of every file that is not hidden.
        choice: of the weights among them.
        indexes: the files that `choice.indexes` names, there to be read.

    Raises:
        InputError: an index is malformed, or names files that are missing.
    """
    weights: set[str] = set()
    for selection in choice.weights.values():
        weights.update(selection.files)
        if selection.index is not None:
            members = FORMATS[selection.format].members(indexes[selection.index], roles)
            weights.update(members)
    weights.update(path for path, role in roles.items() if role.data_of in weights)
    kept = frozenset(path for path, role in roles.items() if role.is_kept)
    return Needed(kept, choice.indexes, frozenset(weights))


def visible(paths: Iterable[str]) -> tuple[list[str], tuple[LeftOut, ...]]:
    """Return the paths that a walk would see, and the hidden directories that it leaves out."""
    seen: list[str] = []
    hidden: set[str] = set()
    for path in paths:
        parts = path.split("/")[:-1]
        depth = next((n for n, part in enumerate(parts, 1) if part.startswith(".")), None)
        if depth is None:
            seen.append(path)
        else:
            hidden.add("/".join(parts[:depth]))
    return seen, tuple(LeftOut(f"{path}/", "hidden directory") for path in sorted(hidden))


def _alternatives(
    roles: Roles, candidates: Mapping[str, Roles], variant: str | None
) -> dict[str, FileRole]:
    """Return the files that stand alone, of all directories, where the model is among them.

    It is where there are no other weights, or where only they have the variant.
    """
    alone = {path: role for path, role in roles.items() if _stands_alone(role)}
    if not alone or any(index in roles for index in PIPELINE_INDEXES):
        return {}
    others = [
        role.weights
        for those in candidates.values()
        for role in those.values()
        if role.format and role.weights is not None and not role.weights.stands_alone
    ]
    if not others:
        return alone
    names = {path: role.weights for path, role in alone.items() if role.weights is not None}
    if variant is None or any(name.is_of(variant) for name in others):
        return {}
    return alone if has_variant(names, variant) else {}


def _stands_alone(role: FileRole) -> bool:
    return role.weights is not None and role.weights.stands_alone


def _select(
    roles: Roles,
    variant: str | None,
    left_out: list[LeftOut],
    sizes: Mapping[str, int] | None,
) -> Selection | None:
    """Choose the weights of one directory: those of the first format that has any there."""
    selection: Selection | None = None
    for key in _by_preference(roles):
        names = {
            path: role.weights
            for path, role in roles.items()
            if role.format == key and role.weights is not None
        }
        if selection is not None:
            left_out += [
                LeftOut(path, OTHER_FORMAT)
                for path in names
                if roles[path].is_weights and path not in selection.files
            ]
            continue
        selection = _select_in(roles, names, key, variant, sizes)
        if selection is not None:
            left_out += selection.left_out
    return selection


def _select_in(
    roles: Roles,
    names: Mapping[str, WeightsName],
    key: str,
    variant: str | None,
    sizes: Mapping[str, int] | None,
) -> Selection | None:
    if key == UQFF:
        return select_shards(names, roles, key, variant, sizes)
    if any(name.stands_alone for name in names.values()):
        return select_alternative(names, key, variant, sizes)
    return select_weights(names, key, variant)


def _by_preference(roles: Roles) -> list[str]:
    """Return the formats in the order in which one of them is taken.

    UQFF comes before safetensors, of which a part of it is, but not before a whole model.
    """
    others = [role.weights for role in roles.values() if role.format not in {"", UQFF}]
    is_whole = any(
        name is not None and (name.is_index or name.precedence is not None) for name in others
    )
    first = [] if is_whole else [UQFF]
    return [*first, *(key for key in FORMATS if key not in first)]


def _candidates(roles: Roles, left_out: list[LeftOut]) -> dict[str, Roles]:
    """Return the directories that may be components, each with its weights files."""
    by_directory: dict[str, dict[str, FileRole]] = {}
    for path, role in roles.items():
        if role.weights is not None:
            by_directory.setdefault(path.rpartition("/")[0], {})[path] = role
    is_pipeline = any(index in roles for index in PIPELINE_INDEXES)
    place_exports(by_directory, left_out, is_pipeline=is_pipeline)
    own = any(role.format for role in by_directory.get("", {}).values())
    if is_pipeline:
        beside = by_directory.pop("", {})
        left_out += [
            LeftOut(path, "beside the components of a pipeline")
            for path, role in beside.items()
            if role.is_weights
        ]
    elif own and MODULES not in roles:
        return {"": by_directory[""]}
    elif own:  # what a training run left beside the model
        for directory in filter(_is_stage, list(by_directory)):
            del by_directory[directory]
    elif MODULES not in roles:
        _check_one_checkpoint(by_directory)
    return dict(sorted(by_directory.items(), key=lambda item: item[0].encode()))


def _is_stage(directory: str) -> bool:
    number = directory.removeprefix(_STAGE)
    return number != directory and number.isascii() and number.isdigit()


def _check_one_checkpoint(by_directory: Mapping[str, Roles]) -> None:
    # A training run leaves one model in each of these, not the parts of one.
    stages = sorted(
        directory
        for directory, roles in by_directory.items()
        if _is_stage(directory) and any(role.format for role in roles.values())
    )
    if len(stages) > 1:
        raise InputError(
            f"{len(stages)} checkpoints of a training run: "
            + ", ".join(f"`{stage}`" for stage in stages[:10]),
            code="E_SRC_AMBIGUOUS",
            hint="Name the directory of the one that you mean as the source",
        )
