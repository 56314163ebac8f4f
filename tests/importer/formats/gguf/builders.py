"""GGUF files written by hand: any counts, types, offsets and byte order."""

from __future__ import annotations

import struct

from importer.codecs.ggml.types import NAMED

TYPES = {
    "u8": (0, "B"),
    "i8": (1, "b"),
    "u16": (2, "H"),
    "i16": (3, "h"),
    "u32": (4, "I"),
    "i32": (5, "i"),
    "f32": (6, "f"),
    "bool": (7, "B"),
    "u64": (10, "Q"),
    "i64": (11, "q"),
    "f64": (12, "d"),
}


class Writer:
    """Writes numbers in one byte order."""

    def __init__(self, order="<"):
        self.order = order

    def number(self, code, value):
        return struct.pack(self.order + code, value)

    def string(self, value, length=None):
        data = value.encode() if isinstance(value, str) else value
        return self.number("Q", len(data) if length is None else length) + data

    def value(self, kind, value):
        """The type and the bytes of a value; `kind` of an array is a tuple."""
        if isinstance(kind, tuple):
            return self.number("I", 9) + self.elements(kind[1], value)
        if kind == "string":
            return self.number("I", 8) + self.string(value)
        number, code = TYPES[kind]
        return self.number("I", number) + self.number(code, value)

    def elements(self, kind, values, count=None):
        """What follows the type of an array: the type of its elements, and these."""
        number = 9 if isinstance(kind, tuple) else 8 if kind == "string" else TYPES[kind][0]
        made = b"".join(self.value(kind, value)[4:] for value in values)
        if kind != "string" and not isinstance(kind, tuple):
            made = b"".join(self.number(TYPES[kind][1], value) for value in values)
        return (
            self.number("I", number)
            + self.number("Q", len(values) if count is None else count)
            + made
        )

    def key(self, key, kind, value):
        return self.string(key) + self.value(kind, value)

    def info(self, name, kind, shape, offset):
        """A tensor's entry; `shape` as numpy has it, `kind` a name or a number."""
        sides = b"".join(self.number("Q", side) for side in reversed(shape))
        number = NAMED[kind].number if isinstance(kind, str) else kind
        return (
            self.string(name)
            + self.number("I", len(shape))
            + sides
            + self.number("I", number)
            + self.number("Q", offset)
        )


def nbytes(kind, shape):
    count = 1
    for side in shape:
        count *= side
    return count // NAMED[kind].elements * NAMED[kind].nbytes


def gguf(  # noqa: PLR0913
    tensors=(),
    keys=(),
    *,
    order="<",
    version=3,
    alignment=32,
    counts=None,
    data=None,
):
    """A file: `tensors` are (name, type, shape), `keys` are (key, type, value).

    Data is what `data` has by name, else bytes that count.
    """
    writer = Writer(order)
    infos, blob = b"", b""
    for name, kind, shape in tensors:
        infos += writer.info(name, kind, shape, len(blob))
        size = nbytes(kind, shape)
        own = (data or {}).get(name) or bytes(n % 251 for n in range(size))
        blob += own + bytes(-len(own) % alignment)
    if alignment != 32:
        keys = [*keys, ("general.alignment", "u32", alignment)]
    texts = b"".join(writer.key(*key) for key in keys)
    head = headed(infos, texts, counts or (len(tensors), len(keys)), order, version)
    return head + bytes(-len(head) % alignment) + blob


def headed(infos, keys, counts, order="<", version=3):
    """Magic, version, counts, and whatever bytes there are for keys and entries."""
    writer = Writer(order)
    return (
        b"GGUF"
        + writer.number("I", version)
        + writer.number("Q", counts[0])
        + writer.number("Q", counts[1])
        + keys
        + infos
    )


GOOD = gguf(
    [("token_embd.weight", "F32", (2, 4)), ("blk.0.ffn_up.weight", "Q4_0", (2, 32))],
    [
        ("general.architecture", "string", "llama"),
        ("llama.block_count", "u32", 1),
        ("tokenizer.ggml.tokens", ("array", "string"), ["a", "bc", "<s>"]),
        ("tokenizer.ggml.scores", ("array", "f32"), [0.0, -1.0, 1.5]),
    ],
)

SEEDS = [
    GOOD,
    gguf(
        [("a", "F16", (3,)), ("b", "Q8_0", (1, 2, 32)), ("c", "I8", ())],
        [
            ("general.name", "string", "grün"),
            ("k", ("array", ("array", "u16")), [[1], []]),
            ("general.file_type", "u32", 7),
            ("ok", "bool", 1),
        ],
        order=">",
        alignment=8,
    ),
]
"""Where a fuzzer starts."""


def _model(architecture, tensors, **numbers):
    keys = [("general.architecture", "string", architecture)]
    keys += [
        (f"{architecture}.{key.replace('__', '.')}", "u32", value)
        for key, value in numbers.items()
    ]
    tokens = ["<s>", "</s>", "a", "b", "ab"]
    keys += [
        ("tokenizer.ggml.model", "string", "llama"),
        ("tokenizer.ggml.tokens", ("array", "string"), tokens),
        ("tokenizer.ggml.scores", ("array", "f32"), [0.0, 0.0, -1.0, -2.0, -0.5]),
        ("tokenizer.ggml.token_type", ("array", "i32"), [3, 3, 1, 1, 1]),
    ]
    return gguf(tensors, keys)


_HEADS = {"attention__head_count": 2, "attention__head_count_kv": 1, "block_count": 1}
APART = [
    _model(
        "llama",
        [
            ("blk.0.attn_q.weight", "Q8_0", (8, 32)),
            ("blk.0.attn_k.weight", "F16", (4, 32)),
            ("blk.0.ffn_gate_inp.weight", "F32", (2, 32)),
            ("blk.0.ffn_gate_exps.weight", "Q4_0", (2, 4, 32)),
            ("rope_freqs.weight", "F32", (2,)),
        ],
        **_HEADS,
    ),
    _model(
        "deepseek2",
        [
            ("blk.0.attn_k_b.weight", "Q8_0", (2, 4, 32)),
            ("blk.0.attn_v_b.weight", "F32", (2, 3, 4)),
        ],
        **_HEADS,
    ),
    _model(
        "gpt-oss",
        [
            ("blk.0.ffn_gate_exps.weight", "F32", (2, 4, 8)),
            ("blk.0.ffn_up_exps.weight", "F32", (2, 4, 8)),
            ("blk.0.ffn_down_exps.weight", "MXFP4", (2, 4, 32)),
            ("blk.0.ffn_gate_exps.bias", "F32", (2, 4)),
            ("blk.0.ffn_up_exps.bias", "F32", (2, 4)),
        ],
        **_HEADS,
    ),
    _model("falcon", [("blk.0.attn_qkv.weight", "Q8_0", (8, 32))], **_HEADS),
    _model("gpt2", [("blk.0.attn_qkv.weight", "Q8_0", (6, 64))], **_HEADS),
    _model(
        "qwen35",
        [
            ("blk.0.ssm_out.weight", "F32", (4, 16)),
            ("blk.0.attn_qkv.weight", "F32", (24, 4)),
            ("blk.0.attn_gate.weight", "F32", (16, 4)),
            ("blk.0.ssm_a", "F32", (4,)),
            ("blk.0.ssm_conv1d.weight", "F32", (24, 4)),
        ],
        ssm__group_count=2,
        ssm__time_step_rank=4,
        ssm__inner_size=16,
        ssm__state_size=2,
    ),
    _model(
        "qwen2moe",
        [
            ("blk.0.attn_qkv.weight", "Q8_0", (8, 32)),
            ("blk.0.ffn_gate_up_exps.weight", "F16", (2, 4, 8)),
        ],
        **_HEADS,
    ),
    _model(
        "qwen3moe",
        [
            ("blk.0.ffn_up_exps.weight", "NVFP4", (2, 4, 64)),
            ("blk.0.ffn_up_exps.scale", "F32", (2,)),
        ],
        **_HEADS,
    ),
]
"""Models that have to be taken apart with care."""
