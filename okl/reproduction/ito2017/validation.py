"""Ten-fold cross validation of one model over its grid: one seed of the folds, one piece of work.

Whatever is shared is computed once: means and covariances of the folds are merged, not computed again, and every
solution over the grid starts from the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from okl.accelerated.bias import error_minimising_bias
from okl.accelerated.fapg import Fapg
from okl.accelerated.moments import ClassMoments, Moments, moments_of
from okl.accelerated.operators import DenseRows, RowOperator, SparseRows
from okl.execution.protocol import Rows
from okl.reproduction.folder import Folder
from okl.reproduction.items import Outcome
from okl.reproduction.ito2017.cases import Case
from okl.reproduction.ito2017.grids import GRIDS, Solved, margin_solutions, minimax_solutions
from okl.types import FloatArray, Precision

FOLDS = 10
MOST_ROWS = 10_000
DENSITY = 0.25  # rows with fewer entries other than 0 are read faster without the others
METHOD = Fapg(tolerance=1e-2, max_iterations=500)


class Measured(NamedTuple):
    """A value of the grid on one fold: the parameter, test accuracies with either bias, gap and iterations."""

    value: float
    parameter: float
    own: float
    least_errors: float
    gap: float
    iterations: int


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to learn and rows to test on: inputs dense or CSR, labels -1 and +1."""

    learnt: Any
    learnt_labels: NDArray[np.float64]
    tested: Any
    tested_labels: NDArray[np.float64]

    def operator(self) -> RowOperator:
        """The rows to learn."""
        kind = SparseRows if sparse.issparse(self.learnt) else DenseRows
        return kind(self.learnt, self.learnt_labels)

    def measure(self, solved: Solved) -> Measured:
        """Share of the test rows whose class is right; a score at the bias is the class +1."""
        weights = solved.solution.weights.astype(self.learnt.dtype)
        scores = self.tested @ weights
        least = error_minimising_bias(self.learnt @ weights, self.learnt_labels)
        own, least_errors = (
            float(((scores >= bias) == (self.tested_labels > 0)).mean()) for bias in (solved.solution.bias, least)
        )
        gap = solved.solution.certificate.relative_gap
        return Measured(solved.value, solved.parameter, own, least_errors, gap, solved.iterations)


@dataclass(frozen=True)
class ValidationItem:
    """A model over its grid on the ten folds of one seed.

    model : one of GRIDS; fold_seed : of the partition; n_rows : that take part
    """

    case: Case
    model: str
    fold_seed: int
    n_rows: int
    precision: Precision = "float32"

    @property
    def name(self) -> str:
        """Readable and unique."""
        return f"{self.case.printed}--{self.model}--folds{self.fold_seed}"

    @property
    def dataset(self) -> str:
        """The file it reads."""
        return self.case.file

    @property
    def minimax(self) -> bool:
        """Whether the model knows rows by the moments of their classes."""
        return self.model in ("mm_mpm", "mm_fda")

    @property
    def rows(self) -> int:
        """Rows that it learns, over all folds."""
        learnt = self.n_rows - self.n_rows // FOLDS
        return FOLDS * (learnt if self.minimax else min(learnt, MOST_ROWS))

    @property
    def cost(self) -> float:
        """Rows, but for the minimax models, which read them once."""
        return self.rows * (0.01 if self.minimax else 1.0)

    def describe(self) -> dict[str, Any]:
        """All fields: each decides something."""
        return {**self.case.describe(), "model": self.model, "seed": self.fold_seed, "rows": self.n_rows,
                "precision": self.precision}  # fmt: skip

    def run(self, folder: Folder, check: Callable[[], None]) -> Outcome:
        """Mean accuracies over the folds, a list each: None where a fold has no w other than 0."""
        rows = self.case.rows(folder, self.precision)
        begun = time.perf_counter()
        folds = [list(fold) for fold in self._measured(rows, check)]
        columns = list(zip(*folds, strict=False))  # as far as the shortest path
        absent: list[None] = [None] * (len(GRIDS[self.model].values) - len(columns))
        return {
            "parameters": [fmean(m.parameter for m in column) for column in columns] + absent,
            "own": [fmean(m.own for m in column) for column in columns] + absent,
            "least_errors": [fmean(m.least_errors for m in column) for column in columns] + absent,
            "constant": float(max((rows.targets > 0).mean(), (rows.targets < 0).mean())),
            "largest_gap": max((m.gap for fold in folds for m in fold), default=0.0),
            "iterations": sum(m.iterations for fold in folds for m in fold),
            "seconds": time.perf_counter() - begun,
        }

    def _measured(self, rows: Rows, check: Callable[[], None]) -> Iterator[Iterator[Measured]]:
        parts = np.array_split(np.random.default_rng(self.fold_seed).permutation(len(rows.targets)), FOLDS)
        inputs = _compact(rows.inputs)
        moments = [_moments(rows, part) for part in parts] if self.minimax else []
        for k, part in enumerate(parts):
            others = [j for j in range(FOLDS) if j != k]
            learnt = np.concatenate([parts[j] for j in others])[: None if self.minimax else MOST_ROWS]
            fold = Fold(inputs[learnt], rows.targets[learnt], inputs[part], rows.targets[part])
            if self.minimax:
                solutions = minimax_solutions(self.model, _merged([moments[j] for j in others]), METHOD)
            else:
                solutions = margin_solutions(self.model, fold.operator(), METHOD)
            yield (fold.measure(solved) for solved in _checked(solutions, check))


def _checked(solutions: Iterable[Solved], check: Callable[[], None]) -> Iterator[Solved]:
    for solved in solutions:
        check()
        yield solved


def _compact(inputs: FloatArray) -> Any:
    """The same rows, as CSR where most entries are 0."""
    return sparse.csr_array(inputs) if np.count_nonzero(inputs) < DENSITY * inputs.size else inputs


def _moments(rows: Rows, part: NDArray[np.int64]) -> tuple[Moments, Moments]:
    positive, negative = (part[rows.targets[part] * sign > 0] for sign in (1.0, -1.0))
    return moments_of(rows.inputs[positive]), moments_of(rows.inputs[negative])


def _merged(moments: list[tuple[Moments, Moments]]) -> ClassMoments:
    return ClassMoments(*(reduce(Moments.merged, of_class) for of_class in zip(*moments, strict=True)))
