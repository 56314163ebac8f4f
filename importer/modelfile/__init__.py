"""Modelfiles: their grammar, what they ask for, and the layers that they become."""
