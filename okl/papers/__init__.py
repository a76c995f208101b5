"""Reproductions of the tables and figures of four papers.

`base` defines tables as data: cases with printed numbers, and the experiment that runs them. Each paper is a module or
package with its printed numbers as CSV; `run` runs any table and `report` compares it with the paper.
"""
