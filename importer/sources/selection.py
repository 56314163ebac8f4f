"""Which weights a source has, by its paths: one choice for directories and for the Hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from importer.sources.file import SourceFile
from importer.sources.roles import why_left_out
from importer.sources.safetensors import read_index
from importer.sources.shards import Selection, select_weights
from importer.sources.tree import LeftOut
from store.errors import InputError, UnsupportedError
from store.text import printable

PIPELINE_INDEXES: Final = ("model_index.json", "modular_model_index.json")
"""Of diffusers: a pipeline's, and a modular pipeline's."""
MODULES: Final = "modules.json"
_STAGE: Final = re.compile(r"checkpoint-[0-9]+")


@dataclass(frozen=True, slots=True)
class Choice:
    """The weights of a source.

    Attributes:
        weights: of each directory that has any, sorted; `""` is the source itself.
        left_out: safetensors files that are not part of the model, and why.
    """

    weights: Mapping[str, Selection]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Needed:
    """The paths that an import reads.

    Attributes:
        kept: byte for byte.
        indexes: that say which weights there are.
        weights: that the tensors are in.
    """

    kept: frozenset[str]
    indexes: frozenset[str]
    weights: frozenset[str]

    @property
    def everything(self) -> frozenset[str]:
        """All of them."""
        return self.kept | self.indexes | self.weights


def choose(paths: Iterable[str], variant: str | None = None) -> Choice:
    """Choose the weights among the files of a source, without reading any.

    A directory is a component when it has weights: the source itself, and below a
    `model_index.json` or a `modules.json`, or where the source itself has none, every
    subdirectory.

    Args:
        paths: of every file, relative to the source, sorted.
        variant: of the weights, such as `fp16`.

    Raises:
        InputError: the choice is ambiguous, a numbered shard is missing, or there are no
            weights of this variant.
    """
    left_out: list[LeftOut] = []
    weights: dict[str, Selection] = {}
    candidates = _candidates(paths, left_out)
    for directory, those in candidates.items():
        selection = select_weights(those, variant)
        if selection is not None:
            weights[directory] = selection
            left_out += selection.left_out
    if weights:
        check_variant((path for those in candidates.values() for path in those), variant)
    return Choice(weights, tuple(left_out))


def visible(paths: Iterable[str]) -> tuple[list[str], tuple[LeftOut, ...]]:
    """Leave hidden directories out, as the walk through a directory does."""
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


def needed(
    paths: Sequence[str], variant: str | None, source: str, index: Callable[[str], SourceFile]
) -> Needed:
    """Say which files of a source are read, so that no other is fetched.

    Args:
        paths: of every file that is no hidden one, sorted.
        source: what to call it.
        index: gives the shard index at a path.

    Raises:
        InputError: as `choose`, or an index names files that are missing.
        UnsupportedError: no format that is read.
    """
    choice = choose(paths, variant)
    if not choice.weights:
        no_weights(paths, source)
    there = frozenset(paths)
    indexes: set[str] = set()
    weights: set[str] = set()
    for selection in choice.weights.values():
        weights.update(selection.files)
        if selection.index is not None:
            indexes.add(selection.index)
            weights.update(read_index(index(selection.index), there).values())
    kept = frozenset(path for path in paths if why_left_out(path) is None)
    return Needed(kept, frozenset(indexes), frozenset(weights))


def check_variant(paths: Iterable[str], variant: str | None) -> None:
    """Make sure that some of these weights are of a variant.

    Raises:
        InputError: none are.
    """
    if variant is not None and not has_variant(paths, variant):
        raise InputError(
            f"no weights of variant `{printable(variant)}`",
            code="E_SRC_VARIANT",
            hint="Leave `--variant` away, or name one that the source has",
        )


def has_variant(paths: Iterable[str], variant: str) -> bool:
    """Whether some of these files are weights of a variant."""
    marks = (f".{variant}.", f".{variant}-")  # not `.fp` in `.fp16.`
    names = (path.rpartition("/")[2] for path in paths)
    return any(mark in name for name in names if ".safetensors" in name for mark in marks)


def no_weights(paths: Iterable[str], source: str) -> NoReturn:
    """Refuse a source whose files hold no weights that are read."""
    other = [path for path in paths if why_left_out(path) and ".safetensors" not in path]
    if other:
        raise UnsupportedError(
            f"no safetensors weights, only formats that ingot does not read yet, such as "
            f"`{printable(other[0])}`",
            code="E_FORMAT",
            hint="Save the model as safetensors, or fetch a revision that has them",
        )
    raise InputError(
        f"no weights in `{printable(source)}`",
        code="E_SRC_EMPTY",
        hint="SOURCE is a directory with `*.safetensors` files",
    )


def _candidates(paths: Iterable[str], left_out: list[LeftOut]) -> dict[str, list[str]]:
    by_directory: dict[str, list[str]] = {}
    for path in paths:
        directory = path.rpartition("/")[0]
        hidden = any(part.startswith(".") for part in directory.split("/"))
        foreign = why_left_out(f"{directory}/x") if directory else None
        if not hidden and foreign is None:
            by_directory.setdefault(directory, []).append(path)
    names = set(by_directory.get("", []))
    own = any(".safetensors" in name for name in names)  # or an index of them
    if names.intersection(PIPELINE_INDEXES):
        for path in by_directory.pop("", []):
            if path.endswith(".safetensors"):
                reason = "beside the components of a pipeline"
                left_out.append(LeftOut(path, reason))
    elif own and MODULES not in names:
        return {"": by_directory[""]}
    elif MODULES not in names:
        _check_one_checkpoint(by_directory)
    return dict(sorted(by_directory.items(), key=lambda item: item[0].encode()))


def _check_one_checkpoint(by_directory: Mapping[str, Sequence[str]]) -> None:
    # A training run leaves one model in each of these, not the parts of one.
    stages = sorted(
        directory
        for directory, paths in by_directory.items()
        if _STAGE.fullmatch(directory) and any(".safetensors" in path for path in paths)
    )
    if len(stages) > 1:
        raise InputError(
            f"{len(stages)} checkpoints of a training run: "
            + ", ".join(f"`{stage}`" for stage in stages[:10]),
            code="E_SRC_AMBIGUOUS",
            hint="Name the one that you mean as SOURCE",
        )
