"""Two models side by side as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from cli.views.diff_groups import by_layer, by_role, by_type, moved, of_a, of_b, sums
from cli.views.quality import measures
from importer.verification.diff import Difference, Kind, TensorDifference
from importer.verification.documents import DocumentDifference


def diff_document(names: tuple[str, str], found: Difference) -> dict[str, object]:
    """Return what `diff --json` prints."""
    sides = {
        key: {"name": name, "tensors": totals[0], "bytes": totals[1]}
        for key, name, side in zip("ab", names, (of_a, of_b), strict=True)
        for totals in [sums(found.tensors, side)]
    }
    return {
        **sides,
        "equal": found.is_empty,
        "tensors": {str(kind): len(found.of(kind)) for kind in Kind} | {"unread": found.unread},
        "bytes_compared": found.nbytes,
        "differences": [_difference(one) for one in found.tensors if one.kind is not Kind.SAME],
        "roles": [{"role": name, **_group(members)} for name, members in by_role(found)],
        "layers": [{"layer": name, **_group(members)} for name, members in by_layer(found)],
        "documents": [_document(one) for one in found.documents],
    }


def _difference(one: TensorDifference) -> dict[str, object]:
    sides = {
        key: None
        if form is None
        else {"type": form.type, "shape": list(form.shape), "bytes": form.nbytes}
        for key, form in (("a", one.a), ("b", one.b))
    }
    return {
        "name": one.name,
        "kind": str(one.kind),
        "role": str(one.role),
        "layer": one.layer or None,
        **sides,
        "same_values": one.has_same_values,
        "measures": None if one.deviation is None else measures(one.deviation),
    }


def _group(members: Sequence[TensorDifference]) -> dict[str, object]:
    group = moved(members)
    return {
        "tensors": len(members),
        "changed": group.changed,
        "relative_rmse": group.far,
        "a": dict(by_type(members, of_a)),
        "b": dict(by_type(members, of_b)),
    }


def _document(one: DocumentDifference) -> dict[str, object]:
    return {
        "kind": one.kind,
        "name": one.name,
        "a_bytes": one.a,
        "b_bytes": one.b,
        "entries": [entry._asdict() for entry in one.entries],
    }
