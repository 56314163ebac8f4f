"""ModelOpt: from arrays and its configuration to tensors."""
