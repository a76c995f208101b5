"""Kernel machines with piecewise linear losses, solved by stochastic conjugate subgradients."""
