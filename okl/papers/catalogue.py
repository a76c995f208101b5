"""Tables and figures by name."""

from __future__ import annotations

from importlib import import_module

from okl.foundation.validation import check_choice
from okl.papers.base import PaperTable

CATALOGUE = {
    "lu2016-table3": ("okl.papers.lu2016.batch", "TABLE3"),
    "lu2016-table5": ("okl.papers.lu2016.online", "TABLE5"),
    "lu2016-table7": ("okl.papers.lu2016.online", "TABLE7"),
    "lu2016-table9": ("okl.papers.lu2016.online", "TABLE9"),
    "lu2016-figure3": ("okl.papers.lu2016.studies", "FIGURE3"),
    "lu2016-figure4": ("okl.papers.lu2016.studies", "FIGURE4"),
    "ito2017-table2": ("okl.papers.ito2017.synthetic", "TABLE2"),
    "ito2017-table3": ("okl.papers.ito2017.synthetic", "TABLE3"),
    "ito2017-table4": ("okl.papers.ito2017.benchmarks", "TABLE4"),
    "ito2017-table5": ("okl.papers.ito2017.benchmarks", "TABLE5"),
    "ito2017-table6": ("okl.papers.ito2017.synthetic", "TABLE6"),
    "ito2017-table7": ("okl.papers.ito2017.synthetic", "TABLE7"),
    "ito2017-table8": ("okl.papers.ito2017.benchmarks", "TABLE8"),
    "ito2017-table9": ("okl.papers.ito2017.synthetic", "TABLE9"),
    "ito2017-table10": ("okl.papers.ito2017.benchmarks", "TABLE10"),
    "ito2017-table11": ("okl.papers.ito2017.ability", "TABLE11"),
    "ito2017-figure11": ("okl.papers.ito2017.synthetic", "FIGURE11"),
    "ito2017-figure12": ("okl.papers.ito2017.synthetic", "FIGURE12"),
    "zhang2024-table1": ("okl.papers.zhang2024.table", "TABLE1"),
    "zhang2024-figure1": ("okl.papers.zhang2024.table", "FIGURE1"),
    "zhang2024-figure2": ("okl.papers.zhang2024.table", "FIGURE2"),
    "yi2021-olp": ("okl.papers.yi2021", "OLP"),
    "yi2021-oqp": ("okl.papers.yi2021", "OQP"),
}


def table_named(name: str) -> PaperTable:
    """The table of this name, or ConfigError that lists all names."""
    check_choice("table", name, CATALOGUE)
    module, constant = CATALOGUE[name]
    table: PaperTable = getattr(import_module(module), constant)
    return table
