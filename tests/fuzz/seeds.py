"""Inputs that a fuzzer starts from: one or more well-formed ones for each target."""

from __future__ import annotations

import struct

from store.tensorfile import encode_header

_ENTRIES = [
    ("a.weight", "BF16", (2, 3), 12),
    ("b", "F32", (), 4),
    ("c", "F4", (4,), 2),
    ("empty", "U8", (0, 7), 0),
]
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

SEEDS: dict[str, list[bytes]] = {
    "header": [_HEADER + bytes(18), struct.pack("<Q", 2) + b"{}"],
    "header_json": [_HEADER[8:], b'{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'],
    "manifest": [_MANIFEST.encode()],
    "index": [
        b'{"metadata":{"total_size":1.5e9},"weight_map":{"a":"model-00001-of-00002.safetensors"}}'
    ],
    "config": [b'{"architectures":["X"],"hidden_size":64,"eps":1e-6,"inf":Infinity}'],
    "strict_json": [b'{"a":[1,-2,"\\u00e9<>&",null,true,{}]}'],
    "name": [b"registry.ollama.ai/library/llama3:8b", b"host:5000/ns/m", b"con", b"a/b/c/d"],
    "text": ["plain, gr\u00fc\u00df, \u202e, \x1b]0;x\x07".encode()],
}
