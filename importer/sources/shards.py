"""Which weights files of one directory are its model: variants, shards, indexes, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from importer.sources.base import Selection
from importer.sources.naming import WeightsName
from importer.sources.roles import LeftOut
from store import limits
from store.errors import InputError
from store.text import printable

_NAMED: Final = 10
"""Numbers that one message gives."""


class _File(NamedTuple):
    path: str
    name: WeightsName


def select_weights(
    names: Mapping[str, WeightsName], key: str, variant: str | None = None
) -> Selection | None:
    """Choose the weights among the files that one format has in one directory.

    With an index, the files that it maps (checked against it when they are read). Without:
    the files of the format's own name, the likeliest that is there; else all of them.

    Args:
        names: of weights files and indexes, by path.
        key: of the format.
        variant: such as `fp16`, chosen where the directory has it.

    Returns:
        The choice, or None where there are no files.

    Raises:
        InputError: the choice is ambiguous, or a numbered shard is missing.
    """
    files = [_File(path, name) for path, name in names.items()]
    if not files:
        return None
    chosen = _variant(files, variant)
    stem = _stem([file for file in files if file.name.variant == chosen])
    weights = [file for file in files if not file.name.is_index]
    for file in files:
        if file.name.is_index and (file.name.stem, file.name.variant) == (stem, chosen):
            is_of = variant is not None and file.name.is_of(variant)
            return Selection(key, (), file.path, is_of_variant=is_of)
    picked = [file for file in weights if file.name.variant == chosen]
    if stem is not None:
        picked = [file for file in picked if file.name.stem == stem]
    else:
        picked = [file for file in picked if not file.name.is_second_copy]
        picked += _lacking(weights, picked, chosen)
    stems = {file.name.stem for file in picked}
    picked = [file for file in picked if file.name.copy_of not in stems]
    _check_shards(picked)
    taken = {file.path for file in picked}
    left_out = [_why_not(file, chosen) for file in weights if file.path not in taken]
    is_of = variant is not None and any(file.name.is_of(variant) for file in picked)
    return Selection(
        key, tuple(file.path for file in picked), None, tuple(left_out), is_of_variant=is_of
    )


def check_shards(paths: Iterable[str], names: Mapping[str, WeightsName]) -> None:
    """Check that numbered files are a whole set.

    Raises:
        InputError: one is missing, or two sets are mixed.
    """
    _check_shards([_File(path, names[path]) for path in paths])


def _variant(files: Iterable[_File], wanted: str | None) -> str:
    there = sorted({file.name.variant for file in files})
    if wanted is not None and wanted in there:
        return wanted
    if "" in there:
        return ""
    directory = next(iter(files)).path.rpartition("/")[0] or "."
    raise InputError(
        f"`{printable(directory)}` has its weights only in variants: "
        + ", ".join(f"`{printable(one)}`" for one in there),
        code="E_SRC_VARIANTS",
        facts={"variant": printable(there[0])},
    )


def _lacking(files: Iterable[_File], picked: Iterable[_File], variant: str) -> list[_File]:
    """Return the default files of the parts of a model that there are in other variants only.

    Raises:
        InputError: there is no default one.
    """
    stems = {file.name.stem for file in picked} | {file.name.copy_of for file in picked} - {""}
    others: dict[str, dict[str, _File]] = {}
    for file in files:
        # Of the format's own names, the likeliest that is there is the whole model.
        is_part = file.name.precedence is None and file.name.variant != variant
        if is_part and not stems.intersection({file.name.stem, file.name.copy_of}):
            others.setdefault(file.name.stem, {})[file.name.variant] = file
    for stem, variants in others.items():
        if "" not in variants:
            wanted = f"variant `{printable(variant)}`" if variant else "default variant"
            raise InputError(
                f"`{printable(stem)}` has no {wanted}, only "
                + ", ".join(f"`{printable(one)}`" for one in sorted(variants)),
                code="E_SRC_VARIANTS",
                facts={"variant": printable(min(variants))},
            )
    return [variants[""] for variants in others.values()]


def _stem(files: Iterable[_File]) -> str | None:
    """Return the stem of the model among files of one variant, or None for several."""
    own = [file.name for file in files if file.name.precedence is not None]
    if own:
        return min(own, key=lambda name: name.precedence or 0).stem
    indexes = {file.path: file.name.stem for file in files if file.name.is_index}
    if len(set(indexes.values())) > 1:
        raise InputError(
            "several shard indexes: " + ", ".join(f"`{path}`" for path in sorted(indexes)),
            code="E_SRC_AMBIGUOUS",
            hint="Move all but one of them, with their shards, to another directory",
        )
    if indexes:
        return next(iter(indexes.values()))
    stems = {file.name.stem for file in files}
    others = {file.name.stem for file in files if not file.name.is_second_copy}
    one = others or stems
    return one.pop() if len(one) == 1 else None


def _check_shards(picked: list[_File]) -> None:
    numbered = [file for file in picked if file.name.count]
    stems = {file.name.stem for file in numbered}
    whole = [file for file in picked if not file.name.count and file.name.stem in stems]
    if whole:
        raise InputError(
            f"both `{whole[0].path}` and `{numbered[0].path}` are there, and no "
            "index says which of them is the model",
            code="E_SRC_AMBIGUOUS",
            hint="Remove or move the one that you do not mean",
        )
    for stem in sorted(stems):
        _check_complete([file for file in numbered if file.name.stem == stem])


def _check_complete(shards: list[_File]) -> None:
    first, count = shards[0].path, shards[0].name.count
    if others := {shard.name.count for shard in shards} - {count}:
        raise InputError(
            f"shards of different sets: `{first}` is one of {count}, others "
            f"are of {', '.join(map(str, sorted(others)))}",
            code="E_SRC_AMBIGUOUS",
            hint="Move all but one set to another directory",
        )
    if beyond := [shard for shard in shards if not 0 < shard.name.number <= count]:
        raise InputError(
            f"`{beyond[0].path}` is shard number {beyond[0].name.number} of {count}",
            code="E_SRC_AMBIGUOUS",
            hint="Remove or move the file that is not part of the model",
        )
    there = {shard.name.number for shard in shards}
    expected = range(1, min(count, limits.FILES_PER_SOURCE) + 1)
    lacking = [number for number in expected if number not in there]
    if lacking:
        shown = ", ".join(map(str, lacking[:_NAMED]))
        more = " and more" if len(lacking) > _NAMED else ""
        raise InputError(
            f"{len(lacking)} of {count} shards are missing beside `{first}`: "
            f"number {shown}{more}",
            code="E_SRC_SHARD_MISSING",
            hint="The download is incomplete: fetch the missing files",
        )


def _why_not(file: _File, variant: str) -> LeftOut:
    name = file.name
    if name.variant != variant and not name.variant:
        reason = "the default variant"
    elif name.variant != variant:
        reason = f"another variant: `{printable(name.variant)}`"
    elif name.is_second_copy or name.copy_of:
        reason = "a second copy of the same weights"
    else:
        reason = "not one of the model's weights files"
    return LeftOut(file.path, reason)
