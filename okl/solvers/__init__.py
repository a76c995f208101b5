"""Solvers: online, accelerated, subgradient, least squares and online convex optimisation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["oco"])  # `okl.oco` is this package
