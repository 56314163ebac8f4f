"""ONNX models: their protobuf is read by a reader of our own, and of the graph the weights."""
