"""UQFF, the format of mistral.rs: names of shards, versions, and the layers of its files."""
