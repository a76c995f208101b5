"""Digests of what every solver learns, to tell whether a change of the code changed a number."""
