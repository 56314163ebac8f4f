"""Lists of models: what a store should hold, and what it was made of."""
