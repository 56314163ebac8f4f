"""GGML's blocks, compiled: `reference/ggml`, for blocks whose scales are finite."""
