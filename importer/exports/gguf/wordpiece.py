"""How BERT's tokenizers cut text: words, and the longest pieces of each.

As `BertNormalizer`, `BertPreTokenizer` and `WordPiece` of Hugging Face's tokenizers do it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from importer.exports.gguf.expressions import NotEncodedError, cut
from store.json import Json

_PUNCTUATION: Final = r"[!-/:-@\[-`{-~\p{P}]"
_BLANKS: Final = "\t\n\r"
_CHINESE: Final = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)
_LONGEST: Final = 100
_SPECIAL: Final = {
    "unk": "[UNK]",
    "sep": "[SEP]",
    "pad": "[PAD]",
    "cls": "[CLS]",
    "mask": "[MASK]",
}


def tokenizer_of(lines: Sequence[str], told: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the tokenizer.json that a vocab.txt stands for, as transformers makes it.

    Args:
        lines: of the file, a token each.
        told: tokenizer_config.json.
    """
    vocab: dict[str, Json] = {line: number for number, line in enumerate(lines)}
    special = [_text(told.get(f"{kind}_token"), usual) for kind, usual in _SPECIAL.items()]
    named = set(special)
    added: list[Json] = [
        {"id": number, "content": text, "special": True}
        for text, number in vocab.items()
        if text in named
    ]
    return {
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": told.get("tokenize_chinese_chars", True),
            "strip_accents": told.get("strip_accents"),
            "lowercase": told.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "cls": [special[3], vocab.get(special[3])],
            "sep": [special[1], vocab.get(special[1])],
        },
        "model": {
            "type": "WordPiece",
            "unk_token": special[0],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": _LONGEST,
            "vocab": vocab,
        },
    }


def _text(found: Json, usual: str) -> str:
    found = found.get("content") if isinstance(found, dict) else found
    return found if isinstance(found, str) else usual


def bert_normalized(step: Mapping[str, Json], text: str) -> str:
    """Return a text without control characters, accents and capitals, as far as it is asked."""
    lowers = step.get("lowercase", True)
    strips = step.get("strip_accents")
    if step.get("clean_text", True):
        text = "".join(
            " " if one.isspace() else one
            for one in text
            if one in _BLANKS or (one != "\ufffd" and unicodedata.category(one)[0] != "C")
        )
    if step.get("handle_chinese_chars", True):
        text = "".join(f" {one} " if _is_chinese(one) else one for one in text)
    if lowers if strips is None else strips:
        apart = unicodedata.normalize("NFD", text)
        text = "".join(one for one in apart if unicodedata.category(one) != "Mn")
    return text.lower() if lowers else text


def bert_words(text: str) -> Iterator[str]:
    """Yield what is between blanks, each mark of punctuation apart."""
    for word in text.split():
        yield from cut(_PUNCTUATION, word)


def pieces(word: str, model: Mapping[str, Json], vocab: Mapping[str, Json]) -> Iterator[int]:
    """Yield the numbers of the longest pieces of a word, or that of the unknown.

    Raises:
        NotEncodedError: nothing is said of what is unknown.
    """
    unknown = vocab.get(str(model.get("unk_token")))
    if not isinstance(unknown, int):
        raise NotEncodedError
    longest = model.get("max_input_chars_per_word", _LONGEST)
    inner = str(model.get("continuing_subword_prefix", "##"))
    found: list[int] = []
    at = 0
    while at < len(word):
        prefix = inner if at else ""
        ends = range(len(word), at, -1)
        known = ((end, vocab.get(prefix + word[at:end])) for end in ends)
        end, number = next(((end, one) for end, one in known if isinstance(one, int)), (0, 0))
        if not end or not isinstance(longest, int) or len(word) > longest:
            yield unknown
            return
        found.append(number)
        at = end
    yield from found


def _is_chinese(one: str) -> bool:
    return any(first <= ord(one) <= last for first, last in _CHINESE)
