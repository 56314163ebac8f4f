"""Real tokenizers of every kind, trained on a made-up text."""

from __future__ import annotations

import json
import random

import sentencepiece
import tokenizers
import transformers
from tokenizers import decoders, normalizers, pre_tokenizers, processors, trainers

VOCABULARY = 512
LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
TEMPLATE = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"


def write_tokenizer(kind, directory):
    """Train a tokenizer on a made-up text, and save it as a model of that kind has it."""
    text = _text()
    if kind in {"unigram", "fairseq"}:
        _write_unigram(kind, directory, text)
        return
    if kind == "wordpiece":
        _write_words(directory, text)
        return
    if kind.startswith("spm"):
        _write_pieces(kind, directory, text)
        return
    tokenizer = _byte_level(kind, text)
    tokenizer.save(str(directory / "tokenizer.json"))
    told = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": {"content": "<|end_of_text|>", "__type": "AddedToken"},
        "chat_template": TEMPLATE,
    }
    if kind in {"qwen2", "glm"}:
        told |= {"bos_token": None, "eos_token": "<|endoftext|>", "add_bos_token": False}
    (directory / "tokenizer_config.json").write_text(json.dumps(told))


def _byte_level(kind, text):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=kind == "llama3"))
    split = LLAMA3_SPLIT if kind == "llama3" else QWEN2_SPLIT
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tokenizers.Regex(split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 16,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>"])
    tokenizer.add_tokens(["<tool_call>", "<|looks|>"])
    if kind == "glm":
        tokenizer.add_special_tokens(["[gMASK]", "<|user|>", "<|observation|>"])
    if kind == "llama3":
        first = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
        tokenizer.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(
                    single=f"{first[0]} $A",
                    pair=f"{first[0]} $A {first[0]} $B:1",
                    special_tokens=[first],
                ),
            ]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def _write_pieces(kind, directory, text):
    stem = directory / "tokenizer"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_prefix=str(stem),
        model_type="bpe",
        vocab_size=VOCABULARY - 32,
        byte_fallback=True,
        pad_id=-1,
        user_defined_symbols=["<user>"],
        minloglevel=3,
    )
    (directory / "tokenizer.vocab").unlink()
    added = {
        str(VOCABULARY - 32): {"content": "<|assistant|>", "special": True},
        str(VOCABULARY - 31): {"content": "\u2581\u2581", "special": False},
    }
    told = {
        "tokenizer_class": "LlamaTokenizer",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_bos_token": True,
        "add_eos_token": False,
        "chat_template": TEMPLATE,
    }
    if kind == "spm":
        (directory / "tokenizer_config.json").write_text(
            json.dumps(told | {"added_tokens_decoder": added})
        )
        return
    slow = transformers.LlamaTokenizer.from_pretrained(directory)
    slow.save_pretrained(directory)
    (directory / "tokenizer.model").unlink()


def _write_unigram(kind, directory, text):
    """T5's: pieces by likelihood, normalized by a table; XLM-RoBERTa numbers them anew."""
    stem = "spiece" if kind == "unigram" else "sentencepiece.bpe"
    numbers = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    if kind == "fairseq":
        numbers = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_prefix=str(directory / stem),
        model_type="unigram",
        vocab_size=VOCABULARY - 32,
        hard_vocab_limit=False,
        minloglevel=3,
        **numbers,
    )
    (directory / f"{stem}.vocab").unlink()
    told = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    if kind == "fairseq":
        told |= {"bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(told))


def _write_words(directory, text):
    """BERT's: words, and the longest pieces of each."""
    tokenizer = tokenizers.BertWordPieceTokenizer()
    tokenizer.train_from_iterator(text, vocab_size=VOCABULARY, show_progress=False)
    fast = transformers.BertTokenizerFast(tokenizer_object=tokenizer._tokenizer)
    fast.save_pretrained(directory)


def _text():
    """Return lines of made-up words, the same every time."""
    chosen = random.Random(5)
    parts = ["ka", "lo", "mi", "ter", "an", "sho", "é", "ви", "ll", "9", "3", "ing", "re"]
    for _ in range(400):
        words = ("".join(chosen.choices(parts, k=chosen.randint(1, 4))) for _ in range(12))
        yield " ".join(words) + chosen.choice([".", "!", "?", " 'll", "\t-"])
