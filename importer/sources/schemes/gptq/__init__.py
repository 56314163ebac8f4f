"""GPTQ and AWQ: from arrays and config.json to tensors."""
