"""Which importance each tensor gets from a matrix, whoever named its entries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from importer.codecs.importance import Importance, weighs, weighted
from importer.formats.gguf_names.spelling import (
    LAYER,
    Placed,
    Spelling,
    architectures,
    spelling_of,
)
from importer.formats.imatrix.matrix import FLOAT, ImportanceMatrix
from importer.planning.plan import TensorPlan, Weighed
from importer.sources.imatrix import MatrixFile
from importer.sources.tensor import SourceTensor
from store.errors import InputError
from store.text import printable

_SHARED: Final[Mapping[str, tuple[str, ...]]] = {
    "attn_q": ("attn_qkv", "attn_k", "attn_v"),
    "attn_k": ("attn_qkv", "attn_q", "attn_v"),
    "attn_v": ("attn_qkv", "attn_q", "attn_k"),
    "attn_qkv": ("attn_q", "attn_k", "attn_v"),
    "ffn_gate": ("ffn_up",),
    "ffn_up": ("ffn_gate",),
    "ffn_gate_exps": ("ffn_gate_up_exps", "ffn_up_exps"),
    "ffn_up_exps": ("ffn_gate_up_exps", "ffn_gate_exps"),
    "ffn_gate_shexp": ("ffn_up_shexp",),
    "ffn_up_shexp": ("ffn_gate_shexp",),
}
"""Stems of GGUF with the same input, one of which may be fused from the others."""
_PREFIXES: Final = (
    ("", ""),
    ("model.language_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.", ""),
    ("model.", ""),
    ("", "model."),
    ("bert.", ""),
    ("", "bert."),
    ("transformer.", ""),
    ("", "transformer."),
)
"""How a name may begin here, and how in the table or the matrix."""
_FUSED: Final = (
    (re.compile(r"\.experts\.gate_up_proj$"), ".experts.0.gate_proj.weight"),
    (re.compile(r"\.experts\.down_proj$"), ".experts.0.down_proj.weight"),
)
"""Stacks of experts, which are called after no single one of them."""
_EXPERT: Final = re.compile(
    r"\.experts\.(\d+)\.(gate_proj|up_proj|down_proj|w1|w2|w3)\.weight$"
)
_STACK_OF: Final = {"down_proj": "down_proj", "w2": "down_proj"}
_TURNED: Final = frozenset({"gpt2", "openai-gpt", "imagegpt", "decision_transformer"})
"""Families whose matrices are stored as `[in, out]`: columns are not what a layer reads."""
_NO_COLUMNS: Final = frozenset({"token_embd", "per_layer_token_embd", "output"})
"""Stems of which there may be an entry for something else: one number for each token."""
_SAMPLE: Final = 256
_MATRIX: Final = 2


class Weigher:
    """Gives plans of tensors the importance of their columns."""

    def __init__(self, found: MatrixFile, tensors: Sequence[SourceTensor], family: str) -> None:
        """Learn how the entries are named.

        Args:
            found: the matrix.
            tensors: of the model.
            family: the configuration's `model_type`, or empty.
        """
        self._matrix, self._digest = found.matrix, found.digest
        self._is_turned = family in _TURNED
        self._spelling = _spelling(found.matrix, tensors) if found.matrix.is_gguf else None
        self._made: dict[bytes, Importance | None] = {}
        self._without: list[str] = []
        self._tensors = self._unused = 0

    def weigh(self, plan: TensorPlan) -> TensorPlan:
        """Return the plan of a tensor with its importance, if its scales are searched for.

        Raises:
            InputError: the matrix is of another model, or has negative numbers.
        """
        if not weighs(plan.transcoder):
            return plan
        found: list[Importance | None] = []
        is_known = True
        for source in plan.sources:
            numbers = self.numbers(source)
            is_known = is_known and numbers is not None
            if numbers is None:
                found += [None] * max(math.prod(source.shape[:-2]), 1)
            else:
                found += [self._importance(one, source.name) for one in numbers]
        if not is_known:
            self._without.append(plan.name)
        else:
            self._tensors += 1
            self._unused += found.count(None)
        if found.count(None) == len(found):
            return plan
        return plan._replace(transcoder=weighted(plan.transcoder, found))

    def result(self) -> Weighed:
        """Return what was found.

        Raises:
            InputError: nothing that is quantized was found in the matrix.
        """
        if not self._tensors:
            first = printable(next(iter(self._matrix.entries)))
            raise InputError(
                "the importance matrix has nothing for any tensor whose scales are searched "
                f"for; the first of its entries is `{first}`",
                code="E_IMATRIX_UNUSED",
            )
        return Weighed(self._digest, self._tensors, tuple(self._without), self._unused)

    def numbers(self, tensor: SourceTensor) -> list[bytes] | None:
        """Return a float32 for each column, of each matrix of a tensor; None of one unknown.

        Raises:
            InputError: the matrix is of another model.
        """
        matrices = max(math.prod(tensor.shape[:-2]), 1)
        columns = tensor.shape[-1]
        if self._is_turned or _may_be_turned(tensor):
            return None
        for name, expert, is_loose in self._names(tensor.own_name):
            data = self._matrix.entries.get(name)
            if data is None:
                continue
            if expert is not None and len(data) > columns * FLOAT:
                data = data[expert * columns * FLOAT : (expert + 1) * columns * FLOAT]
            if len(data) != matrices * columns * FLOAT:
                if is_loose or len(data) == matrices * tensor.shape[-2] * FLOAT:
                    return None
                raise InputError(
                    f"the importance matrix has {len(data) // FLOAT} numbers for "
                    f"`{printable(tensor.name)}`, expected {matrices * columns}: it is of "
                    "another model",
                    code="E_IMATRIX_SHAPE",
                    facts={"tensor": tensor.name},
                )
            size = columns * FLOAT
            return [data[i * size : (i + 1) * size] for i in range(matrices)]
        return None

    def _importance(self, data: bytes, name: str) -> Importance | None:
        """Return importance; None where all count alike, as if the texts never came there."""
        if data not in self._made:
            import numpy as np  # noqa: PLC0415 - few imports have a matrix

            numbers = np.frombuffer(data, "<f4")
            if not np.isfinite(numbers).all() or (numbers < 0).any():
                raise InputError(
                    f"the importance of `{printable(name)}` has numbers that are negative or "
                    "not finite",
                    code="E_IMATRIX",
                )
            is_even = bool((numbers == numbers[0]).all())
            self._made[data] = None if is_even else Importance(data)
        return self._made[data]

    def _names(self, name: str) -> Iterator[tuple[str, int | None, bool]]:
        """Yield what an entry may be called, the number of an expert in it, and a doubt."""
        if self._spelling is None:
            for one in _variants(name):
                yield one, None, False
                if (found := _EXPERT.search(one)) is not None:
                    stack = _STACK_OF.get(found[2], "gate_up_proj")
                    yield f"{one[: found.start()]}.experts.{stack}", int(found[1]), False
            return
        for key, expert in _placed(self._spelling, name):
            stem = key.stem.removeprefix(LAYER)
            yield key.name, expert, stem in _NO_COLUMNS
            for sibling in _SHARED.get(stem, ()):
                yield key.sibling(sibling), expert, False


def _variants(name: str) -> Iterator[str]:
    for here, there in _PREFIXES:
        if name.startswith(here):
            yield there + name[len(here) :]


def _placed(spelling: Spelling, name: str) -> Iterator[Placed]:
    is_stack = False
    for pattern, of_one in _FUSED:
        if pattern.search(name):
            name, is_stack = pattern.sub(of_one, name), True
    for one in _variants(name):
        found = spelling.key_of(one)
        if found is not None:
            yield found._replace(expert=None) if is_stack else found


def _may_be_turned(tensor: SourceTensor) -> bool:
    """Return whether a stack of square matrices may have its columns as rows."""
    *_, rows, columns = tensor.shape
    is_stack = len(tensor.shape) > _MATRIX and not tensor.name.endswith(".weight")
    return is_stack and tensor.is_plain and rows == columns


def _spelling(matrix: ImportanceMatrix, tensors: Sequence[SourceTensor]) -> Spelling | None:
    """Return the names of the architecture by which most tensors have an entry.

    A matrix does not tell its architecture.
    """
    names = [one.own_name for one in tensors if len(one.shape) >= _MATRIX]
    some = names[:: max(len(names) // _SAMPLE, 1)]
    best, most = None, 0
    for architecture in architectures():
        spelling = spelling_of(architecture)
        assert spelling is not None
        count = _count(spelling, some, matrix)
        if count > most:
            best, most = spelling, count
    return best or spelling_of("llama")


def _count(spelling: Spelling, names: Iterable[str], matrix: ImportanceMatrix) -> int:
    return sum(
        any(placed.key.name in matrix.entries for placed in _placed(spelling, name))
        for name in names
    )


def notes_of(found: Weighed) -> Iterator[str]:
    """Yield what the user must know of what a matrix lacks."""
    if found.without:
        shown = ", ".join(f"`{printable(name)}`" for name in found.without[:_SHOWN])
        more = len(found.without) - _SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        yield (
            f"the importance matrix has nothing for {len(found.without):,} of "
            f"{found.tensors + len(found.without):,} tensors, whose columns count alike: "
            f"{shown}{rest}"
        )
    if found.unused:
        is_one = found.unused == 1
        what = "expert or matrix: its" if is_one else "experts or matrices: their"
        yield (
            f"the texts of the importance matrix never reached {found.unused:,} {what} "
            "columns count alike"
        )


_SHOWN: Final = 10
