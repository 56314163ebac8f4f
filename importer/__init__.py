"""From a checkpoint to planned blobs to bytes."""
