"""Reproductions of the tables and figures of four papers.

A paper is a package here: its printed numbers as CSV, and a module for each kind of experiment. `catalogue.py` names
the tables; the rest of this package runs any of them.
"""
