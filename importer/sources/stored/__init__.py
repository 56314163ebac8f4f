"""A stored model as a source: its tensors, and the record of how it was made."""
