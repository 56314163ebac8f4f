"""Registries of the OCI distribution protocol: pushing models, pulling them, and layouts."""
