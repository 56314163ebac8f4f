"""Whether what would be imported is the whole model: weights that are not read are not lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from importer.sources.base import Selection
from importer.sources.roles import EXPORTS, FileRole
from store.errors import InputError, UnsupportedError, UsageError
from store.text import did_you_mean, printable

_SAVE_AS: Final = (
    "Save the model as safetensors, or fetch a revision that has it in this format"
)
_NAMED: Final = 12
"""Variants that one message lists."""


def check_complete(roles: Mapping[str, FileRole], selection: Selection | None) -> None:
    """Refuse a directory whose model is in part in a format that is not read.

    Weights in other formats beside complete weights are one more form of the same model.
    Complete is what has an index or the format's own name for a whole model. Beside files
    of other names (UQFF's `residual.safetensors`, an adapter), or where the directory has
    nothing that is read, weights that bear the name of a whole model are what would be lost.

    Args:
        roles: of the weights files of the directory, by path.
        selection: what would be imported of it, or None for nothing.

    Raises:
        UnsupportedError: it is not the whole model.
    """
    stems = set()
    if selection is not None:
        names = [roles[path].weights for path in selection.files]
        if selection.index is not None or any(
            name is None or name.precedence is not None or name.is_second_copy for name in names
        ):
            return
        stems = {name.stem for name in names if name is not None}
    for path, role in roles.items():
        if role.weights is None or role.weights.stem in stems:
            continue
        if role.is_alone:
            _lost(path, role.unread, selection)
        if selection is not None and _is_passed_over(role, selection):
            raise UnsupportedError(
                f"`{printable(path)}` has the name of a whole model, and "
                f"`{printable(selection.files[0])}` would be imported without it",
                code="E_FORMAT",
                hint="Name the file that you mean as the source",
            )


def _is_passed_over(role: FileRole, selection: Selection) -> bool:
    """Return whether weights are a whole model's, in a format that another was preferred to."""
    # An export is never the only form of a model that has others.
    is_other = role.format not in {"", selection.format, EXPORTS}
    return is_other and role.weights is not None and role.weights.precedence is not None


def no_variant(variant: str, roles: Iterable[FileRole]) -> NoReturn:
    """Refuse a source without any weights of the variant that was asked for.

    Args:
        variant: that was asked for.
        roles: of the files that the source has.
    """
    names = [role.weights for role in roles if role.weights is not None and not role.unread]
    known = sorted({name.variant for name in names if name.variant})
    has = ", ".join(f"`{printable(one)}`" for one in known[:_NAMED]) or "none"
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    raise UsageError(
        f"no weights of variant `{printable(variant)}`, the source has {has}{more}",
        code="E_SRC_VARIANT",
        hint=did_you_mean(variant, known),
    )


def no_weights(roles: Mapping[str, FileRole], source: str) -> NoReturn:
    """Refuse a source whose files hold no weights that are read."""
    # In `onnx/` and the like, too, or what a training run leaves.
    others = (
        (path, role.unread)
        for path, role in roles.items()
        if (role.reason or role.unread) and not role.format
    )
    path, unread = next(others, ("", ""))
    if path:
        kind = f" ({unread})" if unread else ""
        raise UnsupportedError(
            f"no weights in a format that ingot reads, only `{printable(path)}`{kind} and the "
            "like",
            code="E_FORMAT",
            hint=_SAVE_AS,
        )
    raise InputError(
        f"no weights in `{printable(source)}`",
        code="E_SRC_EMPTY",
        hint="A source is a file of weights, or a directory with such files: safetensors, "
        "PyTorch, GGUF, ONNX or UQFF",
    )


def _lost(path: str, unread: str, selection: Selection | None) -> NoReturn:
    files = [] if selection is None else [printable(file) for file in selection.files]
    if files:
        which = f"`{files[0]}` would be imported without it"
        hint = f"{_SAVE_AS}; or name `{files[0]}` itself as the source"
    else:
        directory = printable(path.rpartition("/")[0] or ".")
        which, hint = f"`{directory}` has no other weights", _SAVE_AS
    raise UnsupportedError(
        f"`{printable(path)}` is {unread}, which ingot does not read yet, and {which}",
        code="E_FORMAT",
        hint=hint,
    )
