"""A model within a size: what each type would cost and lose, and the best choice of types."""
