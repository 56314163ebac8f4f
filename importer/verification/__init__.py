"""Compare a stored model with its source, and rebuild what is damaged."""
