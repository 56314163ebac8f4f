"""GGML's blocks."""
