"""What is recorded of a stored model, and what is read back from it."""
