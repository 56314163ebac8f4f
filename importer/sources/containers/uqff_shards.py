"""Which UQFF shards of a directory are its model, by their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from importer.formats.uqff.names import REPORT, RESIDUAL, parse_shard
from importer.sources.base import Selection
from importer.sources.document import read_document
from importer.sources.file import SourceFile
from importer.sources.naming import WeightsName
from importer.sources.roles import OTHER_FORMAT, FileRole, LeftOut
from store import limits
from store.errors import InputError, UsageError
from store.json import Json
from store.text import printable, size

_OTHER_SET: Final = "the same model in another type"
_NAMED: Final = 40
_FETCH: Final = "The download is incomplete: fetch the missing files"


class _Shard(NamedTuple):
    path: str
    name: WeightsName


def shard_name(path: str) -> WeightsName | None:
    """Take the name of a shard apart, or return None for another's file.

    The number counts from 1, as those of other formats do; that of all shards is not told.
    """
    name = parse_shard(path.rpartition("/")[2])
    if name is None:
        return None
    number = 0 if name.number is None else name.number + 1
    return WeightsName(name.stem, name.stem, number, precedence=0)


def select_shards(
    names: Mapping[str, WeightsName],
    there: Collection[str],
    key: str,
    wanted: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Selection | None:
    """Choose the shards of one set, and the file beside them.

    Args:
        names: of the shards of a directory, by path.
        there: the paths of all weights of the directory.
        key: of the format.
        wanted: the stem of the set, in any case, where there are several.
        sizes: of files in bytes, by path, for the message.

    Returns:
        The choice, or None where there are no shards.

    Raises:
        UsageError: there are several sets, and none of them was asked for.
        InputError: a shard or the file beside them is missing.
    """
    sets: dict[str, list[_Shard]] = {}
    for path, name in names.items():
        sets.setdefault(name.stem, []).append(_Shard(path, name))
    if not sets:
        return None
    stem = _stem(sets, wanted, sizes or {})
    shards = sorted(sets[stem], key=lambda shard: shard.name.number)
    _check_numbers(shards)
    directory = shards[0].path.rpartition("/")[0]
    residual = f"{directory}/{RESIDUAL}" if directory else RESIDUAL
    if residual not in there:
        raise InputError(
            f"`{printable(residual)}` is missing beside `{printable(shards[0].path)}`: it has "
            "what the shards have not",
            code="E_SRC_SHARD_MISSING",
            hint=_FETCH,
        )
    return Selection(
        key,
        (*(shard.path for shard in shards), residual),
        left_out=tuple(
            LeftOut(path, _OTHER_SET) for path, name in names.items() if name.stem != stem
        ),
        is_of_variant=wanted is not None and stem.lower() == wanted.lower(),
    )


def only_set_of(files: Iterable[SourceFile], shard: str) -> Iterator[SourceFile]:
    """Yield the files of a directory, of its weights only those of the set of one shard.

    Args:
        files: of the directory, and of those below it.
        shard: the name of a file in the directory itself.
    """
    chosen = parse_shard(shard)
    for file in files:
        role = file.role
        name = parse_shard(file.path)
        if role.weights is None or "/" in file.path or file.path == RESIDUAL:
            yield file
        elif name is None:
            yield replace(file, role=FileRole(reason=OTHER_FORMAT))
        elif chosen is None or name.stem != chosen.stem:
            yield replace(file, role=FileRole(reason=_OTHER_SET))
        else:
            yield file


def check_report(shards: Iterable[SourceFile], files: Mapping[str, SourceFile]) -> None:
    """Refuse a set whose report names shards that are not there.

    Nothing else tells that the last ones are missing. A report of other shards is none.

    Raises:
        InputError: a shard is missing, or the report is malformed.
    """
    taken = {file.name: file for file in shards}
    directory = next(iter(taken.values())).directory
    report = files.get(f"{directory}/{REPORT}" if directory else REPORT)
    if report is None:
        return
    for named in _shards_in(read_document(report).get("outputs")):
        missing = sorted(named - taken.keys())
        if missing and not named.isdisjoint(taken):
            raise InputError(
                f"`{report.path}` names shard `{printable(missing[0])}`, which is missing",
                code="E_SRC_SHARD_MISSING",
                hint=_FETCH,
            )


def _shards_in(outputs: Json) -> Iterator[set[str]]:
    """Yield the names of the shards of each output that a report lists."""
    for output in outputs if isinstance(outputs, list) else ():
        shards = output.get("shards") if isinstance(output, dict) else None
        if isinstance(shards, list):
            yield {shard for shard in shards if isinstance(shard, str)}


def _stem(
    sets: Mapping[str, list[_Shard]], wanted: str | None, sizes: Mapping[str, int]
) -> str:
    if len(sets) == 1:
        return next(iter(sets))
    matching = [stem for stem in sets if wanted is not None and stem.lower() == wanted.lower()]
    if len(matching) == 1:
        return matching[0]
    raise UsageError(
        f"the source has {len(sets)} models: {', '.join(_listed(sets, sizes))}",
        code="E_SRC_VARIANTS",
        facts={"variant": printable(min(sets))},
    )


def _listed(sets: Mapping[str, list[_Shard]], sizes: Mapping[str, int]) -> Iterator[str]:
    for stem in sorted(sets)[:_NAMED]:
        nbytes = sum(sizes.get(shard.path, 0) for shard in sets[stem])
        yield f"`{printable(stem)}`" + (f" ({size(nbytes)})" if nbytes else "")
    if len(sets) > _NAMED:
        yield f"and {len(sets) - _NAMED} more"


def _check_numbers(shards: list[_Shard]) -> None:
    """Refuse a set that does not have each number once, from the first on."""
    first = shards[0].path
    if len(shards) == 1 and not shards[0].name.number:
        return
    numbers = [shard.name.number for shard in shards]
    if not numbers[0] or len(set(numbers)) < len(numbers):
        raise InputError(
            f"`{printable(first)}` and `{printable(shards[1].path)}` cannot both be the model",
            code="E_SRC_AMBIGUOUS",
            hint="Remove or move the one that you do not mean",
        )
    last = min(numbers[-1], limits.FILES_PER_SOURCE)
    if missing := sorted(set(range(1, last + 1)) - set(numbers)):
        shown = ", ".join(str(number - 1) for number in missing[:_NAMED])
        raise InputError(
            f"{len(missing)} shards are missing beside `{printable(first)}`: number {shown}",
            code="E_SRC_SHARD_MISSING",
            hint=_FETCH,
        )
