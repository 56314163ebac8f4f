"""Importance matrices, of llama-imatrix: how much each column of a weight counts."""
