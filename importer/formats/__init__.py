"""Parsers of foreign file formats: bytes in, facts out; they know nothing of sources."""
