from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from okl.certificates.certify import WindowRuns, compare_regret, solve_runs, window_boundaries
from okl.certificates.hindsight import HindsightProgress, MemoryRows
from okl.features.base import transform_rows
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.losses import Hinge
from okl.solvers.base import SolverProgress
from okl.solvers.online.linear import LinearLearner

N, RADIUS = 6, 3.0


def synthetic_runs(n: int = N) -> WindowRuns:
    """Return runs whose losses increase with their length."""
    rng = np.random.default_rng(5)
    losses = np.zeros((n + 1, n + 1))
    for i in range(n):
        for j in range(i + 1, n + 1):
            losses[i, j] = (j - i) ** 1.5 + 0.5 * rng.random()
    return WindowRuns(np.arange(n + 1) * 100, losses, 0.9 * losses, np.ones(n))


def partitions(n: int, most: int) -> list[tuple[int, ...]]:
    return [places for k in range(most + 1) for places in combinations(range(1, n), k)]


def cost(losses: NDArray[np.float64], places: tuple[int, ...]) -> float:
    edges = [0, *places, len(losses) - 1]
    return sum(float(losses[i, j]) for i, j in pairwise(edges))


def test_the_best_changes_are_those_of_all_partitions() -> None:
    runs = synthetic_runs()
    comparisons = compare_regret(runs)
    assert [one.changes for one in comparisons] == [0, 1, 2, 4, 5]
    for one in comparisons:
        every = {places: cost(runs.losses, places) for places in partitions(N, one.changes)}
        best = min(every, key=lambda places: every[places])
        assert one.loss == pytest.approx(every[best])
        assert one.rows == tuple(100 * window for window in best)
        assert one.floor == pytest.approx(0.9 * one.loss)
        assert one.floor_anywhere <= one.floor
    assert [one.changes for one in compare_regret(synthetic_runs(1))] == [0]


def test_floor_for_changes_at_any_row_drops_the_windows_with_a_change() -> None:
    runs = synthetic_runs()
    for one in compare_regret(runs)[:3]:
        every = []
        for dropped in combinations(range(N), one.changes):
            edges = [-1, *dropped, N]
            every.append(sum(float(runs.floors[i + 1, j]) for i, j in pairwise(edges) if j > i + 1))
        assert one.floor_anywhere == pytest.approx(min(every))


def test_windows_of_one_class_are_joined_with_others() -> None:
    labels = np.where(np.arange(600) < 200, 1.0, -1.0)
    labels[[450, 599]] = 1.0
    recorded = [SolverProgress(done, 600, 0.3, 0.5) for done in range(100, 601, 100)]
    assert [one.done_rows for one in window_boundaries(recorded, labels, 6)] == [300, 500, 600]
    labels[599] = -1.0
    assert [one.done_rows for one in window_boundaries(recorded, labels, 6)] == [300, 600]
    assert window_boundaries(recorded, np.ones(600), 6) == []


def test_optima_of_runs_are_proved_and_a_change_of_the_rows_is_found() -> None:
    rng = np.random.default_rng(0)
    feature_map = draw_fourier_map(Gaussian(2.0), 2, 20, 1, "float64")
    inputs = rng.standard_normal((600, 2))
    labels = np.where(inputs[:, 0] > 0, 1.0, -1.0) * np.where(np.arange(600) < 360, 1.0, -1.0)
    learner = LinearLearner(feature_map, Hinge(), 0.5, radius=RADIUS)
    held = MemoryRows(transform_rows(feature_map, inputs), labels, learner, True, 1)
    recorded = [SolverProgress(done, 600, 0.3, 0.5, surrogate=0.6 * done) for done in range(60, 601, 60)]
    borders = window_boundaries(recorded, labels, 5)
    assert [one.done_rows for one in borders] == [120, 240, 360, 480, 600]
    runs = solve_runs(held, borders, RADIUS, HindsightProgress())
    no_change, one_change, *_ = compare_regret(runs)
    assert one_change.rows == (360,)
    assert one_change.loss < 0.6 * no_change.loss
    assert np.all(runs.floors <= runs.losses)
    gaps = (runs.losses - runs.floors)[np.triu_indices(6, 1)]
    assert np.all(gaps <= np.maximum(0.01 * runs.losses, 0.01 * 600 * 0.6)[np.triu_indices(6, 1)] + 1e-9)
    for _ in range(200):
        weights = rng.standard_normal(feature_map.n_columns)
        weights *= RADIUS / np.linalg.norm(weights)
        loss = np.maximum(0.0, 1.0 - labels[120:480] * (held.rows[120:480] @ weights)).sum()
        assert loss >= runs.floors[1, 4]
    record = one_change.as_json(400.0)
    assert record["regret"] <= record["regret_at_most"] <= record["regret_at_most_anywhere"] <= 400.0
