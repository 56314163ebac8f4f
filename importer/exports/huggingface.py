"""Hugging Face's layout: the directory that `from_pretrained` loads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from importer.codecs.cast import Cast
from importer.codecs.grouped import Grouped
from importer.codecs.scaled.global_scaled import CopyScaled
from importer.codecs.spec import QuantSpec
from importer.codecs.transcode import CopyParts, KeepBlocks, Recode
from importer.exports import gpt_oss
from importer.exports.assembly import assemble
from importer.exports.base import ExportOptions, Row, WritePlan
from importer.exports.documents import (
    QUANTIZATION_FILES,
    QUANTIZATION_KEYS,
    to_bytes,
    with_dtype,
    without_quantization,
)
from importer.exports.experts import experts_of
from importer.exports.safetensors import Shard, Weight, index_of, make_shards
from importer.exports.source_forms import SourceForms
from importer.planning.plan import Plan, TensorPlan
from importer.recipes.options import QuantizeOptions, parse_options
from importer.sources.document import CONFIG, Document
from importer.sources.joined import declared
from importer.sources.schemes.mlx.config import MlxConfig, Packed
from store.errors import IngotError, UsageError
from store.tensorblob import BIAS, SCALE

_SHARD: Final = 5 * 10**9
_METADATA: Final = {"format": "pt"}
_WEIGHT: Final = ".weight"
_MLX_PARTS: Final = {SCALE: ".scales", BIAS: ".biases"}
KEEPING: Final = (CopyParts, CopyScaled, KeepBlocks)
"""What moves codes that are stored as the store stores them."""


class HuggingFace:
    """Models, pipelines of diffusers, and sentence-transformers."""

    def options(self, asked: ExportOptions) -> QuantizeOptions:
        """Return a cast of every float where a dtype is asked for; else keep everything."""
        if asked.quantize or asked.group_size or asked.recipe:
            raise UsageError(
                "the format hf holds plain floats and cannot be quantized", code="E_EXPORT_TYPE"
            )
        options = parse_options(None if asked.dtype is None else asked.dtype.lower())
        return QuantizeOptions(options.target, base=options.base, stacked=False)

    def plan(self, plan: Plan, asked: ExportOptions) -> WritePlan:
        """Put every component into files of its own; change configurations that are wrong."""
        shards: list[Shard] = []
        rows: list[Row] = []
        notes = []
        documents: dict[str, bytes] = {}
        dropped: dict[str, str] = {}
        told = declared(plan.inventory.configs, plan.inventory.files)
        for component in plan.inventory.components:
            tensors = [t for t in plan.tensors if t.sources[0].component == component]
            if not tensors:
                continue
            config = plan.inventory.configs.get(component, {})
            form = _Form(plan, tensors, config, told.get(component, config))
            weights = sorted(form.weights(), key=lambda weight: weight.arrays[0].name.encode())
            where = f"{component}/" if component else ""
            stem = where + _stem(plan, where, config)
            metadata = _METADATA | _told(plan, component) if form.is_kept else _METADATA
            made = make_shards(stem, weights, asked.shard_size or _SHARD, metadata)
            shards += made
            if len(made) > 1:
                documents[f"{stem}.safetensors.index.json"] = index_of(made, {}, 2)
            rows += form.rows({w.name: s.file.path for s in made for w in s.weights})
            if config:
                documents |= _config(where + CONFIG, config, form, asked.dtype)
            if not (form.is_plain or form.is_kept):
                notes.append(_MIXED)
            if form.is_plain:
                dropped |= {where + name: _NO_LONGER for name in sorted(QUANTIZATION_FILES)}
        if not plan.inventory.configs:
            notes.append(f"the model has no `{CONFIG}`, which from_pretrained asks for")
        return assemble(plan, shards, documents, dropped, rows, notes=notes)


_MIXED: Final = (
    "some weights go out decoded and others as the codes of the source, which no program loads "
    "together; with a dtype for all of them they are all decoded"
)
_NO_LONGER: Final = "says how weights were quantized, which are not any more"


class _Form:
    """The form in which the tensors of one component go out."""

    def __init__(
        self, plan: Plan, tensors: list[TensorPlan], config: Document, told: Document
    ) -> None:
        """Decide it.

        Args:
            config: of the component, as it is kept.
            told: the same, with what older programs say in files of their own.
        """
        self._plan = plan
        self._tensors = tensors
        self._is_mlx = _is_of_mlx(tensors, config)
        self._experts = {one.name for one in tensors if gpt_oss.is_packed(one, config)}
        self._restored = {} if self._is_mlx else dict(_restored(plan, tensors, told))

    @property
    def is_kept(self) -> bool:
        """Whether the arrays are those that the source has."""
        return self._is_mlx or all(
            plan.name in self._experts
            or plan.name in self._restored
            or not isinstance(plan.transcoder, KEEPING)
            for plan in self._tensors
        )

    @property
    def is_plain(self) -> bool:
        """Whether no weight is stored as codes and scales."""
        # What a scheme has joined and nobody asked to decode stays its arrays.
        return (
            not self._is_mlx
            and not self._restored
            and all(
                plan.part_of is None
                and not plan.sources[0].unjoined
                and not (plan.name in self._experts and isinstance(plan.transcoder, KEEPING))
                for plan in self._tensors
            )
            and (self._plan.inventory.scheme is None or self._plan.inventory.is_decoded)
        )

    def weights(self) -> Iterator[Weight]:
        """Yield what becomes of each tensor."""
        for plan in self._tensors:
            (source,) = plan.sources
            transcoder = plan.transcoder
            if plan.name in self._experts:
                if isinstance(transcoder, KEEPING):
                    yield gpt_oss.as_blocks(plan)
                else:
                    yield gpt_oss.decoded(plan, plan.parts[0].dtype)
                continue
            if plan.name in self._restored:
                yield from self._restored[plan.name]
                continue
            if isinstance(transcoder, KEEPING):
                if self._is_mlx:
                    stem = plan.key.removesuffix(_WEIGHT)
                    names = [stem + _MLX_PARTS.get(part.suffix, _WEIGHT) for part in plan.parts]
                    yield Weight.of(plan.name, plan.shape, names, (source,), transcoder)
                    continue
                transcoder = Recode(source.decoder, Cast(source.dtype, source.dtype))
            for one in experts_of(self._plan.inventory, source):
                name = one.own_name
                yield Weight.of(one.name, one.shape, [name], (one,), transcoder)

    def rows(self, files: Mapping[str, str]) -> Iterator[Row]:
        """Yield a row for each tensor of the model.

        Args:
            files: path of the file, by the name of each weight.
        """
        made = {weight.name: weight for weight in self.weights()}
        for plan in self._tensors:
            (source,) = plan.sources
            own = [
                made[one.name]
                for one in experts_of(self._plan.inventory, source)
                if one.name in made
            ]
            own = own or [made[plan.name]]
            before = plan.was_packed or plan.dtype
            stays = len(own[0].arrays) > 1
            after = before if stays else own[0].arrays[0].dtype
            nbytes = sum(weight.nbytes for weight in own)
            yield Row(plan.name, plan.shape, before, after, files[own[0].name], nbytes)


def _restored(
    plan: Plan, tensors: list[TensorPlan], told: Document
) -> Iterator[tuple[str, list[Weight]]]:
    """Yield the weights that go out in the arrays of the source, by the name of the tensor."""
    kept = [one for one in tensors if isinstance(one.transcoder, KEEPING)]
    if not kept:
        return
    with contextlib.suppress(IngotError):
        forms = SourceForms(told, is_requantized=plan.inventory.is_requantized)
        for one in kept:
            found = [forms.restored(it) for it in experts_of(plan.inventory, one.sources[0])]
            weights = [weight for weight in found if weight is not None]
            if len(weights) == len(found):
                yield one.name, weights


def _told(plan: Plan, component: str) -> dict[str, str]:
    """Return what all files of a component say about themselves."""
    told = [
        said
        for path, said in plan.inventory.metadata.items()
        if path.rpartition("/")[0] == component
    ]
    common = set.intersection(*(set(said.items()) for said in told)) if told else set()
    return dict(sorted(common))


def _is_of_mlx(tensors: list[TensorPlan], config: Document) -> bool:
    """Whether the source held every packed tensor as MLX does, as its configuration says."""
    packed = [plan for plan in tensors if isinstance(plan.transcoder, KEEPING)]
    if not packed or not QUANTIZATION_KEYS.intersection(config):
        return False
    with contextlib.suppress(IngotError):
        types = MlxConfig(config)
        if types.claim is None and not types.modules:
            return False
        agrees = all(_agrees(plan, types) for plan in packed)
        types.check()
        return agrees
    return False


def _agrees(plan: TensorPlan, types: MlxConfig) -> bool:
    codec = plan.sources[0].decoder
    if not isinstance(codec, Grouped):
        return False
    spec: QuantSpec = codec.spec
    words, scales = (part.shape[-1] for part in plan.parts[:2])
    module = plan.key.removesuffix(_WEIGHT)
    packed = Packed(module, plan.name, words, scales, is_affine=spec.has_bias, is_runners=False)
    return plan.key.endswith(_WEIGHT) and types.type_of(packed).spec == spec


def _stem(plan: Plan, where: str, config: Document) -> str:
    """Return how the library that loads a directory calls its weights."""
    if "_class_name" in config:
        return "diffusion_pytorch_model"
    adapter = plan.inventory.file(f"{where}adapter_config.json") is not None
    return "adapter_model" if adapter and not config else "model"


def _config(path: str, config: Document, form: _Form, dtype: str | None) -> dict[str, bytes]:
    """Return the configuration in place of the kept one, or nothing where that is right."""
    made: Document = config
    if form.is_plain:
        made = without_quantization(made)
    if dtype is not None:
        made = with_dtype(made, dtype)
    return {} if made == config else {path: to_bytes(made)}
