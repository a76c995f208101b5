"""The numbers that a paper prints, from CSV files that come with this package."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Printed:
    """A cell of a table as printed; mean and sd as fractions or in the unit of the metric, None where not printed."""

    dataset: str
    algorithm: str
    metric: str
    mean: float
    sd: float | None


@cache
def read_records(package: str, file: str) -> tuple[dict[str, str], ...]:
    """Lines of a CSV file of a package, each by the names in the header."""
    with (resources.files(package) / file).open("r", encoding="utf-8") as stream:
        return tuple(csv.DictReader(stream))


def read_printed(package: str, file: str) -> tuple[Printed, ...]:
    """Cells of a file with the columns dataset, algorithm, metric, mean and std; those without a mean are left out."""
    return tuple(
        Printed(
            record["dataset"],
            record["algorithm"],
            record["metric"],
            float(record["mean"]),
            float(record["std"]) if record["std"] else None,
        )
        for record in read_records(package, file)
        if record["mean"]
    )
