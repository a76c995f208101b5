"""Unattended retraining: contract, training, decision and publication."""
