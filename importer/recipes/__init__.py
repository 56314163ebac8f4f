"""Which tensor gets which type: recipes, their files and what a user asks for."""
