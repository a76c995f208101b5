"""Parquet in, files out: data sets, models, reports."""
