"""UQFF: which tensors are layers, what they become, and the files that they are in."""
