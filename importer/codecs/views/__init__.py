"""Values in another order, or in part, of what another decoder reads."""
