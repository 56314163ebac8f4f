"""What becomes of each tensor of a model in UQFF, with one type for all layers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from importer.codecs.base import Decoder, Shape, Transcoder
from importer.codecs.cast import Cast
from importer.codecs.described import Described
from importer.codecs.registry import stored_type
from importer.codecs.spec import CAST_DTYPES, VALUE_DTYPES
from importer.codecs.transcode import Copy, Gather, Recode
from importer.codecs.views.view import can_read
from importer.exports.base import Row
from importer.exports.experts import experts_of
from importer.exports.mlx_config import tied_in
from importer.exports.safetensors import Weight
from importer.exports.uqff.layers import Form, made_form, plain_form, stored_form
from importer.exports.uqff.models import EMBEDDING, OUTPUT, Name, UqffModel, bias_of
from importer.exports.uqff.types import UNQUANTIZED, UqffType, fitting, promoted_of
from importer.planning.importance import Weigher
from importer.planning.plan import Plan
from importer.sources.configuration import declared_dtype
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.text import count, printable

_PROMOTED: Final = frozenset({EMBEDDING, OUTPUT})
_HQQ: Final = frozenset({"hqq4", "hqq8"})
_STACK: Final = 3


class Content:
    """The layers of one set of shards, and the tensors that are not layers.

    Attributes:
        layers: by the name of their data; also what is added to their outputs.
        others: of the file beside all shards.
        rows: one for each of them, by the name in mistral.rs; without files.
    """

    def __init__(
        self,
        plan: Plan,
        model: UqffModel,
        asked: UqffType | None,
        dtype: str | None,
        weigher: Weigher | None = None,
    ) -> None:
        """Decide about every tensor.

        Args:
            asked: the type of all layers, or None to keep what they are stored as.
            dtype: that every float gets, or None.
            weigher: knows how much columns count, or None where all count alike.

        Raises:
            InputError: experts are missing.
            UnsupportedError: experts are not all alike, or do not have the type that is asked.
        """
        self.layers: dict[str, Weight] = {}
        self.others: list[Weight] = []
        self.rows: list[Row] = []
        self._model = model
        self._asked = asked
        self._dtype = dtype
        self._weigher = weigher
        self._weighed: Counter[bool] = Counter()
        self._inventory = plan.inventory
        self._config = plan.inventory.configs[""]
        self._types: dict[str, str] = {}
        self._promoted: Counter[str] = Counter()
        self._fallbacks: Counter[tuple[str, str]] = Counter()
        self._again: Counter[str] = Counter()
        self._decoded: Counter[str] = Counter()
        self._dropped: list[str] = []
        self._without_bias: list[str] = []
        named = [(model.name(source.own_name), source) for source in _sources(plan)]
        self._biases = {
            bias_of(name.text): name.text
            for name, one in named
            if model.is_layer(name.text, one.shape)
        }
        self._add_all(named)
        if self._weighed and not self._weighed[True]:
            raise InputError(
                "the importance matrix has nothing for any layer of a K type",
                code="E_IMATRIX_UNUSED",
            )

    @property
    def stem(self) -> str:
        """What the set is called: its type, or the one that most bytes are of."""
        if self._asked is not None:
            return self._asked.name
        sizes: Counter[str] = Counter()
        for name, label in self._types.items():
            sizes[label.partition("/")[0]] += self.layers[name].nbytes
        quantized = {label: size for label, size in sizes.items() if label != UNQUANTIZED}
        return max(sorted(quantized), key=lambda label: sizes[label], default=UNQUANTIZED)

    @property
    def types(self) -> Mapping[str, str]:
        """The type of each layer, by the name of its data."""
        return self._types

    def lossy(self) -> Iterator[str]:
        """Yield what UQFF, or mistral.rs, cannot hold."""
        for kind, number in sorted(self._decoded.items()):
            tensors = count(number, "tensor")
            yield f"{tensors} of {kind} are decoded and rounded: UQFF has no type for them"
        if self._without_bias:
            named = printable(self._without_bias[0])
            biases = count(len(self._without_bias), "tensor")
            yield f"{biases} such as `{named}`: mistral.rs adds nothing there, so left out"

    def notes(self) -> Iterator[str]:
        """Yield what else is different."""
        for kind, number in sorted(self._promoted.items()):
            layers = count(number, "layer")
            yield f"{layers} (embeddings, output) in {kind}: promoted, as mistral.rs does"
        for (kind, wanted), number in sorted(self._fallbacks.items()):
            becomes = "not quantized" if kind == UNQUANTIZED else f"in {kind}"
            yield f"{count(number, 'layer')} {becomes}: {wanted} does not fit their shape"
        for kind, number in sorted(self._again.items()):
            yield f"{count(number, 'tensor')} of {kind} quantized again"
        if self._weighed[False]:
            layers = count(self._weighed[False], "layer")
            yield f"{layers} of which the importance matrix has nothing: columns count alike"
        if self._dropped:
            named = printable(self._dropped[0])
            yield f"`{named}` is left out: the output layer is tied to the embeddings"

    def _add_all(self, named: list[tuple[Name, SourceTensor]]) -> None:
        stacks: defaultdict[str, list[tuple[int, SourceTensor]]] = defaultdict(list)
        others: list[tuple[str, SourceTensor]] = []
        for name, source in named:
            if name.expert is not None:
                stacks[name.text].append((name.expert, source))
            elif name.text == OUTPUT and tied_in(self._config):
                self._dropped.append(name.text)
            elif self._model.is_layer(name.text, source.shape):
                self._add_layer(name.text, source.shape, [source])
            else:
                others.append((name.text, source))
        for text, members in stacks.items():
            members.sort(key=lambda member: member[0])
            sources = [source for _, source in members]
            first = sources[0]
            if [number for number, _ in members] != list(range(len(members))):
                raise InputError(
                    f"the experts of `{printable(text)}` are not numbered from 0 without gaps",
                    code="E_EXPORT_EXPERTS",
                )
            if any((one.shape, one.decoder) != (first.shape, first.decoder) for one in sources):
                raise UnsupportedError(
                    f"the experts of `{printable(text)}` have several types, and UQFF has them "
                    "as one layer",
                    code="E_EXPORT_EXPERTS",
                )
            self._add_layer(text, (len(sources), *first.shape), sources)
        for text, source in others:
            self._add_other(text, source)

    def _add_layer(self, name: str, shape: Shape, sources: list[SourceTensor]) -> None:
        source = sources[0]
        if self._keeps_entries(source):
            for array in source.arrays:
                one = SourceTensor.plain(array)
                copy = Weight.of(array.name, one.shape, [array.name], (one,), Copy(one.dtype))
                self.layers[array.name] = copy
                self._types[array.name] = source.stored_as
                self._row(copy, one.shape, source.stored_as, source.stored_as)
            return
        form = self._form(name, shape, source)
        weight = form.weight(name, shape, sources)
        if self._weigher is not None and form.weighs:
            weight = weight._replace(apart=self._weigh(form, sources, self._weigher))
        self.layers[name] = weight
        self._types[name] = str(form.kind)
        is_plain = form.kind.name == UNQUANTIZED
        after = weight.arrays[0].dtype if is_plain else str(form.kind)
        self._row(weight, shape, source.stored_as or source.dtype, after)

    def _weigh(
        self, form: Form, sources: Sequence[SourceTensor], weigher: Weigher
    ) -> tuple[Transcoder, ...]:
        """Return what makes each source by its importance, where that is known."""
        numbers = [weigher.numbers(source) for source in sources]
        self._weighed[all(one is not None for one in numbers)] += 1
        return tuple(form.transcoder if one is None else form.weighted(one) for one in numbers)

    def _keeps_entries(self, source: SourceTensor) -> bool:
        """Whether a layer of UQFF that the store has no type for stays as it is."""
        return isinstance(source.decoder, Described) and self._asked is None

    def _form(self, name: str, shape: Shape, source: SourceTensor) -> Form:
        """Return the form of a layer, and note how it was found."""
        stored = stored_form(source.decoder, source.shape)
        asked = self._asked
        if stored is not None and (asked is None or _is_of(stored.kind, asked)):
            return stored
        if asked is None:
            return plain_form(self._plain(source, self._dtype))
        wanted = promoted_of(asked) if name in _PROMOTED else asked
        kind = fitting(wanted, source.shape)
        if kind != wanted:
            self._fallbacks[str(kind), str(wanted)] += 1
        elif kind != asked:
            self._promoted[str(kind)] += 1
        if kind.name == UNQUANTIZED:
            return plain_form(self._plain(source, self._dtype))
        if len(shape) == _STACK and not kind.has_stacks:
            raise UnsupportedError(
                f"the experts of `{printable(name)}` in {kind}: mistral.rs computes with "
                "experts in AFQ and GGML's types",
                code="E_EXPORT_EXPERTS",
            )
        form = made_form(kind, source.decoder, self._dtype_of(source))
        if not can_read(form.transcoder, source.shape):
            raise UnsupportedError(
                f"`{printable(name)}` is {source.stored_as}, which cannot become {kind}",
                code="E_EXPORT_FORMAT",
            )
        if source.stored_as:
            self._again[source.stored_as] += 1
        return form

    def _add_other(self, name: str, source: SourceTensor) -> None:
        layer = self._biases.get(name)
        if layer is not None and not self._model.has_biases:
            self._without_bias.append(name)
            return
        # mistral.rs computes with HQQ's values in F32 whatever the model's dtype, and adds what
        # has the same dtype; in all other families it is that of the model.
        is_wide = layer is not None and self._types[layer] in _HQQ
        transcoder = self._plain(source, "F32" if is_wide else self._dtype)
        weight = Weight.of(name, source.shape, [name], (source,), transcoder)
        before = source.stored_as or source.dtype
        self._row(weight, source.shape, before, weight.arrays[0].dtype)
        if layer is not None:
            self.layers[name] = weight
        else:
            self.others.append(weight)

    def _row(self, weight: Weight, shape: Shape, before: str, after: str) -> None:
        self.rows.append(Row(weight.name, shape, before, after, "", weight.nbytes))

    def _plain(self, source: SourceTensor, dtype: str | None) -> Transcoder:
        """Return what makes floats of a tensor, of a dtype or its own."""
        if source.is_plain:
            wanted = dtype if source.dtype in CAST_DTYPES else None
            if wanted in {None, source.dtype}:
                is_array = type(source.decoder).__name__ == "Plain"
                return Copy(source.dtype) if is_array else Gather(source.decoder)
            assert wanted is not None
            return Recode(source.decoder, Cast(source.dtype, wanted))
        dtype = dtype or self._dtype_of(source)
        if source.dtype != dtype or stored_type(source.decoder) is None:
            self._decoded[source.stored_as] += 1
        return Recode(source.decoder, Cast(source.dtype, dtype))

    def _dtype_of(self, source: SourceTensor) -> str:
        """Return the dtype of the values of a tensor, before they are quantized."""
        if self._dtype is not None:
            return self._dtype
        decoder: Decoder = source.decoder
        if source.is_plain or stored_type(decoder) is not None:
            return VALUE_DTYPES.get(source.dtype, "BF16")
        return declared_dtype(self._config) or "BF16"


def _sources(plan: Plan) -> Iterator[SourceTensor]:
    """Yield each tensor once: packed ones whole, experts that we stacked one by one."""
    seen: set[str] = set()
    for one in plan.tensors:
        source = one.part_of or one.sources[0]
        if source.name not in seen:
            seen.add(source.name)
            yield from experts_of(plan.inventory, source)


def _is_of(stored: UqffType, asked: UqffType) -> bool:
    """Whether a layer has the type that is asked for already, in groups of any size."""
    kinds = {(one.family, one.kind) for one in (asked, promoted_of(asked))}
    return (stored.family, stored.kind) in kinds
