"""What Hugging Face calls what a GGUF file holds: tensors, configuration, tokenizer. No I/O."""
