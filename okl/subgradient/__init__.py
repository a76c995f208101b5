"""Kernel machines with piecewise linear losses, by conjugate subgradients and cuts, on samples that grow."""
