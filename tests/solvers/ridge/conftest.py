"""Rows with nonlinear targets of each task, and float64 bases for comparison with naive twins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.data.execution import Rows
from okl.features.linear import StandardisedLinear
from okl.foundation.types import Task
from okl.kernels import Gaussian
from okl.solvers.ridge.gram import Basis, LandmarkBasis, MapBasis, Outputs

CLASS_WEIGHTS: dict[Task, tuple[float, ...] | None] = {
    "binary": (1.0, 3.0),
    "multiclass": (2.0, 1.0, 0.5),
    "regression": None,
}
BASES = ("landmarks", "inputs")


@dataclass(frozen=True)
class Problem:
    """Rows, the values to fit, a basis, and the same as plain arrays for a naive twin."""

    rows: Rows
    outputs: Outputs
    basis: Basis

    @property
    def columns(self) -> NDArray[np.float64]:
        return np.asarray(self.basis.columns(self.rows.inputs), dtype=np.float64)

    @property
    def values(self) -> NDArray[np.float64]:
        return self.outputs.of(self.rows.targets)

    @property
    def weights(self) -> NDArray[np.float64]:
        weights = self.outputs.weights(self.rows.targets)
        return np.ones(len(self.rows.targets)) if weights is None else weights

    @property
    def metric(self) -> NDArray[np.float64]:
        """Return the matrix of the penalty: that of the landmarks plus a small diagonal."""
        if not isinstance(self.basis, LandmarkBasis):
            return np.eye(self.basis.n_columns)
        factor, matrix = self.basis.turn().factor, self.basis.kernel.matrix(self.basis.landmarks, self.basis.landmarks)
        assert factor is not None
        np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-6)
        return np.asarray(factor @ factor.T)


def curved_rows(task: Task, n_rows: int = 150, seed: int = 4) -> Rows:
    """Return two inputs and a target as `Rows`."""
    random = np.random.default_rng(seed)
    inputs = random.normal(size=(n_rows, 2))
    curve = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] ** 2 + 0.3 * random.normal(size=n_rows)
    targets = {
        "binary": np.where(curve > 1.0, 1.0, -1.0),
        "multiclass": np.digitize(curve, [0.4, 1.4]).astype(float),
        "regression": 7.0 + curve,
    }[task]
    if task != "regression":
        assert np.unique(targets, return_counts=True)[1].min() > n_rows // 8
    return Rows(inputs, targets)


def problem(task: Task, basis: str = "landmarks", n_rows: int = 150) -> Problem:
    """Return the problem of a task, with class weights for classes."""
    rows = curved_rows(task, n_rows)
    outputs = Outputs(task, 3 if task == "multiclass" else 1, CLASS_WEIGHTS[task])
    of_inputs = MapBasis(StandardisedLinear(np.array([0.3, -0.2]), np.array([0.5, 2.0]), 0.0))
    of_landmarks = LandmarkBasis(Gaussian(0.8), np.ascontiguousarray(rows.inputs[:12]))
    return Problem(rows, outputs, of_inputs if basis == "inputs" else of_landmarks)


@pytest.fixture(params=[(task, basis) for task in CLASS_WEIGHTS for basis in BASES], ids="-".join)
def posed(request: pytest.FixtureRequest) -> Problem:
    return problem(*request.param)
