"""Weights that somebody has quantized already, by the way in which they are stored."""
