"""Source formats: where the tensors of a checkpoint are."""
