"""What the tensors of a stored model are."""

from __future__ import annotations

from importer.models.description import describe
from store import ModelName

NAME = ModelName.parse("m")


def types(store, name=NAME):
    tensors = describe(store, name).tensors
    return {one.name: (one.type_name, one.group_size, one.shape) for one in tensors}
