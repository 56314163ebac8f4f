"""Weights that somebody has quantized already: the schemes that are known, one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from importer.sources.schemes import recognized
from importer.sources.schemes.base import Clue, Scheme
from importer.sources.schemes.bitsandbytes.scheme import Bitsandbytes
from importer.sources.schemes.comfyui import leave_comfyui
from importer.sources.schemes.compressed_tensors.scheme import CompressedTensors
from importer.sources.schemes.declaration import method_of
from importer.sources.schemes.fp8.scheme import Fp8
from importer.sources.schemes.gptq.scheme import Gptq
from importer.sources.schemes.leftovers import check_complete
from importer.sources.schemes.mlx.scheme import Mlx
from importer.sources.schemes.modelopt.scheme import ModelOpt
from importer.sources.schemes.mxfp4 import Mxfp4
from importer.sources.schemes.onnx.scheme import Onnx
from importer.sources.schemes.ours import join_ours
from importer.sources.schemes.recognized import Recognized
from importer.sources.schemes.uqff.scheme import Uqff
from store.json import Json

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.tensor import SourceTensor

OF_GRAPHS: Final = "onnx"
"""The scheme of weights that a graph takes from several arrays, whatever their names are."""
UNKNOWN: Final = "unknown"
"""The scheme of what nothing here knows."""
SCHEMES: Final[dict[str, Scheme]] = {
    "uqff": Uqff(),
    "awq": Gptq(is_awq=True),
    "gptq": Gptq(is_awq=False),
    "mlx": Mlx(),
    "mxfp4": Mxfp4(),
    "bitsandbytes": Bitsandbytes(),
    "fp8-block": Fp8(recognized.is_fp8_block, is_block=True),
    "modelopt": ModelOpt(),
    "compressed-tensors": CompressedTensors(),
    "comfyui": Recognized(recognized.is_comfyui),
    "bitnet": Recognized(recognized.is_bitnet),
    "fp8": Fp8(recognized.is_fp8, is_block=False),
    OF_GRAPHS: Onnx(),
    "marlin": Recognized(recognized.is_beside("B", "s")),
    "qqq": Recognized(recognized.is_beside("B", "s_channel")),
    "eetq": Recognized(recognized.is_beside("weight", "weight_scales")),
    "hqq": Recognized(recognized.is_named("W_q")),
    "sparse-bitmask": Recognized(recognized.is_beside("bitmask", "compressed")),
    "aqlm": Recognized(recognized.is_beside("codes", "codebooks")),
    "spqr": Recognized(recognized.is_named("dense_weights")),
    "quip": Recognized(recognized.is_named("Qidxs")),
    "vptq": Recognized(recognized.is_beside("indices", "centroids.weight")),
    "exl2": Recognized(recognized.is_named("q_weight")),
    "exl3": Recognized(recognized.is_named("trellis")),
    "higgs": Recognized(recognized.is_beside("weight", "tables2")),
    "svdquant": Recognized(recognized.is_beside("qweight", "wscales")),
    "quanto": Recognized(recognized.is_named("_data")),
    "torchao": Recognized(recognized.is_named("qdata", "_weight_qdata")),
    UNKNOWN: Recognized(recognized.is_unknown),
}
"""By the name that plan and `show` give it; the first that recognizes an array has it."""
_ORDINARY: Final = frozenset({"weight", "bias"})
_FLOATS: Final = frozenset({"BF16", "F16", "F32"})


def scheme_of(tensors: Iterable[tuple[str, str]], config: Mapping[str, Json]) -> str | None:
    """Name the scheme that a checkpoint was quantized with, or return None.

    The arguments are those of `first_quantized`.
    """
    found = first_quantized(tensors, config)
    return None if found is None else found[0]


def first_quantized(
    tensors: Iterable[tuple[str, str]], config: Mapping[str, Json]
) -> tuple[str, str] | None:
    """Return a scheme, and the name of the first array that shows it; None where none does.

    Tensors decide; a configuration that claims a scheme without any tensor of it is a claim
    about another file.

    Args:
        tensors: name and dtype of each array.
        config: the checkpoint's `config.json`.
    """
    dtypes = dict(tensors)
    method = method_of(config)
    for name, dtype in dtypes.items():
        stem, _, last = name.rpartition(".")
        if last in _ORDINARY and dtype in _FLOATS:
            continue  # most arrays of most models: asking took three times as long
        clue = Clue(name, dtype, stem, last, dtypes, method)
        for key, scheme in SCHEMES.items():
            if scheme.recognizes(clue):
                return key, name
    return None


def join_tensors(
    tensors: Sequence[SourceTensor],
    config: Mapping[str, Json],
    metadata: Mapping[str, Mapping[str, str]],
    joined: Sequence[SourceTensor] = (),
) -> Sequence[SourceTensor]:
    """Make logical tensors of the arrays of one directory, by every scheme in turn.

    First come those that the container joined, and those whose file names a type of the store.

    Args:
        tensors: every array as it is stored, in the order of the files.
        config: the directory's `config.json`, or empty.
        metadata: what each file says about itself, by path.
        joined: weights that the container knows to be several of the arrays.

    Raises:
        InputError: arrays are missing, or contradict each other or the configuration.
        UnsupportedError: a form of a scheme that is not decoded.
    """
    if joined:
        parts = {array.name for tensor in joined for array in tensor.arrays}
        others = (tensor for tensor in tensors if tensor.arrays[0].name not in parts)
        tensors = (*others, *joined)
    made = leave_comfyui(join_ours(tensors, metadata), metadata)
    for scheme in SCHEMES.values():
        made = tuple(scheme.join(made, config))
    if made is not tensors:
        from importer.sources.schemes.parts import check_in_order  # noqa: PLC0415 - as the schemes'

        check_in_order(tensors, made)
    if not joined:  # of others the container knows what belongs together
        check_complete(tensors, made, config)
    return made
