"""How large a model will be, to the byte, and how many bits it has for a weight."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from importer.codecs.metrics import Deviation
from importer.modelfile.layers import applied, configured, inherited
from importer.models.config import config_bytes
from importer.models.quality import Quality, quality_bytes
from importer.planning.layers import layer_of
from importer.planning.plan import Plan, TensorPlan
from importer.request import ImportRequest
from importer.sources.carried import carried_prefixes
from importer.sources.parameters import is_parameter
from store import BlobRef, Digest, Layer, Manifest, MediaType
from store.manifest import CONFIG_MEDIA_TYPE
from store.tensorfile import elements

_LONGEST: Final = -1.2345678901234567e-100
"""A float64 of as many characters as any that a report has."""


def model_nbytes(plan: Plan, request: ImportRequest) -> int:
    """Return the bytes of all blobs of a model and of its manifest.

    At most: of files with the same content the store has one blob, and numbers in the report
    of quality may be shorter.

    Args:
        plan: of the model.
        request: that it is made for.
    """
    use = inherited(request.use, plan.inventory.words)
    contents = {layer.digest: data for layer, data in plan.inventory.use}
    documents = [configured(config_bytes(plan), use)]
    if request.report and plan.rounds:
        documents.append(quality_bytes(list(_reported(plan))))
    config, *reports = (_unknown(len(document)) for document in documents)
    layers = [
        *(layer_of(job, _unknown(job.nbytes)) for job in plan.jobs),
        *(Layer(MediaType.QUALITY, ref.digest, ref.size) for ref in reports),
        *applied(
            (layer for layer, _ in plan.inventory.use),
            use,
            lambda layer: contents[layer.digest],
            lambda data: Layer("", Digest.of(data), len(data)),
        ),
    ]
    manifest = Manifest(Layer(CONFIG_MEDIA_TYPE, config.digest, config.size), tuple(layers))
    sizes = (layer.size for layer in manifest.layers)
    return config.size + sum(sizes) + len(manifest.to_bytes())


def weight_bits(plan: Plan) -> tuple[int, int]:
    """Return the bits of a model's weights, headers not counted, and how many weights it has.

    Of them `show` prints the quotient.
    """
    weights = list(_weights(plan))
    return sum(8 * one.nbytes for one in weights), sum(elements(one.shape) for one in weights)


def nbytes_for(plan: Plan, bits: Fraction) -> int:
    """Return the bytes that a plan's weights may have with so many bits for each."""
    return int(bits * weight_bits(plan)[1] / 8)


def _weights(plan: Plan) -> Iterator[TensorPlan]:
    carried = carried_prefixes({file.file.path for file in plan.files})
    for tensor in plan.tensors:
        is_one = tensor.quant is not None or is_parameter(
            tensor.name, tensor.dtype, tensor.shape
        )
        if is_one and not (carried and tensor.name.startswith(carried)):
            yield tensor


def _reported(plan: Plan) -> Iterator[Quality]:
    for tensor in plan.tensors:
        if tensor.rounded_to:
            count = elements(tensor.shape)
            sums = Deviation(count, *(_LONGEST,) * 5, count, count)
            yield Quality(tensor.name, tensor.rounded_to, tensor.shape, sums)


def _unknown(nbytes: int) -> BlobRef:
    """Return a blob of some size; every digest is as long as every other."""
    return BlobRef(_SOME, nbytes)


_SOME: Final = Digest.of(b"")
