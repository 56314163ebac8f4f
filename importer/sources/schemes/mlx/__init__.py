"""MLX's triplets, and what config.json says of them."""
