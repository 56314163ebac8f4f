"""bitsandbytes: from arrays and quantization states to tensors."""
