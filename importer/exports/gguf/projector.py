"""The file that llama.cpp sees with: the vision tower of a model, and its projector.

Facts: `MmprojModel` and its classes in llama.cpp's conversion/*.py.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final, NoReturn

from importer.codecs.ggml.types import NAMED, GgmlType
from importer.exports.gguf.documents import Documents, as_list, as_object
from importer.exports.gguf.file import Content, Typed
from importer.exports.gguf.hparams import Hparams, is_number
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.provenance import general
from importer.exports.gguf.tensors import Member, Tensor, plus_one, rotated
from importer.exports.gguf.types import FileType, converted_type
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import Values
from importer.sources.document import CONFIG, Document
from importer.sources.tensor import SourceTensor
from store.errors import InputError, UnsupportedError
from store.text import printable

_TABLE: Final = "projectors.toml"
_PREPROCESSORS: Final = ("preprocessor_config.json", "processor_config.json")
_CONV: Final = "v.patch_embd"
_COLOURS: Final = 3
_USUAL_FACTOR: Final = 4
_VERSION: Final = 2
_COUNTS: Final = (
    ("image_size", "image_size"),
    ("patch_size", "patch_size"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("block_count", "num_hidden_layers"),
    ("attention.head_count", "num_attention_heads"),
)


def projector(
    name: str,
    config: Document,
    documents: Documents,
    sources: Sequence[SourceTensor],
    wanted: FileType,
) -> Content:
    """Return the file of what sees, `mmproj-NAME.gguf`.

    Args:
        name: of the model.
        config: the whole configuration.
        documents: how images are prepared is in one of them.
        sources: the tensors that are not of the text model, in the converter's order.
        wanted: the type of most tensors.

    Raises:
        UnsupportedError: there is nothing that sees, or nothing that is known.
        InputError: tensors or configuration contradict each other.
    """
    inner = as_object(config.get("vision_config"))
    rule = _rule_of(config, inner)
    values: dict[str, Any] = {**rule["defaults"], **inner, "text_config": None}
    hparams = Hparams(values)
    tensors = list(_tensors(rule, hparams, sources))
    if not tensors:
        _nothing("has no tensors of one")
    metadata: Metadata = {"general.architecture": Value("string", "clip")}
    metadata |= general(name, documents, tensors, kind="mmproj")
    metadata["general.file_type"] = Value("u32", wanted.number)
    metadata["clip.has_vision_encoder"] = Value("bool", value=True)
    metadata |= _vision(rule, hparams, Hparams(config), _prepared(documents))
    metadata["general.quantization_version"] = Value("u32", _VERSION)
    usual = NAMED[wanted.kind]
    typed = [Typed(one, _type(rule, one, usual)) for one in tensors]
    return Content(f"mmproj-{name}.gguf", metadata, typed)


def _rule_of(config: Document, inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is known of a class that sees.

    Raises:
        UnsupportedError: nothing is.
    """
    if not inner:
        _nothing(f"has no `vision_config` in `{CONFIG}`")
    kinds = {
        kind: rule
        for name in as_list(config.get("architectures"))
        if isinstance(name, str)
        for kind, rule in _tables().get(name, {}).items()
    }
    kind = inner.get("model_type")
    if isinstance(kind, str) and kind in kinds:
        return kinds[kind]  # type: ignore[no-any-return]  # tables of TOML
    known = (f"{name} with {kind}" for name, one in _tables().items() for kind in one)
    raise UnsupportedError(
        f"a vision tower of the kind `{printable(str(kind))}` as GGUF: known are "
        f"{', '.join(known)}",
        code="E_EXPORT_FORMAT",
    )


def _nothing(why: str) -> NoReturn:
    raise UnsupportedError(
        f"the model {why}: there is no vision tower to export", code="E_EXPORT_FORMAT"
    )


def _prepared(documents: Documents) -> Mapping[str, Any]:
    """Return how images are prepared: later files go before earlier ones."""
    found: dict[str, Any] = {}
    for path in _PREPROCESSORS:
        told = documents.parse(path)
        found |= {**told, **as_object(told.get("media_proc_cfg"))}
        found |= as_object(told.get("image_processor"))
    return found


def _vision(
    rule: Mapping[str, Any], hparams: Hparams, text: Hparams, prepared: Mapping[str, Any]
) -> Metadata:
    made: Metadata = {}
    width = text.count("hidden_size", "n_embd")
    made["clip.vision.projection_dim"] = Value("u32", width)
    for key, name in _COUNTS:
        made[f"clip.vision.{key}"] = Value("u32", hparams.count(name))
    for key in ("image_mean", "image_std"):
        made[f"clip.vision.{key}"] = Values("f32", _colours(prepared, key))
    made["clip.projector_type"] = Value("string", rule["projector"])
    epsilon = hparams.values.get("layer_norm_eps", rule["epsilon"])
    if not is_number(epsilon):
        hparams.bad("layer_norm_eps", epsilon, "a number")
    made["clip.vision.attention.layer_norm_epsilon"] = Value("f32", float(epsilon))
    if rule["projector"] == "gemma3":
        made["clip.use_gelu"] = Value("bool", value=True)
        made |= _scale_factor(hparams, prepared)
        return made
    activation = hparams.values.get("hidden_act")
    if activation != "silu" and activation != "gelu":  # noqa: PLR1714 - it may be a list
        hparams.bad("hidden_act", activation, "silu or gelu")
    made[f"clip.use_{activation}"] = Value("bool", value=True)
    return made


def _scale_factor(hparams: Hparams, prepared: Mapping[str, Any]) -> Metadata:
    """Return by how much patches are pooled, where that is not what llama.cpp expects."""
    length = prepared.get("image_seq_length", 256)
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise InputError(
            f"`image_seq_length` is {printable(str(length), 40)}, expected a positive number",
            code="E_GGUF_CONFIG",
        )
    side = int(length**0.5)
    factor = hparams.count("image_size") // hparams.count("patch_size") // side
    if factor in {0, _USUAL_FACTOR}:
        return {}
    return {"clip.vision.projector.scale_factor": Value("u32", factor)}


def _colours(prepared: Mapping[str, Any], key: str) -> list[float]:
    found = as_list(prepared.get(key))
    numbers = [float(one) for one in found if is_number(one)]
    if len(numbers) != len(found) or len(numbers) != _COLOURS:
        raise InputError(
            f"`{key}` in `{_PREPROCESSORS[0]}` is {printable(str(prepared.get(key)), 80)}, "
            "expected three numbers",
            code="E_GGUF_CONFIG",
        )
    return numbers


def _tensors(
    rule: Mapping[str, Any], hparams: Hparams, sources: Sequence[SourceTensor]
) -> Iterator[Tensor]:
    before, _, after = rule["layers"].partition("N")
    in_layer = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}(.+)", re.ASCII)
    heads = hparams.count("num_attention_heads")
    for source in sources:
        name = _plain_name(source.own_name)
        if name.startswith(tuple(rule.get("drops", ()))):
            continue
        stem, _, ending = name.rpartition(".")
        found = in_layer.fullmatch(stem)
        if found is not None:
            known = rule["layer"].get(found[2])
            made = None if known is None else f"v.blk.{int(found[1])}.{known}"
        else:
            known = made = rule["whole"].get(stem)
        if made is None or ending not in {"weight", "bias"}:
            raise UnsupportedError(
                f"`{printable(source.name)}` has no name in a GGUF file of a vision tower",
                code="E_EXPORT_TENSOR",
            )
        decoder = source.decoder
        if rule.get("rotated") and known in {"attn_q", "attn_k"}:
            decoder = rotated(source, heads)
        if made in rule.get("added", ()):
            decoder = plus_one(decoder)
        before_type = source.stored_as or source.dtype
        member = Member.of(source, decoder)
        yield Tensor(f"{made}.{ending}", source.shape, (member,), before_type)


def _plain_name(name: str) -> str:
    """Return a name as the table has it: some versions of transformers have one word more."""
    plain = name.removeprefix("model.").replace("vision_tower.vision_model.", "vision_tower.")
    return plain.removesuffix("_weight") + ".weight" if plain.endswith("_weight") else plain


def _type(rule: Mapping[str, Any], tensor: Tensor, usual: GgmlType) -> GgmlType:
    stem, _, ending = tensor.name.rpartition(".")
    if len(tensor.shape) > 1 and ending == "weight":
        if stem == _CONV:
            forced = (
                "F16" if usual.name == "F16" and _CONV not in rule.get("types", {}) else "F32"
            )
            return NAMED[forced]
        if (told := rule.get("types", {}).get(stem)) is not None:
            return NAMED[told]
    return converted_type(tensor.name, tensor.shape, usual)


@functools.cache
def _tables() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    return tomllib.loads(text)
