"""Measure how much columns of weights count: the mean square of what they are multiplied by."""

# ruff: noqa: ANN401 - torch and transformers, of which there are no types here

from __future__ import annotations

import bisect
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from importer.evaluation.models import LoadedModel
from importer.evaluation.text import Sequences, Text
from importer.events import Evaluated, Listener, silent
from importer.formats.imatrix.safetensors import CHUNKS, TEXT
from store.durable import replace_file
from store.errors import InputError
from store.tensorfile import encode_header, header_length, parse_header

_SAVE_EVERY: Final = 30.0
"""Seconds of work that an interruption may lose."""
_MATRIX, _STACK = 2, 3
_KEY, _DONE = "of", "done"
_SUMS, _COUNTS = ".sums", ".counts"
_SUFFIX: Final = ".partial"


class Moments(NamedTuple):
    """What was measured of one weight.

    Attributes:
        sums: of squares, float64 of shape (matrices, columns).
        counts: of rows that each matrix was multiplied by, float64 of shape (matrices,).
    """

    sums: Any
    counts: Any


class Measured(NamedTuple):
    """What a measurement did.

    Attributes:
        weights: that were used.
        unused: matrices of stacks that the text never reached.
        left_out: names of matrices that were multiplied in another way, or never.
        resumed: sequences that an earlier run had done.
    """

    weights: int
    unused: int
    left_out: tuple[str, ...]
    resumed: int


def measure_importance(
    loaded: LoadedModel,
    text: Text,
    sequences: Sequences,
    output: Path,
    listen: Listener = silent,
) -> Measured:
    """Run sequences through a model, and write the mean squares of each weight's inputs.

    Sums are of float64, in the order of the text, so that the same model, text and number of
    threads give the same bytes; also where an earlier run was interrupted, which left its sums
    beside the output.

    Raises:
        InputError: the model uses none of its matrices as linear layers do.
        OSError: the output cannot be written.
    """
    import torch  # noqa: PLC0415 - an extra

    key = f"{loaded.fingerprint} {text.digest} {sequences.context} {len(sequences.ids)}"
    partial = output.with_name(output.name + _SUFFIX)
    watch = _watch(loaded.model)
    begun = _resume(partial, key, watch.found)
    saved = time.monotonic()
    total, tokens = sequences.tokens, 0
    for number, ids in enumerate(sequences.ids):
        before = text.nbytes * tokens // total
        tokens += len(ids)
        listen(Evaluated(text.nbytes * tokens // total - before, text.nbytes))
        if number < begun:
            continue
        with torch.no_grad(), watch:
            loaded.model(input_ids=torch.tensor([ids], device=loaded.device))
        if time.monotonic() - saved > _SAVE_EVERY:
            _save(partial, watch.found, {_KEY: key, _DONE: str(number + 1)})
            saved = time.monotonic()
    if not watch.found:
        raise InputError("the model has no linear layer that was used", code="E_TEXT")
    metadata = {
        CHUNKS: str(len(sequences.ids)),
        "context": str(sequences.context),
        TEXT: text.name,
    }
    _write(output, _means(watch.found), metadata)
    partial.unlink(missing_ok=True)
    unused = sum(int((found.counts == 0).sum()) for found in watch.found.values())
    return Measured(len(watch.found), unused, tuple(watch.unseen()), begun)


def _watch(model: Any) -> Any:
    """Return what looks at every product with a weight while it is entered."""
    import torch  # noqa: PLC0415 - an extra
    from torch.overrides import TorchFunctionMode  # noqa: PLC0415

    class Watch(TorchFunctionMode):  # type: ignore[misc]  # torch is not there for mypy
        """Sums the squares of inputs by the weight that they are multiplied by.

        A weight is known by where it lies in memory: so one expert of a stack is, too, and no
        class of a model has to be.
        """

        def __init__(self) -> None:
            super().__init__()
            self.found: dict[str, Moments] = {}
            self._weights = sorted(
                (one.data_ptr(), name, one)
                for name, one in model.named_parameters()
                if one.dim() in {_MATRIX, _STACK}
            )
            self._places = [place for place, _, _ in self._weights]

        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function is torch.nn.functional.linear:
                weight = args[1] if len(args) > 1 else kwargs["weight"]
                self._note(args[0] if args else kwargs["input"], weight)
            return function(*args, **(kwargs or {}))

        def unseen(self) -> Iterator[str]:
            """Yield the names of matrices that were not seen to be multiplied by."""
            yield from sorted(name for _, name, _ in self._weights if name not in self.found)

        def _note(self, values: Any, weight: Any) -> None:
            at = bisect.bisect_right(self._places, weight.data_ptr()) - 1
            if at < 0 or not weight.is_contiguous():
                return
            place, name, whole = self._weights[at]
            number, rest = divmod(
                weight.data_ptr() - place, max(weight.numel() * weight.element_size(), 1)
            )
            count = whole.shape[0] if whole.dim() == _STACK else 1
            if rest or number >= count or tuple(whole.shape[-_MATRIX:]) != tuple(weight.shape):
                return
            rows = values.detach().reshape(-1, weight.shape[1]).float()
            if name not in self.found:
                self.found[name] = Moments(
                    torch.zeros(count, weight.shape[1], dtype=torch.float64),
                    torch.zeros(count, dtype=torch.float64),
                )
            moments = self.found[name]
            moments.sums[number] += (rows * rows).sum(dim=0, dtype=torch.float64).cpu()
            moments.counts[number] += len(rows)

    return Watch()


def _means(found: Mapping[str, Moments]) -> Iterator[tuple[str, str, tuple[int, ...], bytes]]:
    """Yield arrays of float32: mean squares, of a matrix that nothing reached zeros."""
    for name in sorted(found, key=str.encode):
        sums, counts = found[name]
        means = (sums / counts.clamp(min=1)[:, None]).numpy().astype("<f4")
        shape = means.shape if len(means) > 1 else means.shape[1:]
        yield name, "F32", shape, means.tobytes()


def _save(path: Path, found: Mapping[str, Moments], metadata: Mapping[str, str]) -> None:
    arrays = [
        (name + suffix, "F64", tuple(one.shape), one.numpy().astype("<f8").tobytes())
        for name in sorted(found, key=str.encode)
        for suffix, one in zip((_SUMS, _COUNTS), found[name], strict=True)
    ]
    _write(path, arrays, metadata)


def _resume(path: Path, key: str, found: dict[str, Moments]) -> int:
    """Take the sums of an earlier run of the same; return how many sequences it had done."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415 - an extra

    try:
        data = path.read_bytes()
        length = header_length(data[:8], len(data), "it")
        header = parse_header(data[8 : 8 + length], len(data), "it")
    except (OSError, InputError):
        return 0
    if header.metadata.get(_KEY) != key:
        return 0
    arrays = {
        entry.name: torch.from_numpy(
            np.frombuffer(
                data, "<f8", count=entry.nbytes // 8, offset=header.nbytes + entry.begin
            )
            .reshape(entry.shape)
            .copy()
        )
        for entry in header.entries
    }
    for name, sums in arrays.items():
        if name.endswith(_SUMS):
            own = name.removesuffix(_SUMS)
            found[own] = Moments(sums, arrays[own + _COUNTS])
    return int(header.metadata[_DONE])


def _write(
    path: Path,
    arrays: Iterable[tuple[str, str, tuple[int, ...], bytes]],
    metadata: Mapping[str, str],
) -> None:
    """Write safetensors that appear whole or not at all."""
    some = list(arrays)
    header = encode_header(
        [(name, dtype, shape, len(data)) for name, dtype, shape, data in some], metadata
    )
    replace_file(path, [header, *(data for _, _, _, data in some)])
