"""How the classes of llama.cpp's converter find a vocabulary, each in its way.

Source: the `set_vocab` of each class in llama.cpp's conversion/*.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from importer.exports.gguf.documents import (
    SENTENCEPIECE,
    TOKENIZER,
    TOKENIZER_CONFIG,
    as_list,
    as_object,
    bad,
    is_number,
    objects,
)
from importer.exports.gguf.parameters import Metadata
from importer.exports.gguf.sentencepiece import Token, read_normalizer, read_pieces
from importer.exports.gguf.vocabulary import ADDED_SCORE, Vocabulary
from importer.formats.gguf.metadata import Value
from importer.formats.gguf.writer import Values
from importer.formats.gguf_names.vocabulary import LIMIT_TOKENS, Kind
from store.json import Json

_BYTE: Final = re.compile(r"<0x[0-9A-Fa-f]{2}>")
_CODE_LLAMA: Final = 32016
_CODE_LLAMA_END: Final = 32010
_GRANITE_SMALL: Final = 49152
_GEMMA_END: Final = 107
_SPIECE: Final = "spiece.model"
_XLM_PIECES: Final = "sentencepiece.bpe.model"
_XLM_FIRST: Final = (
    *(Token(text, 0.0, Kind.CONTROL) for text in ("<s>", "<pad>", "</s>")),
    Token("<unk>", 0.0, Kind.UNKNOWN),
)
_END, _USER, _SEEN = "<|endoftext|>", "<|user|>", "<|observation|>"


def _llama(vocabulary: Vocabulary) -> Metadata:
    made: Metadata = {}
    told = vocabulary.documents.parse(TOKENIZER_CONFIG).get("add_prefix_space")
    if isinstance(told, bool):
        made["tokenizer.ggml.add_space_prefix"] = Value("bool", told)
    if vocabulary.has_pieces:
        made |= vocabulary.sentencepiece()
    elif _is_pieces(vocabulary.documents.parse(TOKENIZER)):
        made |= _pieces_of_json(vocabulary)
    else:
        made |= vocabulary.bpe()
    size = vocabulary.hparams.values.get("vocab_size")
    if size == _CODE_LLAMA:
        made["tokenizer.ggml.eot_token_id"] = Value("u32", _CODE_LLAMA_END)
    if size == _GRANITE_SMALL:
        made["tokenizer.ggml.add_bos_token"] = Value("bool", value=False)
    return made


def _is_pieces(tokenizer: Mapping[str, Json]) -> bool:
    """Return whether a tokenizer.json was made of a model of SentencePiece."""
    model = as_object(tokenizer.get("model"))
    decoder = as_object(tokenizer.get("decoder"))
    return bool(
        model.get("type") == "BPE"
        and model.get("byte_fallback")
        and decoder.get("type") == "Sequence"
    )


def _pieces_of_json(vocabulary: Vocabulary) -> Metadata:
    """Return the keys of a tokenizer.json that was made of a model of SentencePiece."""
    tokenizer = vocabulary.documents.parse(TOKENIZER)
    texts = as_object(as_object(tokenizer.get("model")).get("vocab"))
    numbers = {
        number: text for text, number in texts.items() if is_number(number, LIMIT_TOKENS)
    }
    if sorted(numbers) != list(range(len(texts))):
        bad(TOKENIZER, "has tokens that are not numbered from 0 without gaps")
    special = _special_numbers(vocabulary, tokenizer)
    tokens = []
    for number in range(len(texts)):
        kind = Kind.CONTROL if number in special else Kind.NORMAL
        kind = Kind.BYTE if _BYTE.fullmatch(numbers[number]) else kind
        tokens.append(Token(numbers[number], ADDED_SCORE, kind))
    more: dict[int, str] = {}
    for found in objects(tokenizer.get("added_tokens")):
        place, text = found.get("id"), found.get("content")
        if is_number(place, LIMIT_TOKENS) and place >= len(texts) and isinstance(text, str):
            more[place] = text
    for number, content in sorted(more.items()):
        kind = Kind.CONTROL if number in special else Kind.USER_DEFINED
        tokens.append(Token(content, ADDED_SCORE, kind))
    return vocabulary.listed(tokens)


def _special_numbers(vocabulary: Vocabulary, tokenizer: Mapping[str, Json]) -> set[int]:
    """Return the numbers of tokens that the tokenizer's configuration calls special."""
    told = vocabulary.documents.parse(TOKENIZER_CONFIG)
    names: set[str] = set()
    for key, found in told.items():
        if key.endswith("_token") and not key.startswith("add_"):
            text = as_object(found).get("content") if isinstance(found, dict) else found
            names.add(text) if isinstance(text, str) else None
    for key in ("additional_special_tokens", "extra_special_tokens"):
        for one in as_list(told.get(key)):
            text = as_object(one).get("content") if isinstance(one, dict) else one
            names.add(text) if isinstance(text, str) else None
    vocab = as_object(as_object(tokenizer.get("model")).get("vocab"))
    added = {
        found.get("content"): found.get("id")
        for found in (as_object(one) for one in as_list(tokenizer.get("added_tokens")))
    }
    numbers = (added.get(name, vocab.get(name)) for name in names)
    return {number for number in numbers if is_number(number, LIMIT_TOKENS)}


def _qwen(vocabulary: Vocabulary) -> Metadata:
    return vocabulary.sentencepiece() if vocabulary.has_pieces else vocabulary.bpe()


def _gemma(vocabulary: Vocabulary) -> Metadata:
    made = vocabulary.sentencepiece()
    made["tokenizer.ggml.eot_token_id"] = Value("u32", _GEMMA_END)
    return made | _NO_SPACE


def _gemma2(vocabulary: Vocabulary) -> Metadata:
    return vocabulary.sentencepiece() | _NO_SPACE


def _gemma3(vocabulary: Vocabulary) -> Metadata:
    return _gemma2(vocabulary) if vocabulary.has_pieces else vocabulary.bpe()


def _ernie(vocabulary: Vocabulary) -> Metadata:
    made = vocabulary.sentencepiece()
    told = vocabulary.documents.parse(TOKENIZER_CONFIG).get("add_prefix_space")
    if isinstance(told, bool):
        made["tokenizer.ggml.add_space_prefix"] = Value("bool", told)
    return made


def _nemotron(vocabulary: Vocabulary) -> Metadata:
    made = vocabulary.sentencepiece()
    made["tokenizer.ggml.padding_token_id"] = Value("u32", 0)
    made["tokenizer.ggml.unknown_token_id"] = Value("u32", 1)
    return made


def _glm4(vocabulary: Vocabulary) -> Metadata:
    return vocabulary.bpe({"eos": _END, "eot": _USER, "unk": _END, "bos": _END})


def _glm(vocabulary: Vocabulary) -> Metadata:
    return vocabulary.bpe({"bos": "[gMASK]", "eot": _USER, "unk": _END, "eom": _SEEN})


def _chatglm(vocabulary: Vocabulary) -> Metadata:
    return vocabulary.bpe({"eos": _END, "eot": _USER, "unk": _END})


def _hunyuan(vocabulary: Vocabulary) -> Metadata:
    """Return the keys; the end of a text is another token than the tokenizer says."""
    made = vocabulary.bpe()
    end = vocabulary.config.get("eod_token_id")
    if is_number(end, LIMIT_TOKENS):
        made["tokenizer.ggml.eos_token_id"] = Value("u32", end)
    ends = vocabulary.documents.parse("generation_config.json").get("eos_token_id")
    if isinstance(ends, list) and len(ends) > 1 and is_number(ends[0], LIMIT_TOKENS):
        made["tokenizer.ggml.eot_token_id"] = Value("u32", ends[0])
    return made


def _roberta(vocabulary: Vocabulary) -> Metadata:
    """Return the keys of pairs of bytes; of BERT's words where no tokenizer.json is."""
    if TOKENIZER not in vocabulary.documents:
        return vocabulary.word_pieces()
    types = vocabulary.hparams.optional("type_vocab_size")
    count = Value("u32", 1 if types is None else types)
    return vocabulary.bpe() | {"tokenizer.ggml.token_type_count": count}


def _modern_bert(vocabulary: Vocabulary) -> Metadata:
    adds = {f"tokenizer.ggml.add_{kind}_token": True for kind in ("bos", "eos", "sep")}
    made: Metadata = {key: Value("bool", value) for key, value in adds.items()}
    return made | vocabulary.bpe()


def _t5(vocabulary: Vocabulary) -> Metadata:
    """Return the keys of pieces by their likelihood, and of how text is normalized."""
    documents = vocabulary.documents
    path = next((one for one in (SENTENCEPIECE, _SPIECE) if one in documents), None)
    if path is None:
        vocabulary.missing(_SPIECE)
    data = documents.read(path)
    told = read_normalizer(data, path)
    if told.merges:
        return vocabulary.sentencepiece()
    further: Metadata = {
        "tokenizer.ggml.add_space_prefix": Value("bool", told.adds_prefix),
        "tokenizer.ggml.remove_extra_whitespaces": Value("bool", told.removes_blanks),
    }
    if told.table:
        further["tokenizer.ggml.precompiled_charsmap"] = Values("u8", list(told.table))
    return vocabulary.likely_pieces(read_pieces(data, path), further)


def _xlm_roberta(vocabulary: Vocabulary) -> Metadata:
    """Return the keys of pieces by their likelihood, which fairseq numbered in its own way."""
    documents = vocabulary.documents
    if _XLM_PIECES not in documents:
        vocabulary.missing(_XLM_PIECES)
    data = documents.read(_XLM_PIECES)
    told = read_normalizer(data, _XLM_PIECES)
    if told.merges:
        bad(_XLM_PIECES, "merges pairs, expected pieces by their likelihood")
    types = vocabulary.hparams.optional("type_vocab_size")
    further: Metadata = {
        "tokenizer.ggml.add_space_prefix": Value("bool", told.adds_prefix),
        "tokenizer.ggml.token_type_count": Value("u32", 1 if types is None else types),
        "tokenizer.ggml.remove_extra_whitespaces": Value("bool", told.removes_blanks),
    }
    if told.table:
        further["tokenizer.ggml.precompiled_charsmap"] = Values("u8", list(told.table))
    tokens = vocabulary.filled(read_pieces(data, _XLM_PIECES))
    return vocabulary.listed([*_XLM_FIRST, *tokens[3:-1]], "t5", further)


def _phi3(vocabulary: Vocabulary) -> Metadata:
    """Return the keys of Phi-3, or of Phi-4, which merges bytes."""
    told = vocabulary.documents.parse(TOKENIZER_CONFIG)
    if told.get("tokenizer_class") == "GPT2Tokenizer":
        return vocabulary.bpe()
    if not vocabulary.has_pieces:
        vocabulary.missing(SENTENCEPIECE)
    tokens = vocabulary.pieces()
    decoder = as_object(told.get("added_tokens_decoder"))
    added: dict[int, Mapping[str, Json]] = {
        int(key): as_object(one) for key, one in decoder.items() if key.isdecimal()
    }
    for found in objects(vocabulary.documents.parse(TOKENIZER).get("added_tokens")):
        number = found.get("id")
        if is_number(number, len(tokens)):
            added[number] = found
    for place, one in added.items():
        text = one.get("content")
        if place < len(tokens) and isinstance(text, str):
            kind = Kind.CONTROL if one.get("special") else Kind.USER_DEFINED
            tokens[place] = Token(text, ADDED_SCORE, kind)
    return vocabulary.listed(tokens)


_NO_SPACE: Final[Metadata] = {"tokenizer.ggml.add_space_prefix": Value("bool", value=False)}
WAYS: Final[Mapping[str, Callable[[Vocabulary], Metadata]]] = MappingProxyType(
    {
        "bpe": Vocabulary.bpe,
        "chatglm": _chatglm,
        "ernie": _ernie,
        "gemma": _gemma,
        "gemma2": _gemma2,
        "gemma3": _gemma3,
        "glm": _glm,
        "glm4": _glm4,
        "hunyuan": _hunyuan,
        "llama": _llama,
        "modern-bert": _modern_bert,
        "nemotron": _nemotron,
        "phi3": _phi3,
        "qwen": _qwen,
        "roberta": _roberta,
        "sentencepiece": Vocabulary.sentencepiece,
        "t5": _t5,
        "wordpiece": Vocabulary.word_pieces,
        "xlm-roberta": _xlm_roberta,
    }
)
"""By the word in architectures.toml."""
