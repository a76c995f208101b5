"""Runs: train, predict, evaluate, compare, explain and plan."""
