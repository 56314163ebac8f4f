"""PyTorch's checkpoints: a zip archive or a stream, with a pickle that is never run."""
