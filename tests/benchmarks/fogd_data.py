"""Problems for the speed of FOGD: sizes of the specification on real rows, standardised, in a seeded order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from okl.data.execution import Rows
from okl.features.bandwidth import median_distance
from okl.foundation.types import Precision


@dataclass(frozen=True)
class Problem:
    """A two-class data set, the size of the map, and the required speed-up over scikit-learn in float32.

    n_rows : rows learnt; a smaller data set is repeated, each time in another order
    n_inputs : columns taken, from the first
    """

    data: str
    n_inputs: int
    n_frequencies: int
    n_rows: int
    target_speedup: float

    @property
    def name(self) -> str:
        """Return data set and size as text."""
        return f"{self.data} (d={self.n_inputs}, D={self.n_frequencies})"


PROBLEMS = (
    Problem("covtype_binary", 54, 400, 131_072, 8.0),
    Problem("magic", 10, 400, 131_072, 8.0),
    Problem("a9a", 120, 1000, 48_640, 6.0),
)


def read_problem(folder: Path, problem: Problem) -> tuple[Rows, float]:
    """Return rows in float64, standardised and shuffled with seed 0, and their median distance."""
    table = pq.read_table(folder / f"{problem.data}.parquet")
    columns = [table[f"f{index}"].to_numpy().astype(np.float64) for index in range(problem.n_inputs)]
    inputs = np.stack(columns, axis=1)
    deviation = inputs.std(axis=0)
    inputs = (inputs - inputs.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    labels = table["y"].to_numpy().astype(np.float64)
    targets = np.where(labels == np.unique(labels)[1], 1.0, -1.0)
    rng = np.random.default_rng(0)
    repeats = -(-problem.n_rows // len(targets))
    order = np.concatenate([rng.permutation(len(targets)) for _ in range(repeats)])[: problem.n_rows]
    rows = Rows(np.ascontiguousarray(inputs[order]), targets[order])
    return rows, median_distance(rows.inputs[:4096])


def in_precision(rows: Rows, precision: Precision) -> Rows:
    """Return the same rows with inputs in a precision."""
    return Rows(np.ascontiguousarray(rows.inputs, dtype=precision), rows.targets)
