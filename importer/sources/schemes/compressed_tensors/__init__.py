"""compressed-tensors: from arrays and config.json to tensors."""
