"""llama.cpp's format: one file with weights, vocabulary and what the model is."""
