"""Digests of the results of every solver, which show whether a code change changed a number."""
