"""Prefect flows and the command okl; thin."""
