"""Cutting planes over the sampled rows of shards: rounds of short messages, scores beside the rows."""
