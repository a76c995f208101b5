"""Learners that see a row once."""
