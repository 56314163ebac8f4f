"""MLX's layout: the directory that `mlx_lm.load` loads, as `mlx_lm.convert` writes it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from importer.codecs.base import Decoder, Transcoder
from importer.codecs.cast import Cast, Rounded
from importer.codecs.registry import codec_for, stored_type
from importer.codecs.scaled.global_scaled import GlobalNvfp4, ScaledFp4
from importer.codecs.spec import CAST_DTYPES, FloatType, QuantSpec, parse_target
from importer.codecs.transcode import Copy, CopyParts, Gather, Recode, Repack
from importer.exports.assembly import assemble
from importer.exports.base import ExportOptions, Row, WritePlan
from importer.exports.documents import QUANTIZATION_FILES, to_bytes
from importer.exports.experts import experts_of
from importer.exports.mlx_config import (
    computed_in,
    is_of_mlx,
    layers_of,
    make_config,
    tied_in,
)
from importer.exports.mlx_models import MODELS, MlxModel, Name
from importer.exports.safetensors import Weight, index_of, make_shards
from importer.planning.plan import Plan, TensorPlan
from importer.recipes.options import QuantizeOptions, parse_options
from importer.sources.classification import SourceKind
from importer.sources.configuration import declared_dtype
from importer.sources.document import CONFIG
from importer.sources.parameters import scales_activations
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.tensorblob import BIAS, SCALE
from store.tensorfile import elements
from store.text import count, printable

_SHARD: Final = 5 << 30
_METADATA: Final[Mapping[str, str]] = {"format": "mlx"}
_WEIGHT: Final = ".weight"
_PARTS: Final = {SCALE: ".scales", BIAS: ".biases"}
_INDENT: Final = 4
_INDEX: Final = "model.safetensors.index.json"
_IDENTITY: Final = MlxModel()
_NO_TYPE: Final = "MLX has no type for their codes"
_NO_PLACE: Final = "mlx-lm has no place for the scale of a whole matrix"
_NO_LONGER: Final = "says how the source's weights are quantized"


class Mlx:
    """Text models that mlx-lm has a class for."""

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Return what `mlx_lm.convert` does, unless a recipe is named; else repack."""
        recipe, target = asked.recipe, None
        if asked.quantize is not None:
            target = parse_target(asked.quantize)
            if recipe is None and isinstance(target, QuantSpec):
                recipe = "mlx"
        if asked.quantize is None and recipe is None and asked.group_size is None:
            options = parse_options("repack")
        else:
            options = parse_options(asked.quantize, group_size=asked.group_size, recipe=recipe)
        return QuantizeOptions(options.target, options.group_size, options.base, stacked=False)

    def plan(self, plan: Plan, asked: ExportOptions) -> WritePlan:
        """Rename and stack as mlx-lm does, and say in config.json what is quantized."""
        _check_kind(plan)
        made = _Model(plan, asked)
        weights = sorted(made.weights(), key=lambda weight: weight.arrays[0].name.encode())
        shards = make_shards("model", weights, asked.shard_size or _SHARD, _METADATA)
        files = {w.name: s.file.path for s in shards for w in s.weights}
        total = sum(elements(source.shape) for weight in weights for source in weight.sources)
        index = index_of(shards, {"total_parameters": total}, _INDENT)
        config = make_config(plan.inventory, made.types, made.in_8_bits, asked.dtype)
        documents = {_INDEX: index, CONFIG: to_bytes(config, _INDENT)}
        dropped = dict.fromkeys(sorted(QUANTIZATION_FILES), _NO_LONGER)
        return assemble(
            plan,
            shards,
            documents,
            dropped,
            made.rows(weights, files),
            lossy=made.lossy(),
            notes=made.notes(),
        )


def _check_kind(plan: Plan) -> None:
    kind = plan.classification.kind
    if kind is not SourceKind.MODEL or plan.inventory.components != ("",):
        raise UnsupportedError(
            f"`mlx` has no place for {kind.noun}, expected a language model",
            code="E_EXPORT_FORMAT",
        )
    if "" not in plan.inventory.configs:
        raise UnsupportedError(
            f"the model has no `{CONFIG}`, without which mlx-lm does not know what it is",
            code="E_EXPORT_FORMAT",
        )


class _Model:
    """What becomes of the tensors of one model.

    Attributes:
        types: of each module that is quantized, by the name that config.json has for it.
    """

    def __init__(self, plan: Plan, asked: ExportOptions) -> None:
        self.types: dict[str, QuantSpec] = {}
        self._inventory = plan.inventory
        self._config = plan.inventory.configs[""]
        self._family = plan.classification.family
        self._is_of_mlx = is_of_mlx(self._config)
        self._table = self._rules()
        self._asked = asked
        self._dtype = asked.dtype or computed_in(self._config)
        self._tied = tied_in(self._config)
        self._layers = layers_of(self._config)
        self._plans = plan.tensors
        requested = parse_target(plan.recipe.type) if plan.recipe.type else None
        self._group = requested.group_size if isinstance(requested, QuantSpec) else 1
        self._dropped: list[str] = []
        self._lost: Counter[tuple[str, str, str]] = Counter()

    @property
    def in_8_bits(self) -> tuple[str, ...]:
        """The ends of modules that the class wants in 8 bits."""
        return self._table.in_8_bits

    def weights(self) -> Iterator[Weight]:
        """Yield every tensor of the export; experts together.

        Raises:
            InputError: experts are missing.
            UnsupportedError: they are not all alike.
        """
        stacks: defaultdict[str, list[tuple[int, SourceTensor, Transcoder]]] = defaultdict(list)
        for source, plan in self._sources():
            name = self._name(source)
            if name is None or (
                not self._is_of_mlx and scales_activations(name.text, source.shape)
            ):
                self._dropped.append(source.name)
                continue
            transcoder = self._transcoder(source, plan, name)
            if name.expert is None:
                yield self._weight(name.text, source.shape, (source,), transcoder)
            else:
                stacks[name.text].append((name.expert, source, transcoder))
        for text, members in stacks.items():
            members.sort(key=lambda member: member[0])
            if [number for number, _, _ in members] != list(range(len(members))):
                raise InputError(
                    f"the experts of `{printable(text)}` are not numbered from 0 without gaps",
                    code="E_EXPORT_EXPERTS",
                )
            _, first, transcoder = members[0]
            if any(one[1].shape != first.shape or one[2] != transcoder for one in members):
                raise UnsupportedError(
                    f"the experts of `{printable(text)}` have several types, and MLX has them "
                    "as one tensor",
                    code="E_EXPORT_EXPERTS",
                )
            sources = tuple(source for _, source, _ in members)
            shape = (len(sources), *first.shape)
            yield self._weight(text, shape, sources, transcoder)

    def rows(self, weights: list[Weight], files: Mapping[str, str]) -> Iterator[Row]:
        """Yield a row for each tensor of the export."""
        for weight in weights:
            first = weight.sources[0]
            stacked = len(weight.sources)
            shape = (stacked, *first.shape) if stacked > 1 else first.shape
            before = first.stored_as or first.dtype
            spec = self.types.get(weight.name.removesuffix(_WEIGHT))
            after = weight.arrays[0].dtype if spec is None else _spelled(spec)
            yield Row(weight.name, shape, before, after, files[weight.name], weight.nbytes)

    def lossy(self) -> Iterator[str]:
        """Yield what MLX cannot hold."""
        for (what, kind, why), number in sorted(self._lost.items()):
            verb = "is" if number == 1 else "are"
            yield f"{count(number, 'tensor')} of {kind} {verb} {what}: {why}"

    def notes(self) -> Iterator[str]:
        """Yield what else is different."""
        if self._dropped:
            more = f" and {len(self._dropped) - 1} more" if len(self._dropped) > 1 else ""
            yield f"mlx-lm has no place for `{self._dropped[0]}`{more}: left out"

    def _rules(self) -> MlxModel:
        if self._is_of_mlx:
            return _IDENTITY  # the names are MLX's already
        if self._family not in MODELS:
            known = ", ".join(MODELS)
            raise UnsupportedError(
                f"the architecture `{printable(self._family)}` in MLX's form: known are "
                f"{known}, and what MLX has quantized",
                code="E_EXPORT_FORMAT",
            )
        return MODELS[self._family]

    def _sources(self) -> Iterator[tuple[SourceTensor, TensorPlan]]:
        """Yield each tensor once, packed ones whole, whose arrays the plan keeps."""
        seen: set[str] = set()
        for plan in self._plans:
            source = plan.part_of or plan.sources[0]
            if source.name not in seen:
                seen.add(source.name)
                for one in experts_of(self._inventory, source):
                    yield one, plan

    def _name(self, source: SourceTensor) -> Name | None:
        return self._table.name(source.own_name, is_tied=self._tied, layers=self._layers)

    def _transcoder(self, source: SourceTensor, plan: TensorPlan, name: Name) -> Transcoder:
        """Return what makes the arrays, and note what the tensor becomes."""
        spec = plan.quant if plan.part_of is None else None
        is_module = name.text.endswith(_WEIGHT) and not self._table.is_plain(source.own_name)
        is_scaled = isinstance(source.decoder, GlobalNvfp4)
        if is_scaled and not isinstance(plan.decision.rule.target, QuantSpec):
            spec = None  # nobody asked for a type: its codes were only to be kept
        keeps = isinstance(plan.transcoder, CopyParts | Repack) and not is_scaled
        if spec is not None and not keeps and source.shape[-1] % self._group:
            spec = None  # the type that was asked for does not fit, whatever the class wants
        if spec is not None and is_module:
            self.types[name.text.removesuffix(_WEIGHT)] = spec
            if keeps:
                return plan.transcoder
            if is_scaled and stored_type(source.decoder) == spec:
                self._lost["quantized again", source.stored_as, _NO_PLACE] += 1
            decoder = self._cast(source)
            return Recode(decoder, codec_for(spec, decoder.value_dtype))
        dtype = self._dtype
        if isinstance(plan.target, FloatType):
            dtype = plan.target.dtype
        if source.is_plain:
            wanted = dtype if self._is_float(source) else None
            if wanted in {None, source.dtype}:
                is_array = type(source.decoder).__name__ == "Plain"
                return Copy(source.dtype) if is_array else Gather(source.decoder)
            assert wanted is not None
            return Recode(source.decoder, Cast(source.dtype, wanted))
        is_held = stored_type(source.decoder) is not None and not is_scaled
        usual = source.dtype if is_held else declared_dtype(self._config)
        dtype = dtype or usual or "BF16"
        if source.dtype != dtype or not is_held:
            why = _NO_PLACE if isinstance(source.decoder, ScaledFp4) else _NO_TYPE
            self._lost["decoded and rounded", source.stored_as, why] += 1
        return Recode(source.decoder, Cast(source.dtype, dtype))

    def _is_float(self, source: SourceTensor) -> bool:
        return source.dtype in CAST_DTYPES and self._table.is_cast(source.own_name)

    def _cast(self, source: SourceTensor) -> Decoder:
        """Return the decoder of values that are quantized: first they get the model's dtype."""
        dtype = self._dtype
        if dtype is None or dtype == source.dtype or not self._is_float(source):
            return source.decoder
        return Rounded(source.decoder, dtype)

    def _weight(
        self,
        name: str,
        shape: tuple[int, ...],
        sources: tuple[SourceTensor, ...],
        transcoder: Transcoder,
    ) -> Weight:
        stem = name.removesuffix(_WEIGHT)
        suffixes = [part.suffix for part in transcoder.parts(shape)]
        names = (
            [name]
            if len(suffixes) == 1
            else [stem + _PARTS.get(suffix, _WEIGHT) for suffix in suffixes]
        )
        return Weight.of(name, shape, names, sources, transcoder)


def _spelled(spec: QuantSpec) -> str:
    return f"{spec.name}/{spec.group_size}"
