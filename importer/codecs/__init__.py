"""What becomes of a tensor's values: codecs, their specification in numpy, their kernels."""
