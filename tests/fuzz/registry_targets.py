"""Targets for what registries answer, and for archives that were carried here."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx2

from importer.formats.tar import BLOCK, END, header_of, padding_of, read_entries
from importer.registry.authorization import challenges
from importer.registry.client import Manner, Registry
from importer.registry.credentials import credentials_for
from importer.registry.download import read_blob
from importer.registry.manifests import artifact_of, get_manifest, model_of
from importer.registry.reference import Reference
from store import limits
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import IngotError
from store.paths import why_unsafe
from store.text import is_printable

HOST = "host.example"
_HEADERS = (
    "Docker-Content-Digest",
    "Location",
    "WWW-Authenticate",
    "Retry-After",
    "Content-Range",
    "Content-Type",
)


def archive(data: bytes) -> None:
    """A tar archive, with checksums that are right: what is accepted stays inside of it."""
    blocks = bytearray(data)
    for at in range(0, len(blocks) - BLOCK + 1, BLOCK):
        if blocks[at + 257 : at + 262] == b"ustar":
            blocks[at + 148 : at + 156] = b" " * 8
            total = sum(blocks[at : at + BLOCK])
            blocks[at + 148 : at + 156] = b"%06o\0 " % total

    def read(offset: int, nbytes: int) -> bytes:
        assert offset >= 0
        assert 0 <= nbytes <= max(len(blocks), BLOCK)
        return bytes(blocks[offset : offset + nbytes])

    found, end = [], 0
    try:
        for entry in read_entries(read, len(blocks), "x"):
            assert end < entry.offset
            end = entry.offset + entry.nbytes
            assert end <= len(blocks)
            found.append(entry.path)
    except IngotError as refused:
        assert is_printable(str(refused))  # noqa: PT017 - no test of pytest
    assert len(set(found)) == len(found)
    assert all(path in {"", "."} or why_unsafe(path) is None for path in found)


def model(data: bytes) -> None:
    """A manifest: what is accepted comes out of an OCI manifest as it went in."""

    def none(ref: BlobRef) -> bytes:
        raise IngotError(str(ref), code="E_NONE")

    try:
        found = model_of(data, "x", none)
    except IngotError as refused:
        assert is_printable(str(refused))  # noqa: PT017 - as above
        return
    assert found.manifest.is_supported
    sizes = dict(found.manifest.blobs)
    assert all(sizes[digest] == size for digest, size in found.manifest.blobs)
    assert model_of(artifact_of(found), "x", lambda _: data).digest == Digest.of(data)


def answers(data: bytes) -> None:
    """Whatever a registry answers, in whatever order: an error of ours, or a model."""
    parts = iter(data.split(b"\0\0"))

    def handler(_: httpx2.Request) -> httpx2.Response:
        part = next(parts, b"")
        kind, rest = part[:1], part[1:]
        header, _, body = rest.partition(b"\n")
        statuses = (200, 206, 401, 403, 404, 429, 500, 302, 307, 204)
        number = kind[0] if kind else 0
        name = _HEADERS[number // 16 % len(_HEADERS)]
        value = header.replace(b"\r", b"").replace(b"\0", b"")
        return httpx2.Response(
            statuses[number % len(statuses)], headers=[(name.encode(), value)], content=body
        )

    reference = Reference(HOST, "me/m", "latest", "https")
    registry = Registry(
        reference, ("repository:me/m:pull",), Manner(insecure=True, seconds=1, tries=1)
    )
    registry._client.close()
    registry._client = httpx2.Client(transport=httpx2.MockTransport(handler))
    registry._authorization.__dict__["credentials"] = None
    try:
        found = get_manifest(registry)
        model_of(found, "x", lambda ref: read_blob(registry, ref, limits.MANIFEST_BYTES))
    except IngotError as refused:
        assert is_printable(str(refused))  # noqa: PT017 - as above
    finally:
        registry.close()


def challenge(data: bytes) -> None:
    """A challenge: read as far as it goes, and always to an end."""
    text = data.decode("latin-1")
    found = list(challenges(text))
    assert len(found) <= len(text)
    assert all(key == key.lower() for one in found for key in one.parameters)


def docker_config(data: bytes) -> None:
    """Docker's configuration: credentials, or an error that does not quote it."""
    text = data.decode("latin-1").replace("\0", "")
    try:
        found = credentials_for(HOST, {"DOCKER_AUTH_CONFIG": text})
    except IngotError as refused:
        assert is_printable(str(refused))  # noqa: PT017 - as above
        return
    if found is not None:
        assert any(found.secrets)
        assert found.basic.startswith("Basic ")


_MODEL = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "digest": "sha256:" + "0" * 64,
            "size": 2,
        },
        "layers": [
            {
                "mediaType": "application/vnd.ollama.image.tensor",
                "digest": "sha256:" + "1" * 64,
                "size": 3,
                "name": "a",
            }
        ],
    }
).encode()
_TAR = b"".join(
    (
        header_of("blobs/", 0, is_directory=True),
        header_of("blobs/a", 5) + b"hello" + bytes(padding_of(5)),
        header_of("b", 0),
        END,
    )
)
SEEDS = {
    "archive": [_TAR, _TAR[:1024], b""],
    "model": [_MODEL, b'{"schemaVersion":2,"manifests":[]}'],
    "answers": [
        b"\0\0" + _MODEL,
        b"\x00" + b"sha256:" + b"0" * 64 + b"\n" + _MODEL,
        b'\x22Bearer realm="https://a/t"\n\0\0\x00x\n{"token":"t"}\0\0\x00x\n' + _MODEL,
        b"\x11/elsewhere\n\0\0\x00x\n{}",
        b"\x35120\n",
    ],
    "challenge": [b'Bearer realm="https://a/t",service="s", Basic realm="x"', b"Basic"],
    "docker_config": [
        b'{"auths":{"host.example":{"auth":"YTpi"}}}',
        b'{"auths":{"https://host.example/v1/":{"identitytoken":"t"}}}',
    ],
}
TARGETS: dict[str, Callable[[bytes], None]] = {
    "archive": archive,
    "model": model,
    "answers": answers,
    "challenge": challenge,
    "docker_config": docker_config,
}
