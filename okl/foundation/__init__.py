"""Errors, types, validation, settings, plugins, telemetry and storage: nothing here knows machine learning."""
