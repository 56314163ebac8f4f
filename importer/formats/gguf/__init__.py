"""GGUF: where the tensors of a file are, and what it says about itself; no weight is read."""
