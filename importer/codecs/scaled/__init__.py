"""Codes in blocks that share scales: FP8, NVFP4 and packed integers."""
