"""What models compute, by transformers and torch: importance of columns, outputs compared."""
