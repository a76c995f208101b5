"""The methods of online convex optimisation with long-term constraints, one file each."""
