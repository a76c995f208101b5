"""Tables and studies of papers, run again on the same data and set beside the printed numbers.

A paper is a package here: its printed numbers as CSV, and a module for each kind of experiment. `catalogue.py` names
the tables; the rest of this package runs any of them.
"""
