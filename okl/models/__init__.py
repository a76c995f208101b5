"""Saved models: file format, inputs, registry and export."""
