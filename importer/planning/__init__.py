"""Every decision of an import, made before the first weight is read."""
