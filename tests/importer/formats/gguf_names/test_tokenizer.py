"""Tokenizers that Hugging Face's library trained, through a GGUF's vocabulary and back."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from importer.formats.gguf_names.facts import Facts
from importer.formats.gguf_names.tokenizer import tokenizer_config, tokenizer_json
from importer.formats.gguf_names.tokenizer_kinds import _pre_tokenizers
from importer.formats.gguf_names.vocabulary import Kind, Vocabulary

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "  two  spaces, a\ttab\nand\r\nlines\n\n",
    "It's 12345 o'clock; we'LL see",
    "Grüße aus Köln, naïve café",
    "日本語のテキスト and emoji 🦙🦙",
    "def f(x):\n    return x ** 2  # code",
    "",
    " ",
]
CORPUS = [*TEXTS * 4, *(f"word{n} number {n * 37}" for n in range(60))]
texts = st.text(st.characters(codec="utf-8"), max_size=40)
some = settings(max_examples=max(10, settings.default.max_examples // 2), deadline=None)


def facts(model, **values):
    found = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
    return Facts("`x.gguf`", {"tokenizer.ggml.model": model, **found})


def vocabulary(tokens, kinds=(), scores=(), merges=(), charsmap=b""):
    return Vocabulary(tuple(tokens), tuple(kinds), tuple(scores), lambda: merges, charsmap)


def loaded(told, words):
    text = tokenizer_json(told, words)
    assert not isinstance(text, str), text
    return Tokenizer.from_str("".join(text))


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)
    words = tokenizer.get_vocab()
    return sorted(words, key=words.get), json.loads(tokenizer.to_str())["model"]


SPECIAL = ["<s>", "</s>"]


def byte_level(pre):
    """A trained BPE of bytes that cuts text as models with this `pre` do."""
    _, table = _pre_tokenizers()[pre]
    tokenizer = Tokenizer(models.BPE())
    if "normalizer" in table:
        tokenizer.normalizer = normalizers.NFC()
    cut = [pre_tokenizers.Split(Regex(one), "isolated") for one in table.get("patterns", ())]
    if table.get("digits"):
        cut.append(pre_tokenizers.Digits(individual_digits=True))
    is_gpt2 = table.get("is_gpt2", False)
    cut.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=is_gpt2))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cut)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    return tokenizer, *trained(tokenizer, trainer)


PRE = ["gpt-2", "llama-bpe", "qwen2", "starcoder", "gpt-4o", "default"]


@pytest.fixture(scope="module", params=PRE)
def pair(request):
    first, tokens, model = byte_level(request.param)
    kinds = [Kind.CONTROL] * 2 + [Kind.NORMAL] * (len(tokens) - 2)
    merges = [" ".join(one) for one in model["merges"]]
    told = facts("gpt2", pre=request.param, add_bos_token=False)
    return first, loaded(told, vocabulary(tokens, kinds, merges=merges))


def test_a_bpe_of_bytes_gives_the_same_tokens(pair):
    first, second = pair
    for text in TEXTS:
        assert second.encode(text).ids == first.encode(text).ids
        assert second.decode(second.encode(text).ids) == first.decode(first.encode(text).ids)


@some
@given(texts)
def test_a_bpe_of_bytes_gives_the_same_tokens_for_any_text(pair, text):
    first, second = pair
    assert second.encode(text).ids == first.encode(text).ids


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a1234 b", ["a", "123", "4", " b"]),
        ("it's $5+2", ["it", "'", "s", " ", "$", "5", "+", "2"]),
        ("x  y", ["x", " ", " y"]),
        ("don't  <= 1000", ["don", "'", "t", "  ", "<=", " ", "100", "0"]),
    ],
)
def test_llamas_default_cuts_as_llama_cpp_does(text, words):
    """As 18 282 texts with six vocabularies of llama.cpp gave the same tokens in libllama."""
    made = loaded(facts("gpt2", pre="default"), vocabulary(["a"], merges=()))
    cut = made.pre_tokenizer.pre_tokenize_str(text)
    assert [text[begin:end] for _, (begin, end) in cut] == words


def merged_by_score(text, scores, tokens):
    """SentencePiece's BPE, one merge after the other: the slow form of its definition."""
    pieces = list("\u2581" + text.replace(" ", "\u2581"))
    while True:
        joints = [
            (scores[a + b], -at)
            for at, (a, b) in enumerate(itertools.pairwise(pieces))
            if a + b in scores
        ]
        if not joints:
            return [tokens[piece] for piece in pieces]
        at = -max(joints)[1]
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


def test_sentencepieces_bpe_merges_the_best_score_first():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    learned, _ = trained(tokenizer, trainer)
    letters = [one for one in learned if len(one) == 1]
    words = [one for one in learned if len(one) > 1]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256)), *letters, *words]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (len(letters) + len(words))]
    scores = [0.0] * (259 + len(letters)) + [-float(n) for n in range(len(words))]
    told = facts("llama", bos_token_id=1, eos_token_id=2, unknown_token_id=0)
    made = loaded(told, vocabulary(tokens, kinds, scores))
    numbers = {token: number for number, token in enumerate(tokens)}
    best = {token: scores[numbers[token]] for token in words}
    for text in CORPUS:
        if text.strip() and all(letter in numbers or letter == " " for letter in text):
            want = merged_by_score(text, best, numbers)
            assert made.encode(text, add_special_tokens=False).ids == want, text
            assert made.encode(text).ids == [1, *want]
            assert made.decode(want) == text
    assert made.encode("\x07", add_special_tokens=False).ids[-1] == numbers["<0x07>"]


@pytest.mark.parametrize("cased", [True, False])
def test_word_pieces_are_marked_the_other_way(cased):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=300, special_tokens=special, show_progress=False
    )
    tokens, _ = trained(tokenizer, trainer)
    kinds = [Kind.CONTROL] * 5 + [Kind.NORMAL] * (len(tokens) - 5)
    phantom = [
        token if kind == Kind.CONTROL else f"\u2581{token}".replace("\u2581##", "")
        for token, kind in zip(tokens, kinds, strict=True)
    ]
    told = facts("bert", unknown_token_id=1, seperator_token_id=3, padding_token_id=0)
    made = loaded(told, vocabulary(phantom, kinds))
    for text in TEXTS:
        want = tokenizer.encode(text).ids
        assert made.encode(text, add_special_tokens=False).ids == want
        assert made.encode(text).ids == [2, *want, 3]
    pair = made.encode("fox", "dog")
    assert pair.tokens.count("[CLS]") == 1
    assert pair.type_ids[-1] == 1


def test_a_unigram_keeps_its_scores():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    words = json.loads(tokenizer.to_str())["model"]["vocab"]
    kinds = [3, 3, 2, *[1] * (len(words) - 3)]
    told = facts("t5", unknown_token_id=2, eos_token_id=1, remove_extra_whitespaces=False)
    made = loaded(told, vocabulary([w for w, _ in words], kinds, [s for _, s in words]))
    for text in TEXTS:
        want = tokenizer.encode(text).ids
        assert made.encode(text, add_special_tokens=False).ids == want
        assert made.encode(text).ids == [*want, 1]


@pytest.mark.parametrize(
    ("told", "words", "why"),
    [
        (facts("gpt2"), vocabulary(["a"]), "nothing tells"),
        (facts("gpt2", pre="of tomorrow"), vocabulary(["a"]), "`of tomorrow`"),
        (facts("rwkv"), vocabulary(["a"]), "`rwkv`"),
        (facts("llama"), vocabulary(["a"]), "no scores"),
        (facts("t5"), vocabulary(["a"]), "no scores"),
        (facts("gpt2", pre="gpt-2"), vocabulary([]), "no vocabulary"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_has_no_form_is_said(told, words, why):
    found = tokenizer_json(told, words)
    assert isinstance(found, str)
    assert why in found


def test_the_configuration_has_roles_and_templates():
    told = facts("gpt2", pre="gpt-2", bos_token_id=0, eos_token_id=7, add_bos_token=True)
    told.values["tokenizer.chat_template"] = "{{ x }}"
    told.values["tokenizer.chat_templates"] = ["tool_use", 3]
    told.values["tokenizer.chat_template.tool_use"] = "{{ y }}"
    config = tokenizer_config(told, vocabulary(["<s>", "b"]))
    assert config["bos_token"] == "<s>"
    assert "eos_token" not in config  # there is no token 7
    assert config["add_bos_token"] is True
    assert config["chat_template"] == [
        {"name": "default", "template": "{{ x }}"},
        {"name": "tool_use", "template": "{{ y }}"},
    ]


def test_the_text_is_the_same_every_time():
    first, tokens, model = byte_level("qwen2")
    del first
    words = vocabulary(tokens, merges=[" ".join(one) for one in model["merges"]])
    told = facts("gpt2", pre="qwen2")
    assert list(tokenizer_json(told, words)) == list(tokenizer_json(told, words))
