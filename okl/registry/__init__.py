"""Versions of models in files: what each learnt from, and which of them is the champion; no server, any fsspec URL."""
