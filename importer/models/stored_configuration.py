"""The configuration of a stored model, read only if its digest is the manifest's."""

from __future__ import annotations

from store import Digest, Layer, Store, limits
from store.errors import IntegrityError
from store.json import Json, JsonError, loads


def read_configuration(store: Store, layer: Layer) -> dict[str, Json]:
    """Read the configuration of a model, one of ours or of another program.

    Args:
        store: that has the model.
        layer: of the configuration in its manifest.

    Raises:
        IntegrityError: it is missing, damaged, or not a JSON object.
        OSError: it cannot be read.
    """
    data = store.blobs.read(layer.ref, limits.CONFIG_BYTES)
    if Digest.of(data) != layer.digest:
        raise IntegrityError(
            f"blob {layer.digest}, the configuration, is damaged", code="E_BLOB_DIGEST"
        )
    try:
        value = loads(data, floats=True)
    except JsonError as error:
        message = f"blob {layer.digest}, the configuration, is not JSON: {error}"
        raise IntegrityError(message, code="E_JSON") from error
    if not isinstance(value, dict):
        message = f"blob {layer.digest}, the configuration, is not a JSON object"
        raise IntegrityError(message, code="E_JSON")
    return value
