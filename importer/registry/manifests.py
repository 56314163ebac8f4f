"""Manifests in a registry: a model's own, or one around it that any tool can copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from importer.registry.client import Call, Registry
from importer.registry.errors import beginning, odd_answer
from store import limits
from store.blobs import BlobRef
from store.digest import Digest
from store.errors import InputError, IntegrityError, UnsupportedError
from store.json import Json, JsonError, dumps, loads
from store.manifest import CONFIG_MEDIA_TYPE, MEDIA_TYPE, Manifest
from store.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
MODEL_TYPE: Final = "application/vnd.ingot.model.manifest.v1+json"
"""Of the configuration of an artifact: the manifest of a model, byte for byte."""
_OURS: Final = ("application/vnd.ollama.", "application/vnd.ingot.")


class Model(NamedTuple):
    """A model as another place has it.

    Attributes:
        data: its manifest, byte for byte.
    """

    data: bytes
    manifest: Manifest

    @property
    def digest(self) -> Digest:
        """Of the manifest, which is the model's."""
        return Digest.of(self.data)


def get_manifest(registry: Registry) -> bytes:
    """Fetch what a registry has under a tag, or a digest.

    Raises:
        IngotError: it has nothing, or something else than it says.
    """
    reference = registry.reference

    def get() -> tuple[bytes, str]:
        call = Call("GET", f"manifests/{reference.tag}", f"model `{reference}`", _ACCEPT)
        with registry.ask(call) as response:
            said = response.headers.get("Docker-Content-Digest", "")
            return beginning(response, limits.MANIFEST_BYTES), said

    data, said = registry.retried(get)
    for expected in (said, str(reference.digest or "")):
        if expected.startswith("sha256:") and expected != str(Digest.of(data)):
            what = f"the manifest hashes to {Digest.of(data)}, expected {expected}"
            raise odd_answer(reference.host, what)
    return data


def has_manifest(registry: Registry, digest: Digest) -> bool:
    """Return whether the registry's tag stands for a manifest already."""
    tag = registry.reference.tag

    def look() -> bool:
        what = f"model `{registry.reference}`"
        call = Call("HEAD", f"manifests/{tag}", what, _ACCEPT, admits=frozenset({404}))
        with registry.ask(call) as response:
            said = str(response.headers.get("Docker-Content-Digest", ""))
            return response.status_code == 200 and said == str(digest)  # noqa: PLR2004 - it is there

    return registry.retried(look)


def put_manifest(registry: Registry, model: Model) -> None:
    """Give a model its name in a registry that has all of its blobs.

    Raises:
        IngotError: the registry does not take it.
    """
    reference = registry.reference
    call = Call(
        "PUT",
        f"manifests/{reference.tag}",
        f"the manifest of `{reference}`, which has {len(model.data)} bytes",
        {"Content-Type": model.manifest.media_type, "Content-Length": str(len(model.data))},
        lambda: iter([model.data]),
    )

    def put() -> str:
        with registry.ask(call) as response:
            beginning(response)
            return str(response.headers.get("Docker-Content-Digest", ""))

    said = registry.retried(put)
    if said and said != str(model.digest):
        raise odd_answer(reference.host, f"it took {model.digest} for {said}")


def model_of(data: bytes, where: str, read: Callable[[BlobRef], bytes]) -> Model:
    """Return the model that a manifest describes, or has inside.

    Args:
        data: of the manifest.
        where: it is from, in messages.
        read: reads a small blob that is beside it.

    Raises:
        InputError: it is malformed.
        UnsupportedError: it describes something else than a model of ours or of Ollama.
    """
    document = _document(data, where)
    config = document.get("config")
    if isinstance(config, dict) and config.get("mediaType") == MODEL_TYPE:
        data = read(_parsed(data, where).config.ref)
        document = _document(data, where)
    for key in ("manifests", "fsLayers"):
        if key in document:
            _refuse(where, f"has `{key}`")
    manifest = _parsed(data, where)
    if not manifest.is_supported or manifest.config.media_type not in {"", CONFIG_MEDIA_TYPE}:
        kind = manifest.media_type or f"a manifest of version {manifest.schema_version}"
        _refuse(where, f"is {printable(kind)}")
    if not any(layer.media_type.startswith(_OURS) for layer in manifest.layers):
        _refuse(where, "has no layer of a model")
    sizes: dict[Digest, int] = {}
    for ref in manifest.blobs:
        if sizes.setdefault(ref.digest, ref.size) != ref.size:
            message = f"manifest {where}: {ref.digest} has two sizes"
            raise InputError(message, code="E_REGISTRY_MANIFEST", hint=_BROKEN)
    return Model(data, manifest)


def artifact_of(model: Model) -> bytes:
    """Return an OCI manifest with a model in it, which tools copy that know OCI's alone.

    Its configuration is the model's manifest, and its layers are the model's blobs, each once.
    """
    layers: dict[Digest, dict[str, Json]] = {}
    for layer in (model.manifest.config, *model.manifest.layers):
        layers.setdefault(layer.digest, _descriptor(layer.media_type, layer.ref))
    document: dict[str, Json] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": _descriptor(MODEL_TYPE, BlobRef(model.digest, len(model.data))),
        "layers": list(layers.values()),
    }
    return dumps(document)


def _descriptor(media_type: str, ref: BlobRef) -> dict[str, Json]:
    return {"mediaType": media_type, "digest": str(ref.digest), "size": ref.size}


_ACCEPT: Final = {
    "Accept": f"{MEDIA_TYPE}, {OCI_MANIFEST}, {OCI_INDEX}, "
    "application/vnd.docker.distribution.manifest.list.v2+json"
}
_BROKEN: Final = "Whoever put it there has to put it there again"


def _document(data: bytes, where: str) -> dict[str, Json]:
    if len(data) > limits.MANIFEST_BYTES:
        message = f"manifest {where}: more than {limits.MANIFEST_BYTES} bytes"
        raise InputError(message, code="E_LIMIT")
    try:
        document = loads(data)
    except JsonError as error:
        message = f"manifest {where}: {error}"
        raise InputError(message, code="E_REGISTRY_MANIFEST", hint=_BROKEN) from error
    if not isinstance(document, dict):
        message = f"manifest {where}: is not a JSON object"
        raise InputError(message, code="E_REGISTRY_MANIFEST", hint=_BROKEN)
    return document


def _parsed(data: bytes, where: str) -> Manifest:
    try:
        return Manifest.parse(data, where)
    except IntegrityError as error:
        raise InputError(str(error), code="E_REGISTRY_MANIFEST", hint=_BROKEN) from error


def _refuse(where: str, why: str) -> NoReturn:
    raise UnsupportedError(
        f"{where} is not a model: its manifest {why}, expected {MEDIA_TYPE} with layers of "
        "Ollama or ingot",
        code="E_REGISTRY_KIND",
        hint="A container image, or another program's artifact, is that program's to pull",
    )
