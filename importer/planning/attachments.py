"""Let a model carry another one: a draft that guesses ahead, or an adapter.

The tensors of that one are stored as they are, one a blob, below a prefix that no model uses
(`draft.`, `adapter.`), and its JSON files below a directory of that name. So Ollama stores a
draft (`x/create/draft.go`); it has no adapters of tensors.
"""

from __future__ import annotations

from dataclasses import replace

from importer.planning.layout import Shared
from importer.planning.plan import FilePlan, Plan, TensorPlan
from importer.planning.planner import check_blobs, plan_blob
from importer.recipes.recipe import PLAIN, Decision
from importer.sources.carried import Role
from importer.sources.file import SourceFile
from importer.sources.inventory import Inventory
from importer.sources.selection import MODULES, PIPELINE_INDEXES
from importer.sources.tensor import SourceTensor, StoredArray
from store import MediaType
from store.errors import InputError, UnsupportedError
from store.text import printable


def check_draft(inventory: Inventory) -> None:
    """Make sure that a source is one that Ollama takes for a draft.

    Raises:
        UnsupportedError: it is not a directory of tensors.
        InputError: its config.json names no architecture.
    """
    if any(inventory.file(path) is not None for path in (MODULES, *PIPELINE_INDEXES)):
        raise UnsupportedError(
            f"the draft `{printable(str(inventory.root))}` is a pipeline or a sentence model, "
            "expected a directory of tensors",
            code="E_DRAFT",
        )
    if inventory.whole is not None:
        raise UnsupportedError(
            f"the draft `{printable(str(inventory.root))}` is GGUF, expected a directory of "
            "tensors",
            code="E_DRAFT",
        )
    config = inventory.configs.get("", {})
    names = config.get("architectures")
    first = names[0] if isinstance(names, list) and names else config.get("model_type")
    if not (isinstance(first, str) and first):
        raise InputError("the draft's `config.json` names no architecture", code="E_DRAFT")


def attach(plan: Plan, role: Role, inventory: Inventory) -> Plan:
    """Return a plan that stores a carried model, too.

    Args:
        plan: of the model that carries it.
        role: of the carried one.
        inventory: of the carried one, with arrays as they are stored.

    Raises:
        UnsupportedError: the model cannot carry one.
        InputError: the model has a tensor or a file of such a name.
    """
    if plan.inventory.components not in {("",), ()} or plan.inventory.whole is not None:
        article = "a draft" if role is Role.DRAFT else "an adapter"
        found = f"has the parts {', '.join(sorted(filter(None, plan.inventory.components)))}"
        if plan.inventory.whole is not None:
            found = "is a GGUF file that is kept whole"
        raise UnsupportedError(
            f"`{printable(plan.inventory.root.name)}` cannot carry {article}: it {found}, "
            "expected one directory of tensors",
            code="E_ATTACHMENT",
        )
    tensors = sorted(
        (_tensor(tensor, role) for tensor in inventory.tensors),
        key=lambda tensor: tensor.name.encode(),
    )
    blobs = (*plan.blobs, *(plan_blob(Shared(tensor.name, (tensor,))) for tensor in tensors))
    check_blobs(blobs)
    files = [
        FilePlan(_below(file, role), MediaType.JSON)
        for file in inventory.files
        if "/" not in file.path and file.role.media_type is MediaType.JSON
    ]
    there = {file.name for file in plan.files}
    if clash := next((file.name for file in files if file.name in there), None):
        raise InputError(f"the model has a file `{printable(clash)}`", code="E_NAME_COLLISION")
    weights = (_below(file, role) for file in inventory.weights)
    merged = plan.inventory._replace(
        files=(*plan.inventory.files, *(file.file for file in files)),
        weights=(*plan.inventory.weights, *weights),
    )
    return plan._replace(inventory=merged, blobs=blobs, files=(*plan.files, *files))


def _tensor(tensor: SourceTensor, role: Role) -> TensorPlan:
    arrays = tuple(_carried(array, role) for array in tensor.arrays)
    source = tensor._replace(name=f"{role}.{tensor.name}", arrays=arrays, component="")
    decision = Decision(None, PLAIN.rules[0], "of a model that this one carries")
    return TensorPlan.of(source.name, source.shape, (source,), decision)


def _carried(array: StoredArray, role: Role) -> StoredArray:
    whole = None if array.whole is None else _carried(array.whole, role)
    return array._replace(file=_below(array.file, role), whole=whole)


def _below(file: SourceFile, role: Role) -> SourceFile:
    return replace(file, path=f"{role}/{file.path}")
