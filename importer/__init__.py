"""Import checkpoints into a store: the public names, each loaded when it is first used.

Example:
    >>> from importer import ImportRequest, import_model, plan_import
    >>> request = ImportRequest(ModelName.parse("llama"), Path("./Llama-3.2-1B"))
    >>> with Store(Path("~/.models").expanduser()) as store:
    ...     result = import_model(request, plan_import(request, store), store)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importer.models.description import Description, describe
    from importer.pipeline import ImportResult, import_model, plan_import
    from importer.planning.plan import Plan
    from importer.recipes.options import parse_options
    from importer.request import ImportRequest
    from importer.sources.location import parse_source
    from importer.verification.compare import compare
    from importer.verification.repair import repair

__all__ = [
    "Description",
    "ImportRequest",
    "ImportResult",
    "Plan",
    "compare",
    "describe",
    "import_model",
    "parse_options",
    "parse_source",
    "plan_import",
    "repair",
]

_HOMES: Final = {
    "Description": "importer.models.description",
    "ImportRequest": "importer.request",
    "ImportResult": "importer.pipeline",
    "Plan": "importer.planning.plan",
    "compare": "importer.verification.compare",
    "describe": "importer.models.description",
    "import_model": "importer.pipeline",
    "parse_options": "importer.recipes.options",
    "parse_source": "importer.sources.location",
    "plan_import": "importer.pipeline",
    "repair": "importer.verification.repair",
}


def __getattr__(name: str) -> object:
    # On first use: `show` needs a third of what `create` does, and starts quickly.
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(importlib.import_module(_HOMES[name]), name)
