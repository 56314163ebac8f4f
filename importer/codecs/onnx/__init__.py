"""ONNX's quantized weights."""
