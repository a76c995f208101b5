"""Metrics that merge over blocks, shards and workers."""
