"""Pieces of work of Table 6: accuracy of logistic regression that keeps off its border by xi."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from okl.accelerated.bias import error_minimising_bias
from okl.accelerated.models.logistic import LogisticRegression
from okl.accelerated.operators import DenseRows
from okl.execution.protocol import Rows
from okl.reproduction.folder import Folder
from okl.reproduction.items import Outcome
from okl.reproduction.ito2017.artificial import artificial_rows
from okl.reproduction.ito2017.liblinear import fit_liblinear
from okl.reproduction.ito2017.running import METHOD, run
from okl.reproduction.ito2017.syntheticworks import SyntheticItem
from okl.reproduction.ito2017.works import CaseItem

C = 10.0  # of the other experiments with logistic regression; the paper states none here


@dataclass(frozen=True)
class CaseAccuracyItem(CaseItem):
    """On a data set; xi 0 for LIBLINEAR."""

    xi: float

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Accuracy on the rows that were learnt."""
        return _accuracy(self.case.rows(folder, self.precision), self.xi, check)


@dataclass(frozen=True)
class ArtificialAccuracyItem(SyntheticItem):
    """On artificial data; xi 0 for LIBLINEAR."""

    n_rows: int
    n_columns: int
    xi: float
    seed: int

    @property
    def rows(self) -> int:
        """Rows."""
        return self.n_rows

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Accuracy on the rows that were learnt."""
        return _accuracy(artificial_rows(self.n_rows, self.n_columns, self.seed), self.xi, check)


def _accuracy(rows: Rows, xi: float, check: Callable[[], None]) -> Outcome:
    bias = 0.0
    if xi:
        problem = LogisticRegression(C, margin=xi).problem(DenseRows(rows.inputs, rows.targets))
        done = run(problem, check)
        outcome = done.outcome()
        scores = rows.inputs @ METHOD.solution(done.state, problem).weights
        bias = error_minimising_bias(scores, rows.targets)
    else:
        weights, seconds = fit_liblinear("logistic", rows, C)
        scores, outcome = rows.inputs @ weights, {"seconds": seconds}
    return outcome | {"accuracy": float(((scores >= bias) == (rows.targets > 0)).mean())}
