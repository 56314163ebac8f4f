"""Whether a directory of directories is one model, or several models side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from importer.sources.document import CONFIG, Document
from importer.sources.selection import MODULES, PIPELINE_INDEXES
from store.errors import InputError
from store.text import printable

_PARTS: Final = (
    "controlnet", "image_encoder", "prior", "safety_checker", "text_encoder", "transformer",
    "unet", "vae", "vqvae",
)  # fmt: skip
"""Begin the names of components in pipelines of diffusers, some of them with numbers behind."""
_NAMED: Final = 10
"""Models that one message lists."""


def check_one_model(
    components: Collection[str], configs: Mapping[str, Document], files: Collection[str]
) -> None:
    """Refuse directories that are a model of transformers each, with nothing that joins them.

    An index joins them, or a configuration of the whole. Without either they are the components
    of a pipeline if one of them is not such a model, as diffusers' own are, or is named as a
    part.

    Args:
        components: the directories with weights.
        configs: the `config.json` of each that has one.
        files: the paths of every file.

    Raises:
        InputError: they are several models.
    """
    joins = (CONFIG, MODULES, *PIPELINE_INDEXES)
    if "" in components or len(components) == 1 or any(index in files for index in joins):
        return
    for directory in components:
        is_part = directory.rpartition("/")[2].startswith(_PARTS)
        if is_part or not configs.get(directory, {}).get("architectures"):
            return
    shown = [f"`{printable(directory)}`" for directory in sorted(components)]
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    raise InputError(
        f"{len(shown)} models, and no `{PIPELINE_INDEXES[0]}` that makes them one: "
        f"{', '.join(shown[:_NAMED])}{more}",
        code="E_SRC_AMBIGUOUS",
        hint="Name the directory of the one that you mean as the source",
    )
