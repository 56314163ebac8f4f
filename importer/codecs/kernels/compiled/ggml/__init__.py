"""GGML's blocks: `reference/ggml`, for blocks whose scales are finite."""
