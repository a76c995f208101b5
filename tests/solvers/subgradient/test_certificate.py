from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed import open_execution
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray
from okl.solvers.subgradient.sampling import (
    GapEstimate,
    ReplicateWork,
    SamplePlan,
    bound_of_gaps,
    draw_rows,
    replicated_bound,
)
from okl.solvers.subgradient.scs import Scs, solve_sample
from okl.solvers.subgradient.sharded import SubgradientState
from okl.solvers.subgradient.solver import GapBounder
from okl.solvers.subgradient.spaces import ExplicitRows
from tests.solvers.subgradient.sharded_cases import in_memory, last_state, sharded, solver

LAM, GAP = 0.01, 0.08


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return sharded(tmp_path_factory.mktemp("certificate"))


def optimum(state: SubgradientState, data: Dataset) -> float:
    rows, targets = in_memory(state, data)
    return solve_sample(ExplicitRows(rows), targets, Scs(lam=LAM, gap=1e-7)).lower_bound


def objective(state: SubgradientState, data: Dataset) -> float:
    rows, targets = in_memory(state, data)
    weights = state.descent.weights
    losses = np.maximum(0.0, 1.0 - targets * (rows.astype(np.float64) @ weights))
    return float(losses.mean() + 0.5 * LAM * weights @ weights)


def test_the_certificate_covers_the_excess_over_all_rows(data: Dataset, here: Execution) -> None:
    held, sampled = 0, 0
    excesses: list[float] = []
    for seed in range(16):
        learning = solver(gap=GAP, seed=seed, lam=LAM, replicates=5, first_sample=100)
        state = last_state(learning, data, here)
        certificate = learning.certificate(state)
        excesses.append(objective(state, data) - optimum(state, data))
        assert certificate["gap"] <= GAP
        held += excesses[-1] <= certificate["gap"]
        sampled += not certificate["exact"]
    assert held >= 15
    assert sampled >= 8
    assert max(excesses) > 0.1 * GAP


def test_a_bound_is_decided_by_its_seed_alone(data: Dataset, here: Execution) -> None:
    learning = solver(lam=LAM)
    state = learning.start(data, here)
    method, rows = Scs(lam=LAM, gap=0.01), state.rows.another(8)

    def bound(seed: int, execution: Execution) -> object:
        weights = state.descent.weights
        return replicated_bound(
            ReplicateWork(rows.another(seed), 0.1, weights, method, 1), 0.95, execution, replicates=4
        )

    with open_execution(0, threads=1) as alone:
        assert bound(1, here) == bound(1, alone) != bound(2, here)


def test_replicates_are_unbiased_and_below_the_optimum_on_average(data: Dataset, here: Execution) -> None:
    learning = solver(lam=LAM, gap=0.03)
    state = last_state(learning, data, here)
    method = Scs(lam=LAM, gap=1e-3)
    work = ReplicateWork(state.rows.another(1), 0.1, state.descent.weights, method, 1)
    bound = replicated_bound(work, 0.95, here, replicates=60)
    objective_here, best = objective(state, data), optimum(state, data)
    assert bound.objective == pytest.approx(objective_here, abs=0.03)
    assert bound.objective - bound.mean_gap < best
    assert bound.gap == pytest.approx(bound.mean_gap + stats.t.ppf(0.95, 59) * bound.deviation / np.sqrt(60), rel=1e-9)
    assert 0.05 * 60 * 2600 < bound.rows < 0.15 * 60 * 2600


def test_bounds_of_gaps_are_students(here: Execution) -> None:
    gaps = [0.1, 0.3, 0.2, 0.25]
    bound = bound_of_gaps(gaps, [1.0, 1.1, 1.2, 1.3], 0.9, 40)
    assert bound.gap == pytest.approx(np.mean(gaps) + stats.t.ppf(0.9, 3) * stats.sem(gaps))
    assert bound.lower_bound == pytest.approx(1.15 - bound.gap)
    with pytest.raises(ConfigError, match=r"confidence = 2 and replicates = 4"):
        replicated_bound(None, 2.0, here, 4)  # type: ignore[arg-type]


def test_any_point_is_bounded_exactly_by_all_rows_and_by_samples_of_many(data: Dataset, here: Execution) -> None:
    learning = solver(lam=LAM)
    state = learning.start(data, here)
    rows, targets = in_memory(state, data)
    point: FloatArray = 0.5 * np.asarray(np.random.default_rng(0).normal(size=rows.shape[1]))
    losses = np.maximum(0.0, 1.0 - targets * (rows @ point)).mean() + 0.5 * LAM * point @ point
    excess = float(losses) - optimum(state, data)
    prover = GapBounder(learning.loss, LAM)
    exact = prover.bound(data, state.rows.feature_map, point, here)
    assert exact.confidence is None
    assert excess - 1e-6 <= exact.gap <= 1.06 * excess
    sampled = replace(prover, replicates=5, replicate_rows=200).bound(data, state.rows.feature_map, point, here)
    assert sampled.confidence == 0.95
    assert excess < sampled.gap < 1.5 * excess
    assert sampled.rows < 1300 < exact.rows


def test_drawn_rows_are_those_of_the_design(data: Dataset, here: Execution, tmp_path: Path) -> None:
    state = solver(lam=LAM).start(data, here)
    drawn, read = draw_rows(state.rows, 1.0)
    rows, targets = in_memory(state, data)
    assert drawn.inputs.tobytes() == rows.tobytes()
    assert drawn.targets.tobytes() == targets.tobytes()
    assert read > 2600 * (4 * 4 + 8)


def test_a_plan_has_more_rows_where_gaps_decrease_slowly() -> None:
    plan = SamplePlan(gap=0.01, lam=1e-3, first_sample=1000)
    seen = GapEstimate.of(mean_gap=0.02, n_rows=4000, replicate_rows=4000, solved=0.0)
    assert seen.scale == pytest.approx(40.0)
    assert plan.replicate_rows(seen, 4000, 0.0) is None  # the point alone may be worse than the gap
    wanted = plan.replicate_rows(seen, 16000, 0.0)
    assert wanted == pytest.approx(40.0 / (0.0075 - 0.0025), rel=0.01)
    assert plan.next_share(0.1) == 0.4
    assert plan.next_share(0.2) == 1.0
    assert plan.tolerance(1.0, 10) == 0.01 > plan.tolerance(0.5, 16000) >= 0.0025
    assert plan.needs_estimate(None, 1000, 0.0)
    assert not plan.needs_estimate(seen, 4000, 0.0)
