"""What the graph of an ONNX file says of quantized weights."""
