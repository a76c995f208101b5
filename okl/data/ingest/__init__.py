"""Ingest: from source files to a data set."""
