"""Data sets: schema, manifest, reading, encoding and ingest."""
