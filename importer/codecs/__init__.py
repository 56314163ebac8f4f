"""Codecs: how values are stored and converted, their specification in numpy, and kernels."""
