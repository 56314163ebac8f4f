"""The table of architectures, held against the one of gguf-py, which leads the other way."""

from __future__ import annotations

import gguf
import pytest
from gguf.constants import MODEL_ARCH_NAMES, MODEL_TENSORS, TENSOR_NAMES
from gguf.tensor_mapping import TensorNameMap

from importer.formats.gguf_names.config import _table, _tables
from importer.formats.gguf_names.rules import RULES
from importer.formats.gguf_names.spelling import Key, architectures, spelling_of
from importer.formats.gguf_names.tokenizer_kinds import _pre_tokenizers

NUMBERS = {name: number for number, name in MODEL_ARCH_NAMES.items()}
NOT_SPELLED = {
    *("rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"),
    *("plamo2", "plamo3", "cogvlm", "wavtokenizer-dec", "clip"),
}
NEWER = {"nanbeige", "mellum"}
"""Of later versions of llama.cpp than the newest gguf-py."""
SPELLED_ANEW = (
    # Converters rename these before they look them up.
    "self_attn.attn_sub_norm",
    "mlp.ffn_sub_norm",
    ".dt_bias",
    "transformer.h.2.attn.q",
    ".mixer.experts.E.",
    # These are halves of one matrix there.
    "shared_mlp.",
)
each_table = pytest.mark.parametrize("name", architectures())


def of_gguf(name):
    return NUMBERS.get(name.partition("+")[0])


def spelled(spelling, name):
    """What a tensor becomes, whatever its ending is."""
    names = (spelling.name_of(Key.parse(name + end)) for end in (".weight", ".bias", ""))
    return {one for one in names if one}


def stems(name):
    """A name, and what it is without the endings that converters put on and take off."""
    name = name.replace(".E.", ".").removesuffix(".E")
    found = {name}
    for end in (".weight", ".bias", "_bias"):
        found |= {one.removesuffix(end) for one in found}
    return found


def test_every_architecture_is_spelled_or_said_not_to_be():
    assert {name for name in NUMBERS if name not in architectures()} == NOT_SPELLED
    unknown = {name for name in architectures() if of_gguf(name) is None}
    assert {name.partition("+")[0] for name in unknown} == NEWER


@each_table
def test_a_name_leads_back_to_the_tensor(name):
    number, spelling = of_gguf(name), spelling_of(name)
    if number is None:
        return
    # The package changes this table for one architecture, and never back.
    saved = dict(TensorNameMap.block_mappings_cfg)
    try:
        known = gguf.get_tensor_name_map(number, 3).mapping
    finally:
        TensorNameMap.block_mappings_cfg.clear()
        TensorNameMap.block_mappings_cfg.update(saved)
    wrong = {}
    for tensor in MODEL_TENSORS[number]:
        ours = TENSOR_NAMES[tensor].format(bid=2)
        listed = {there for there, (_, back) in known.items() if back == ours}
        ends = {there.partition("2.")[2] or there for there in listed}
        for made in spelled(spelling, ours) if listed else ():
            if not any(one.endswith(end) for one in stems(made) for end in ends):
                wrong[ours] = made
    found = {
        key: made
        for key, made in wrong.items()
        if not any(part in made for part in SPELLED_ANEW)
    }
    assert found == {}


@each_table
def test_no_two_tensors_have_one_name(name):
    spelling = spelling_of(name)
    # The same tensor under two names of GGUF's, or of a dense and of a mixed model.
    same_tensor = {"exp_probs_b", "attn_sinks", "ffn_norm", "layer_output_scale", "ffn_down"}
    found = {}
    for key, made in spelling.names.items():
        if key.removeprefix("blk.N.").partition(".")[0] not in same_tensor:
            found.setdefault(made, []).append(key)
    assert {made: keys for made, keys in found.items() if len(keys) > 1} == {}


def test_rules_are_of_architectures():
    assert set(RULES) <= set(architectures())


def test_configurations_are_of_spellings():
    kinds = {"deepseek2+v3", "mamba+falcon"}
    assert set(_tables()) - kinds <= set(architectures())
    for name in _tables():
        table = _table(name)
        assert table["architecture"]
        assert table["model_type"]
        assert table["keys"]


def test_each_pre_tokenizer_is_named_once():
    assert len(_pre_tokenizers()) == 70
    assert all(table["names"] for _, table in _pre_tokenizers().values())
