"""Kernel least squares on landmarks: sums over all rows in one round, then an exact solution."""
