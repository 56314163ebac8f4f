"""Which safetensors files of one directory are its weights; only names decide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from importer.sources.roles import is_index
from importer.sources.tree import LeftOut
from store import limits
from store.errors import InputError
from store.text import printable

_NUMBERED: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5,})-of-(?P<count>\d{5,})")
# Names of the format, the likeliest first; `consolidated` is Mistral's own second copy.
_STEMS: Final = ("model", "diffusion_pytorch_model")
_SECOND_COPY: Final = "consolidated"


@dataclass(frozen=True, slots=True)
class Selection:
    """The weights of one directory, as paths.

    Attributes:
        files: that hold them; none with an index, which has to be read.
        index: the file that maps tensors to them, if there is one.
        left_out: safetensors files that are not part of the model.
    """

    files: tuple[str, ...]
    index: str | None = None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class _Named:
    """A weights or index file taken apart: `<stem>[.<variant>][-N-of-M].safetensors`."""

    path: str
    stem: str
    variant: str
    number: int = 0
    count: int = 0


def select_weights(paths: Sequence[str], variant: str | None = None) -> Selection | None:
    """Choose the weights among the files of one directory; None where there are none.

    With an index, the files that it maps (checked against it when they are read). Without:
    the files named `model` or `diffusion_pytorch_model`, else the only ones there are.

    Args:
        paths: of all files of the directory.
        variant: such as `fp16`, chosen where the directory has it.

    Raises:
        InputError: the choice is ambiguous, or a numbered shard is missing.
    """
    weights = [_weights(path) for path in paths if path.endswith(".safetensors")]
    indexes = [_index(path) for path in paths if _is_safetensors_index(_name(path))]
    if not weights and not indexes:
        return None
    chosen = _variant(indexes + weights, variant)
    stem = _stem(indexes, weights, chosen)
    index = next((i for i in indexes if (i.stem, i.variant) == (stem, chosen)), None)
    if index is not None:
        return Selection((), index.path)
    picked = [named for named in weights if named.variant == chosen]
    if stem is not None:
        picked = [named for named in picked if named.stem == stem]
    else:
        picked = [named for named in picked if named.stem != _SECOND_COPY]
    _check_shards(picked)
    taken = {named.path for named in picked}
    left_out = [_why_not(named, chosen) for named in weights if named.path not in taken]
    return Selection(tuple(named.path for named in picked), None, tuple(left_out))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_safetensors_index(name: str) -> bool:
    return is_index(name) and ".safetensors.index" in name


def _weights(path: str) -> _Named:
    rest = _name(path).removesuffix(".safetensors")
    number = count = 0
    # diffusers writes `x.fp16-00001-of-00002`, transformers `x-00001-of-00002.fp16`.
    stem, _, tail = rest.partition(".")
    if match := _NUMBERED.fullmatch(stem) or _NUMBERED.fullmatch(rest):
        number, count = int(match["number"]), int(match["count"])
        rest = rest.replace(match[0], match["stem"], 1)
        stem, _, tail = rest.partition(".")
    # Only the format's own names have variants: `sd3.5_large` is a name with a dot.
    known = stem in {*_STEMS, _SECOND_COPY}
    return _Named(path, stem if known else rest, tail if known else "", number, count)


def _index(path: str) -> _Named:
    stem, _, tail = _name(path).removesuffix(".json").partition(".safetensors.index")
    return _Named(path, stem, tail.removeprefix("."))


def _variant(named: Iterable[_Named], wanted: str | None) -> str:
    there = sorted({one.variant for one in named})
    if wanted is not None and wanted in there:
        return wanted
    if "" in there:
        return ""
    directory = next(iter(named)).path.rpartition("/")[0] or "."
    raise InputError(
        f"`{printable(directory)}` has its weights only in variants: "
        + ", ".join(f"`{printable(one)}`" for one in there),
        code="E_SRC_AMBIGUOUS",
        hint=f"Choose one with `--variant {printable(there[0])}`",
    )


def _stem(indexes: list[_Named], weights: list[_Named], variant: str) -> str | None:
    indexed = {index.stem for index in indexes if index.variant == variant}
    plain = {one.stem for one in weights if one.variant == variant}
    for stem in _STEMS:
        if stem in indexed or stem in plain:
            return stem
    if len(indexed) > 1:
        names = sorted(index.path for index in indexes if index.variant == variant)
        raise InputError(
            "several shard indexes: " + ", ".join(f"`{name}`" for name in names),
            code="E_SRC_AMBIGUOUS",
            hint="Move all but one of them, with their shards, to another directory",
        )
    if indexed:
        return indexed.pop()
    others = plain - {_SECOND_COPY}
    if plain == {_SECOND_COPY} or len(others) == 1:
        return (others or plain).pop()
    return None


def _check_shards(picked: list[_Named]) -> None:
    numbered = [named for named in picked if named.count]
    stems = {named.stem for named in numbered}
    if whole := [named for named in picked if not named.count and named.stem in stems]:
        raise InputError(
            f"both `{whole[0].path}` and `{numbered[0].path}` are there, and no "
            "index says which of them is the model",
            code="E_SRC_AMBIGUOUS",
            hint="Remove or move the one that you do not mean",
        )
    for stem in sorted(stems):
        _check_complete([named for named in numbered if named.stem == stem])


def _check_complete(shards: list[_Named]) -> None:
    first = shards[0]
    if others := {shard.count for shard in shards} - {first.count}:
        raise InputError(
            f"shards of different sets: `{first.path}` is one of {first.count}, others "
            f"are of {', '.join(map(str, sorted(others)))}",
            code="E_SRC_AMBIGUOUS",
            hint="Move all but one set to another directory",
        )
    if beyond := [shard for shard in shards if not 0 < shard.number <= first.count]:
        raise InputError(
            f"`{beyond[0].path}` is shard number {beyond[0].number} of {first.count}",
            code="E_SRC_AMBIGUOUS",
            hint="Remove or move the file that is not part of the model",
        )
    there = {shard.number for shard in shards}
    expected = range(1, min(first.count, limits.FILES_PER_SOURCE) + 1)
    lacking = [number for number in expected if number not in there]
    if lacking:
        shown = ", ".join(map(str, lacking[:10])) + (" and more" if len(lacking) > 10 else "")  # noqa: PLR2004
        raise InputError(
            f"{len(lacking)} of {first.count} shards are missing beside `{first.path}`: "
            f"number {shown}",
            code="E_SRC_SHARD_MISSING",
            hint="The download is incomplete: fetch the missing files",
        )


def _why_not(named: _Named, variant: str) -> LeftOut:
    if named.variant != variant and not named.variant:
        reason = "the default variant, which no `--variant` would choose"
    elif named.variant != variant:
        reason = f"another variant, `--variant {named.variant}` would choose it"
    elif named.stem == _SECOND_COPY:
        reason = "a second copy of the same weights"
    else:
        reason = "not one of the model's weights files"
    return LeftOut(named.path, reason)
