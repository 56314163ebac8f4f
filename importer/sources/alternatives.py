"""Which of several models in one container is meant: variants of which each is whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from importer.sources.base import Selection
from importer.sources.naming import WeightsName
from importer.sources.roles import LeftOut
from importer.sources.shards import check_shards
from store.errors import UsageError
from store.text import printable, size

_NAMED: Final = 40
"""Variants that one message lists."""
_PREFERRED: Final = ("F16", "BF16", "F32", "Q8_0")
"""Of a companion, where there is none of the model's own variant."""


class _Model(NamedTuple):
    """The files of one model: a file, or the members of a split.

    Attributes:
        place: the path without number and ending.
        files: in their order.
    """

    place: str
    name: WeightsName
    files: tuple[str, ...]


def select_alternative(
    names: Mapping[str, WeightsName],
    key: str,
    variant: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Selection:
    """Choose one model, and the companions that go with it.

    Args:
        names: of weights files that stand alone, by path, from any directory; at least one.
        key: of the format.
        variant: a label such as `Q4_K_M`, or a name without its ending; with its directory
            where several have it.
        sizes: of files in bytes, by path, for the message.

    Raises:
        UsageError: there are several, and nothing says which is meant.
        InputError: a numbered member of a split is missing.
    """
    models = _models(names)
    main = [model for model in models if not model.name.is_companion] or models
    chosen = _choose(main, variant, sizes or {})
    check_shards(chosen.files, names)
    files = list(chosen.files)
    companions = [model for model in models if model not in main]
    companion = _companion(companions, chosen)
    if companion is not None:
        check_shards(companion.files, names)
        files += companion.files
    left_out = [
        LeftOut(path, _why_not(model, companions))
        for model in models
        if model not in {chosen, companion}
        for path in model.files
    ]
    is_of_variant = variant is not None and _is_of(chosen, variant)
    return Selection(key, tuple(files), None, tuple(left_out), is_of_variant=is_of_variant)


def has_variant(names: Mapping[str, WeightsName], variant: str) -> bool:
    """Return whether one of the models is the variant that was asked for."""
    return any(_is_of(model, variant) for model in _models(names))


def _models(names: Mapping[str, WeightsName]) -> list[_Model]:
    found: dict[str, list[tuple[int, str]]] = {}
    for path, name in names.items():
        directory = path.rpartition("/")[0]
        place = f"{directory}/{name.stem}" if directory else name.stem
        found.setdefault(place, []).append((name.number, path))
    return [
        _Model(place, names[files[0][1]], tuple(path for _, path in sorted(files)))
        for place, files in sorted(found.items())
    ]


def _is_of(model: _Model, variant: str) -> bool:
    return variant == model.place or model.name.is_of(variant)


def _choose(models: list[_Model], variant: str | None, sizes: Mapping[str, int]) -> _Model:
    if variant is None:
        meant = models
    else:
        # A whole path first: a label may be that of several.
        exact = [model for model in models if model.place == variant]
        meant = exact or [model for model in models if _is_of(model, variant)]
        meant = meant or ([] if len(models) > 1 else models)
    if len(meant) == 1:
        return meant[0]
    asked = "" if variant is None else f" of variant `{printable(variant)}`"
    shown = meant or models
    count = (
        f"{len(meant) or 'none'} of {len(models)} models"
        if asked
        else f"the source has {len(models)} models"
    )
    raise UsageError(
        f"{count}{asked}: {', '.join(_listed(shown, sizes))}",
        code="E_SRC_VARIANTS",
        facts={"variant": _label(shown[0], shown)},
    )


def _listed(models: list[_Model], sizes: Mapping[str, int]) -> Iterable[str]:
    for model in models[:_NAMED]:
        nbytes = sum(sizes.get(path, 0) for path in model.files)
        told = f" ({size(nbytes)})" if nbytes else ""
        yield f"`{_label(model, models)}`{told}"
    if len(models) > _NAMED:
        yield f"and {len(models) - _NAMED} more"


def _label(model: _Model, models: Iterable[_Model]) -> str:
    """The shortest name that tells a model from the others."""
    for label in (model.name.variant, model.name.stem):
        if label and sum(_is_of(one, label) for one in models) == 1:
            return printable(label)
    return printable(model.place)


def _companion(companions: list[_Model], chosen: _Model) -> _Model | None:
    def rank(model: _Model) -> tuple[bool, bool, int, str]:
        label = model.name.variant.upper()
        known = _PREFERRED.index(label) if label in _PREFERRED else len(_PREFERRED)
        beside = _directory(model) == _directory(chosen)
        return (not beside, label != chosen.name.variant.upper(), known, model.place)

    return min(companions, key=rank, default=None)


def _directory(model: _Model) -> str:
    return model.place.rpartition("/")[0]


def _why_not(model: _Model, companions: list[_Model]) -> str:
    label = printable(model.name.variant or model.name.stem)
    what = "another variant of a companion" if model in companions else "another variant"
    return f"{what}: `{label}`"
