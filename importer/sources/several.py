"""Whether a directory of directories is one model, or several models side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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
) -> Iterator[str]:
    """Refuse directories that are models of their own; yield a note where that is uncertain.

    An index joins directories, or a configuration of the whole. Without either they are the
    components of a pipeline if one of them is of diffusers, or is named as a part, or has no
    configuration of a model, such as the codec beside a speech model. In the last case only
    their place suggests it, so a note says so.

    Args:
        components: the directories with weights.
        configs: the `config.json` of each that has one.
        files: the paths of every file.

    Raises:
        InputError: they are several models: each one of transformers, or one a pipeline with
            its own index.
    """
    if "" in components or any(
        index in files for index in (CONFIG, MODULES, *PIPELINE_INDEXES)
    ):
        return
    pipelines = {
        path.rpartition("/")[0] for path in files if path.rpartition("/")[2] in PIPELINE_INDEXES
    }
    models = sorted({_model_of(directory, pipelines) for directory in components})
    if len(models) == 1:
        return
    if not pipelines.intersection(models):
        if any(_is_component(model, configs.get(model, {})) for model in models):
            return
        if not all(configs.get(model, {}).get("architectures") for model in models):
            yield (
                f"{_listed(models)} are imported as the components of one model, although "
                f"no `{PIPELINE_INDEXES[0]}` says so"
            )
            return
    raise InputError(
        f"{len(models)} models, and no `{PIPELINE_INDEXES[0]}` that makes them one: "
        f"{_listed(models)}",
        code="E_SRC_AMBIGUOUS",
        hint="Name the directory of the one that you mean as the source",
    )


def _model_of(directory: str, pipelines: Collection[str]) -> str:
    """Return the directory of the pipeline that a component is of, or its own."""
    above = [path for path in pipelines if directory.startswith(f"{path}/")]
    return min(above, key=len, default=directory)


def _is_component(directory: str, config: Document) -> bool:
    return "_class_name" in config or directory.rpartition("/")[2].startswith(_PARTS)


def _listed(models: Sequence[str]) -> str:
    shown = ", ".join(f"`{printable(model)}`" for model in models[:_NAMED])
    return shown + (f" and {len(models) - _NAMED} more" if len(models) > _NAMED else "")
