"""FP8 weights with scales."""
