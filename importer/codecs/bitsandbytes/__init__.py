"""bitsandbytes' weights."""
