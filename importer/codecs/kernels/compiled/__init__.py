"""What numba compiles: functions over arrays, which allocate nothing and cannot fail."""
