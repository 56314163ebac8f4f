"""The layer that a manifest has for each blob of a plan."""

from __future__ import annotations

from importer.planning.plan import FilePlan, Job
from store import BlobRef, Layer, MediaType


def layer_of(job: Job, ref: BlobRef) -> Layer:
    """Return the layer that a manifest has for the blob of a job."""
    if isinstance(job, FilePlan):
        return Layer(job.media_type, ref.digest, ref.size, job.layer_name)
    if job.is_group:
        return Layer(MediaType.TENSOR, ref.digest, ref.size, job.name)
    (tensor,) = job.tensors
    # The logical dtype: of a quantized tensor the source's.
    dtype = tensor.layer_dtype
    return Layer(MediaType.TENSOR, ref.digest, ref.size, job.name, dtype, tensor.shape)
