"""Proofs of the quality of a run: regret, tracking regret and duality gap."""
