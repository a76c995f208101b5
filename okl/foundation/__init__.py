"""Errors, types, validation, settings, plugins, telemetry and storage: nothing here depends on machine learning."""
