"""Retraining that nobody has to watch: new shards are held to a contract, learnt, judged, and published if better."""
