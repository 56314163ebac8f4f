"""The names of UQFF's files: `<stem>-<number>.uqff`, and the file beside all of them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SUFFIX: Final = ".uqff"
RESIDUAL: Final = "residual.safetensors"
"""Holds what is not in the shards: tensors that no type was asked for."""
REPORT: Final = "uqff_report.json"
"""What newer versions of mistral.rs say of the shards that they wrote."""
_NUMBERED: Final = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{1,9})", re.DOTALL)


def is_shard(path: str) -> bool:
    """Return whether a file is a shard, by its name in any case."""
    return path.lower().endswith(SUFFIX)


class ShardName(NamedTuple):
    """The name of a shard, taken apart.

    Attributes:
        stem: of its set, such as `q4k`.
        number: from 0 on, or None for a file that is a set of its own.
    """

    stem: str
    number: int | None


def parse_shard(name: str) -> ShardName | None:
    """Take a file's name apart, or return None for one of another format.

    Example:
        >>> parse_shard("q4k-0.uqff")
        ShardName(stem='q4k', number=0)
    """
    if not is_shard(name):
        return None
    stem = name[: -len(SUFFIX)]
    if match := _NUMBERED.fullmatch(stem):
        return ShardName(match["stem"], int(match["number"]))
    return ShardName(stem, None)
