"""Inputs that a fuzzer starts from: well-formed ones for each target, and near misses."""

from __future__ import annotations

import contextlib
import sqlite3
import struct

from store.fs import FileSystem
from store.memo import Memo
from store.tensorfile import encode_header
from tests.fuzz import export_targets, registry_targets, scaled_targets, uqff_targets
from tests.fuzz.scratch import SCRATCH
from tests.fuzz.store_targets import DIGEST, IDENTITY, PATH
from tests.importer.formats.gguf import builders as gguf_builders
from tests.importer.formats.imatrix import builders as imatrix_builders
from tests.importer.formats.onnx import builders as onnx_builders
from tests.importer.formats.pytorch.builders import (
    GOOD,
    OLD,
    checkpoint,
    mapping,
    pickled,
    stream,
)

_ENTRIES = [
    ("a.weight", "BF16", (2, 3), 12),
    ("b", "F32", (), 4),
    ("c", "F4", (4,), 2),
    ("empty", "U8", (0, 7), 0),
]


def _encoded(entries: list[tuple[str, str, tuple[int, ...], int]]) -> bytes:
    return encode_header(entries, {"format": "pt"})


def _memo() -> bytes:
    """A memo that knows everything it is asked for, in pages of the smallest size."""
    path = SCRATCH / "seed.sqlite"
    path.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA page_size = 512")
        database.execute("VACUUM")
    memo = Memo(path)
    memo.seed(create=True)
    memo.note(DIGEST, FileSystem().status(SCRATCH))
    memo.note_product(b"key", b"form", DIGEST, 7)
    memo.look_at(PATH, IDENTITY, 10**18)
    memo.note_piece(PATH, 0, 3, b"f" * 16)
    memo.close()
    return path.read_bytes()


_HEADER = encode_header(_ENTRIES, {"format": "pt"})
_DIGEST = "sha256:" + "0123456789abcdef" * 4
_LAYER = (
    f'{{"mediaType":"application/vnd.ollama.image.tensor","digest":"{_DIGEST}","size":7,'
    '"name":"a","dtype":"BF16","shape":[2,3],"new":[1,{"x":null}]}'
)
_MANIFEST = (
    '{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",'
    f'"config":{_LAYER},"layers":[{_LAYER},{_LAYER}],"other":{{"k":true}}}}'
)

_RECIPE = b"""name = "mine"
group_size = 64
misaligned = "adjust"
experts = "stacked"
nonfinite = "allow"

[[rule]]
match = ["*.v_proj", "lm_head"]
type = "int8/32"
reason = "g\xc3\xbcnstig"
ndim = [2]
dtype = ["BF16", "F32"]
min_elements = 1024
layers = "0-3,28-31"
fits = true
optional = true
when = { architecture = "Llama*", kind = ["*"], type = "int*" }

[[rule]]
match = "*"
type = "requested"
"""
_RECORDED = (
    '{"name":"mine","type":"int4","misaligned":"error","experts":"stacked","rule":[{"match":'
    '["*.v_proj"],"reason":"as asked","type":"int4/64","ndim":[2],"dtype":["F32"],'
    '"min_elements":9,"layers":"more-bits","fits":true,"optional":true},'
    '{"match":["*"],"reason":"rest","type":"keep"}]}'
)
_MEASURES = (
    '"elements":64,"source":1.5,"decoded":1.25,"product":1.3,"error":0.01,"largest":0.2,'
    '"clipped":1,"zeroed":2'
)
_RECORD = (
    '{"model_format":"safetensors","model_family":"llama","context_length":4096,'
    '"capabilities":["completion"],"ingot":{"architecture":"LlamaForCausalLM",'
    '"hub":{"repository":"org/model","commit":"0123456789012345678901234567890123456789"},'
    f'"variant":"fp16","prequantized":"awq","recipe":{_RECORDED}}}}}'
)
_CHECKPOINT = _encoded(
    [
        ("model.embed_tokens.weight", "BF16", (4, 64), 512),
        ("model.layers.0.mlp.experts.0.up_proj.weight", "F32", (2, 64), 512),
        ("model.layers.0.mlp.experts.1.up_proj.weight", "F32", (2, 64), 512),
        ("model.layers.0.self_attn.q_proj.weight", "F16", (32, 64), 4096),
        ("model.norm.weight", "F32", (64,), 256),
    ]
)
_CONFIG = (
    b'{"architectures":["LlamaForCausalLM"],"model_type":"llama","num_hidden_layers":1,'
    b'"hidden_size":64,"max_position_embeddings":128,"torch_dtype":"bfloat16",'
    b'"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}}'
)

_FP8 = _encoded(
    [
        ("a.weight", "F8_E4M3", (8, 32), 256),
        ("a.weight_scale_inv", "F32", (1, 1), 4),
        ("b_blocks", "U8", (2, 2, 1, 16), 64),
        ("b_scales", "U8", (2, 2, 1), 4),
    ]
)
_COMPRESSED = _encoded(
    [
        ("a.weight_shape", "I64", (2,), 16),
        ("a.weight_packed", "I32", (4, 8), 128),
        ("a.weight_scale", "BF16", (4, 2), 16),
        ("a.weight_zero_point", "I32", (1, 2), 8),
        ("b.weight_packed", "U8", (4, 16), 64),
        ("b.weight_scale", "F8_E4M3", (4, 2), 8),
        ("b.weight_global_scale", "F32", (1,), 4),
    ]
)
_COMPRESSED_CONFIG = (
    b'{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized",'
    b'"ignore":["lm_head"],"config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,'
    b'"type":"int","strategy":"group","group_size":32,"symmetric":false}},"h":{"targets":["b"],'
    b'"weights":{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}}}'
)
_MODELOPT = _encoded(
    [
        ("a.weight", "U8", (4, 16), 64),
        ("a.weight_scale", "F8_E4M3", (4, 2), 8),
        ("a.weight_scale_2", "F32", (), 4),
        ("b.weight", "U8", (2, 32), 64),
        ("b.weight_scale", "F32", (4, 1), 16),
        ("b.pre_quant_scale", "BF16", (32,), 64),
    ]
)
_MODELOPT_CONFIG = (
    b'{"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION",'
    b'"quantized_layers":{"a":{"quant_algo":"NVFP4","group_size":16},'
    b'"b":{"quant_algo":"W4A16_AWQ","group_size":32}},"ignore":["lm_head*"]}}'
)
_GPTQ = b'{"quant_method":"gptq","bits":4,"group_size":32,"dynamic":{"-:a":{}}}'
_AWQ = b'{"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"}'

SEEDS: dict[str, list[bytes]] = {
    "header": [_HEADER + bytes(18), _HEADER + bytes(19), struct.pack("<Q", 2) + b"{}"],
    "header_json": [_HEADER[8:], b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'],
    "manifest": [_MANIFEST.encode()],
    "index": [
        b'{"metadata":{"total_size":1.5e9},"weight_map":{"a":"model-00001-of-00002.safetensors"}}'
    ],
    "config": [b'{"architectures":["X"],"hidden_size":64,"eps":1e-6,"inf":Infinity}'],
    "pytorch": [checkpoint(GOOD), stream(OLD)],
    "pytorch_pickle": [pickled(GOOD), pickled(mapping(model=GOOD, x=b"]N\x88e"))],
    "gguf": gguf_builders.SEEDS,
    "gguf-apart": gguf_builders.APART,
    "imatrix": imatrix_builders.SEEDS,
    "scaled": scaled_targets.SEEDS,
    **uqff_targets.SEEDS,
    **registry_targets.SEEDS,
    **export_targets.SEEDS,
    "onnx": onnx_builders.SEEDS,
    "onnx_tensor": onnx_builders.TENSOR_SEEDS,
    "modelfile": [
        b'FROM .\nTEMPLATE """{{ if .A }}{{ .B }}{{ end }}"""\nPARAMETER stop "x"\n',
        b"FROM .\nPARAMETER top_p 0x1p-3\nMESSAGE user hi\nREQUIRES v0.19.0\n# c\n",
        "\ufeffFROM m\r\nSYSTEM é\n".encode("utf-16"),
    ],
    "template": [
        b'{{- range $i, $m := .M }}{{ if eq $m.R "u" }}{{ json $m | len }}{{ end }}{{ end }}',
        b"{{ range .M }}x{{- else }}{{ . }}{{ end -}}{{/* c */}}",
        b'{{ define "t" }}{{ (index .M 0).B }}{{ end }}{{ template "t" . }}{{ 1.5e3 | print }}',
    ],
    "strict_json": [b'{"a":[1,-2,"\\u00e9<>&",null,true,{}]}'],
    "name": [b"registry.ollama.ai/library/llama3:8b", b"host:5000/ns/m", b"con", b"a/b/c/d"],
    "checkpoint": [
        _CHECKPOINT[8:] + b"\0" + _CONFIG,
        _HEADER[8:] + b"\0{}",
        _FP8[8:] + b"\0" + _CONFIG,
        _COMPRESSED[8:] + b"\0" + _COMPRESSED_CONFIG,
        _MODELOPT[8:] + b"\0" + _MODELOPT_CONFIG,
    ],
    "recipe": [_RECIPE, b'rule = [{match = "*", type = "keep"}]'],
    "recipe_document": [_RECORDED.encode(), b'{"rule":[{"match":"*","type":"bf16"}]}'],
    "rule": [b"*.v_proj=int8/64", b"lm_head=keep", b"[a-z]*?=bf16", b"a=b=nvfp4"],
    "type_name": [b"int4/64", b"nvfp4", b" BF16 ", b"none", b"mxfp8/32", b"fp8"],
    "source": [
        b"hf:org/repo@v1.0",
        b"https://huggingface.co/org/repo/tree/main",
        b"hf.co/org/repo",
        b"org/repo",
        b"./directory",
    ],
    "quality": [
        b'{"schema":"ingot.quality/1","tensors":[{"name":"a","type":"int4","shape":[2,32],'
        + _MEASURES.encode()
        + b'},{"name":"b","type":"int8/32","shape":[]}]}'
    ],
    "memo": [_memo(), b"", b"SQLite format 3\0"],
    "origin": [b"/models/m", b"/models/caf\xe9\n", b"oci://ghcr.io/me/llama:int4"],
    "pins": [f"{_DIGEST}\n{_DIGEST}\nsha256:01".encode(), b"team/model:v1"],
    "record": [_RECORD.encode(), b"{}"],
    "quant_state": [
        b'{"quant_type":"nf4","blocksize":64,"dtype":"float16","shape":[8,8]}',
        b'{"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[63],"x":1.5}',
    ],
    "packed_layer": [
        bytes([8, 32, 2, 4, 2, 32, 32, 0, 0, 1]) + _GPTQ,
        bytes([64, 4, 2, 4, 2, 32, 0, 0, 0, 1]) + _AWQ,
        bytes([32, 8, 32, 4, 32, 32, 0, 0, 0, 1]) + b"{}",
    ],
    "pattern": [b"ab.1ab.1ab.1\x05\x06\x06\x04\x05", bytes(range(20)), bytes(range(60))],
    "text": ["plain, gr\u00fc\u00df, \u202e, \x1b]0;x\x07".encode()],
}
