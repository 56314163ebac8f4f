"""What a model can do, of what its configuration says that it can."""

from __future__ import annotations

import re
from typing import Final

from importer.models.description import Description
from importer.recipes.runtimes import ARCHITECTURES
from store import MediaType

_COMPLETION: Final = "completion"
_NO_TEXT: Final = re.compile(
    r"(?!\w*LMHead)\w*(Model|PreTraining|MaskedLM|Classification|QuestionAnswering)"
)
"""The classes of transformers that return states or labels."""


def abilities_of(model: Description) -> tuple[str, ...]:
    """Return the capabilities of a model, without `completion` where it writes no text.

    Ollama refuses to load a model without that word, so that every configuration has it: of
    encoders, adapters and pipelines, too, and of tensors whose architecture nothing tells.
    """
    if model.record.is_empty or model.is_whole or model.architecture in ARCHITECTURES:
        return model.capabilities
    has_template = any(model.layers(MediaType.TEMPLATE)) or any(
        layer.name.startswith("chat_template.") for layer in model.manifest.layers
    )
    writes = has_template or bool(
        model.architecture
        and model.record.kind != "pipeline"
        and not _NO_TEXT.fullmatch(model.architecture)
    )
    return tuple(word for word in model.capabilities if writes or word != _COMPLETION)
