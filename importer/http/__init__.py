"""What the Hub and registries have in common: answers that come in pieces, and waiting."""
