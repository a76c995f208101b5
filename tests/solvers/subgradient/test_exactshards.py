"""Samples of shards with an exact kernel: the certified optimum of in-memory training, with reproducible bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import okl.solvers.subgradient.sharded as on_shards
from okl.data.dataset import Dataset
from okl.distributed import open_execution
from okl.features.predictors import KernelExpansion
from okl.foundation.errors import ConfigError
from okl.foundation.types import Task
from okl.solvers.subgradient.scs import KernelDescent, Scs, solve_sample
from okl.solvers.subgradient.solver import SubgradientSolver
from okl.solvers.subgradient.spaces import ExactChoice, KernelRows, KernelValues
from tests.solvers.subgradient.sharded_cases import bits, in_memory, last_state, sharded, solver, states


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return sharded(tmp_path_factory.mktemp("binary"))


def exact(task: Task = "binary", **values: Any) -> SubgradientSolver:
    return solver(task, **{"maps": ExactChoice(), "gap": 0.01} | values)


@pytest.mark.parametrize("task", get_args(Task))
def test_shards_reach_the_optimum_of_one_memory(task: Task, tmp_path: Path) -> None:
    learning, data = exact(task), sharded(tmp_path, task, rows=1040)
    with open_execution(0, threads=2) as execution:
        state = last_state(learning, data, execution)
    certificate, predictor = learning.certificate(state), learning.predictor(state)
    assert isinstance(predictor, KernelExpansion)
    assert predictor.precision == "float32"
    inputs, targets = in_memory(state, data)
    space = KernelRows(KernelValues(predictor.kernel, inputs), len(targets), data.schema.n_outputs)
    best = solve_sample(space, targets, Scs(lam=learning.lam, loss=learning.loss, gap=1e-3))
    scores = predictor.scores(inputs).astype(np.float64)
    supports, coefficients = predictor.supports, predictor.coefficients.astype(np.float64)
    matrix = predictor.kernel.matrix(supports.astype(np.float64), supports.astype(np.float64))
    here = 0.5 * learning.lam * float(np.einsum("ci,ij,cj->", coefficients, matrix, coefficients))
    here += float(learning.loss.value(scores, targets).mean())
    assert best.lower_bound <= here + 1e-6
    assert here - best.objective <= certificate["gap"] <= 0.01
    assert len(state.samples) > 1
    assert learning.chosen(state)["support_vectors"] == predictor.n_supports > 10


def test_a_sample_of_the_kernel_is_certified_by_fresh_ones(data: Dataset) -> None:
    learning = exact(gap=0.15, lam=0.03, replicates=4)
    with open_execution(0) as execution:
        visited = states(learning, data, execution)
    with open_execution(0, threads=2) as execution:
        again = bits(learning, last_state(learning, data, execution))
    certificate = learning.certificate(visited[-1])
    assert not certificate["exact"]
    assert certificate["gap"] <= 0.15
    assert visited[-1].descent.n_rows < 2600
    assert again == bits(learning, visited[-1])
    inputs, targets = in_memory(visited[-1], data)
    expansion: Any = learning.predictor(visited[-1])
    best = solve_sample(
        KernelRows(KernelValues(expansion.kernel, inputs), len(targets)), targets, Scs(lam=0.03, gap=1e-3)
    )
    at = visited[-1].descent
    assert isinstance(at, KernelDescent)
    here = 0.015 * at.squared_length + learning.loss.value(expansion.scores(inputs) * 1.0, targets).mean()
    assert 0.0 <= here - best.lower_bound <= certificate["gap"] + 1e-3


def test_a_sample_beyond_the_memory_limit_ends_with_the_proved_gap(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_shards, "MEMORY_BYTES", 8 * 900**2)
    learning = exact(gap=1e-3, replicates=3)
    with open_execution(0) as execution:
        state = last_state(learning, data, execution)
    outcome, certificate = learning.finished(state), learning.certificate(state)
    assert outcome is not None
    assert outcome.kind == "not converged"
    assert "do not fit in memory; use a feature map" in outcome.reason
    assert certificate["gap"] > 1e-3
    assert not certificate["exact"]
    assert state.descent.n_rows <= 900
    with pytest.raises(ConfigError, match=r"first_sample = 2,000, but memory holds the kernel values of 900 rows"):
        exact(first_sample=2000)
