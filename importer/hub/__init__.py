"""The Hugging Face Hub: what a repository has, and fetching it into the shared cache."""
