"""Weights that MLX, FFAI or Ollama quantized: weight, scales and biases are one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from importer.sources.schemes.base import Clue
from store.errors import InputError
from store.json import Json
from store.tensorblob import BIAS, GLOBAL_SCALE, PACKED_DTYPE, SCALE
from store.text import printable

if TYPE_CHECKING:  # `show` recognizes schemes, and starts quickly
    from importer.sources.schemes.mlx.config import MlxConfig
    from importer.sources.tensor import SourceTensor

_MATRIX: Final = 2
_WORD: Final = 32
_FLOATS: Final = ("F16", "BF16", "F32")
_VALUES: Final = "BF16"
"""What types without biases decode to, as in MLX; their scales do not tell."""


class _Spelling(NamedTuple):
    """How the parts of a weight are named.

    Attributes:
        of_weight: the end of the weight's name, in whose place the parts' ends come.
    """

    of_weight: str
    scales: str
    biases: str
    global_scale: str


_MLX: Final = _Spelling(".weight", ".scales", ".biases", ".global_scale")
_OLLAMA: Final = _Spelling("", SCALE, BIAS, GLOBAL_SCALE)


class _Triplet(NamedTuple):
    """The arrays of one weight."""

    weight: SourceTensor
    scales: SourceTensor
    biases: SourceTensor | None
    global_scale: SourceTensor | None
    spelling: _Spelling

    @property
    def arrays(self) -> tuple[SourceTensor, ...]:
        found = (self.weight, self.scales, self.biases, self.global_scale)
        return tuple(tensor for tensor in found if tensor is not None)


class Mlx:
    """Triplets of `weight` (U32), `scales` and `biases`, as MLX and Ollama spell them."""

    decodes: Final = True

    def recognizes(self, clue: Clue) -> bool:
        """Return whether a tensor is a packed weight with scales."""
        is_packed = clue.last == "weight" and clue.dtype == PACKED_DTYPE
        return is_packed and f"{clue.stem}.scales" in clue.dtypes

    def join(
        self, tensors: Sequence[SourceTensor], config: Mapping[str, Json]
    ) -> Sequence[SourceTensor]:
        """Make one tensor of each triplet; leave those that the store has no type for.

        Args:
            tensors: of one directory.
            config: its `config.json`, in whose `quantization` mlx-lm declares bits and groups.

        Raises:
            InputError: parts are missing, or their shapes or the configuration contradict
                each other.
        """
        triplets = list(_triplets(tensors))
        declared = config.get("quantization")
        if not triplets and not isinstance(declared, dict):
            return tensors
        from importer.sources.schemes.mlx.config import MlxConfig  # noqa: PLC0415 - as above

        types = MlxConfig(config)
        if types.claim and not triplets:
            _bad("config.json", f"it says {types.claim}, and no tensor is quantized")
        made: dict[str, SourceTensor | None] = {}
        for triplet in triplets:
            _check_shapes(triplet)
            made |= _joined(triplet, types)
        types.check()
        _check_plain(tensors, made, types)
        joined = (made.get(tensor.name, tensor) for tensor in tensors)
        return [tensor for tensor in joined if tensor is not None]


def _triplets(tensors: Sequence[SourceTensor]) -> Iterator[_Triplet]:
    packed = [t for t in tensors if t.arrays[0].dtype == PACKED_DTYPE and len(t.arrays) == 1]
    if not packed:
        return
    by_name = {tensor.name: tensor for tensor in tensors}
    for weight in packed:
        for spelling in (_MLX, _OLLAMA):
            if not weight.name.endswith(spelling.of_weight):
                continue
            stem = weight.name.removesuffix(spelling.of_weight)
            scales = by_name.get(stem + spelling.scales)
            biases = by_name.get(stem + spelling.biases)
            if scales is not None:
                whole = by_name.get(stem + spelling.global_scale)
                yield _Triplet(weight, scales, biases, whole, spelling)
                break
            if biases is not None:
                _bad_pair(weight, f"has `{biases.name}` and no `{stem}{spelling.scales}`")


def _check_shapes(triplet: _Triplet) -> None:
    from importer.sources.schemes.mlx.config import BITS, SIZES  # noqa: PLC0415 - as above

    weight, scales, biases = triplet.weight, triplet.scales, triplet.biases
    *outer, words = weight.shape or (0,)
    *rows, groups = scales.shape or (0,)
    fits = any(words * _WORD == groups * size * bits for bits in BITS for size in SIZES)
    if outer != rows or not fits or len(weight.shape) != len(scales.shape):
        _bad_pair(
            weight,
            f"{list(weight.shape)} and `{scales.name}` {list(scales.shape)} do not fit each "
            "other in any number of bits",
        )
    if len(weight.shape) < _MATRIX:
        _bad_pair(weight, f"{list(weight.shape)} has scales, and is not a matrix")
    if biases is None and scales.dtype != "U8":
        # The types with a float scale of 8 bits have no biases; the others cannot do without.
        stem = weight.name.removesuffix(triplet.spelling.of_weight)
        _bad_pair(weight, f"has `{scales.name}` and no `{stem}{triplet.spelling.biases}`")
    if biases is not None and biases.shape != scales.shape:
        _bad(
            biases.file.path,
            f"`{scales.name}` {list(scales.shape)} and `{biases.name}` {list(biases.shape)} "
            "differ in shape",
        )
    for part in (scales, biases):
        known = _FLOATS if biases is not None else ("U8",)
        if part is not None and part.dtype not in known:
            expected = ", ".join(known)
            _bad(part.file.path, f"`{part.name}` is {part.dtype}, expected {expected}")


def _joined(triplet: _Triplet, types: MlxConfig) -> Iterator[tuple[str, SourceTensor | None]]:
    """Yield what the tensor of each array becomes, None where it is a part of another."""
    from importer.codecs.registry import codec_for  # noqa: PLC0415 - as above
    from importer.sources.schemes.mlx.config import Packed  # noqa: PLC0415
    from importer.sources.tensor import SourceTensor  # noqa: PLC0415

    weight, scales, biases = triplet.weight, triplet.scales, triplet.biases
    kind = types.type_of(
        Packed(
            weight.own_name.removesuffix(".weight"),
            weight.file.path,
            weight.shape[-1],
            scales.shape[-1],
            is_affine=biases is not None,
            is_runners=triplet.spelling is _OLLAMA,
        )
    )
    spec = kind.spec
    if triplet.global_scale is not None:
        why = "it has a scale of the whole tensor"
    elif spec is None:
        why = f"the store has no type for {kind}"
    elif biases is not None and biases.dtype != scales.dtype:
        why = f"its scales are {scales.dtype} and its biases {biases.dtype}"
    else:
        columns = weight.shape[-1] * _WORD // spec.bits
        yield (
            weight.name,
            SourceTensor(
                weight.name,
                (*weight.shape[:-1], columns),
                tuple(part.arrays[0] for part in triplet.arrays),
                codec_for(spec, scales.dtype if spec.has_bias else _VALUES),
                weight.component,
            ),
        )
        for part in triplet.arrays[1:]:
            yield part.name, None
        return
    yield weight.name, weight._replace(unjoined=why)


def _check_plain(
    tensors: Sequence[SourceTensor],
    made: Mapping[str, SourceTensor | None],
    types: MlxConfig,
) -> None:
    """Refuse a plain weight that the configuration calls quantized."""
    said = {module for module, kind in types.modules.items() if kind is not None}
    for tensor in tensors if said else ():
        module = tensor.own_name.removesuffix(".weight")
        if module != tensor.own_name and module in said and tensor.name not in made:
            _bad_pair(
                tensor,
                f"is {tensor.dtype}, and config.json says that it has {types.modules[module]}",
            )


def _bad_pair(weight: SourceTensor, what: str) -> NoReturn:
    _bad(weight.file.path, f"`{printable(weight.name)}` {what}")


def _bad(file: str, what: str) -> NoReturn:
    raise InputError(
        f"`{file}`: {what}",
        code="E_QUANT_PAIR",
        hint="The checkpoint is incomplete or damaged: fetch it again",
    )
