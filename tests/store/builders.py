"""Small real values: blobs, layers, models."""

from __future__ import annotations

import contextlib
from pathlib import Path

from store.blob_writer import BlobWriter
from store.blobs import BlobRef
from store.digest import Digest
from store.manifest import CONFIG_MEDIA_TYPE, Layer, Manifest, MediaType
from store.names import ModelName
from store.origins import Origin
from store.tensorfile import encode_header

CONFIG = b'{"model_format":"safetensors","architecture":"","os":""}'
ORIGIN = Path("/models/m")
TENSORS = {"a.weight": b"aaaaaaaa", "b.weight": b"b" * 24}
OTHER = TENSORS | {"a.weight": b"AAAAAAAA", "c.weight": b"cc"}


def name(text="m"):
    return ModelName.parse(text)


def digest_of(data):
    return Digest.of(data)


def ref_of(data):
    return BlobRef(Digest.of(data), len(data))


def tensor_blob(tensor, data, dtype="U8"):
    return encode_header([(tensor, dtype, (len(data),), len(data))]) + data


def tensor_layer(tensor, data):
    ref = ref_of(tensor_blob(tensor, data))
    return Layer(MediaType.TENSOR, ref.digest, ref.size, tensor, "U8", (len(data),))


def make_manifest(tensors=TENSORS, config=CONFIG):
    layers = tuple(tensor_layer(tensor, data) for tensor, data in tensors.items())
    return Manifest(Layer(CONFIG_MEDIA_TYPE, *_fields(ref_of(config))), layers)


def write_blobs(writer, tensors=TENSORS, config=CONFIG):
    """Write what `make_manifest` names, each tensor in two chunks, the end before the rest."""
    for tensor, data in tensors.items():
        content = tensor_blob(tensor, data)
        path = writer.open()
        with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
            blob.reserve(len(content))
            blob.place(content[-8:], len(content) - 8)
            blob.write(memoryview(content)[:-8])
            blob.hash_placed(8, memoryview(bytearray(5)))
            ref = blob.finish()
        writer.commit(path, ref)
    writer.put(config)


def half_a_blob(writer):
    """Begin a blob that nobody finishes; return where."""
    path = writer.open()
    with contextlib.closing(BlobWriter(writer.fs, path)) as blob:
        blob.write(b"half of it")
    return path


def create(store, model="m", tensors=TENSORS, config=CONFIG, origin=ORIGIN):
    """Do what `ingot create` does with a store; give the manifest."""
    manifest = make_manifest(tensors, config)
    with store.writing(name(model)) as writer:
        write_blobs(writer, tensors, config)
        noted = None if origin is None else Origin(origin, config)
        writer.publish(name(model), manifest, noted)
    return manifest


def _fields(ref):
    return ref.digest, ref.size
