from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.certificates.hindsight import in_ball
from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.features.base import FeatureMap
from okl.features.predictors import LinearPredictor
from okl.foundation.settings import IngestSettings
from okl.runs.loop import run_loop
from okl.solvers.accelerated.base import CompositeProblem, Iterate, Vectors
from okl.solvers.accelerated.fapg import Fapg, solve
from okl.solvers.accelerated.models.dwd import DWD
from okl.solvers.accelerated.models.l1 import L1LogisticRegression
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.solver import SubgradientSolver
from tests.conftest import learnable_table
from tests.solvers.accelerated.model_cases import (
    MAKERS,
    WITH_MARGINS,
    Doubles,
    feasible_point,
    image_of,
    pulled_of,
    two_classes,
)

ALL = MAKERS | WITH_MARGINS


def in_ball_maker(rows: DenseRows) -> CompositeProblem:
    problem = CSVM(1.0, fit_intercept=False).problem(rows)
    return in_ball(problem, 0.7, np.full(rows.n_points, 0.5))


SWEPT = ALL | {"c-svm in a ball": in_ball_maker}


@pytest.mark.parametrize("name", ALL)
def test_gradient_matches_finite_differences(name: str) -> None:
    problem, rng = ALL[name](two_classes(0)), np.random.default_rng(0)
    for _ in range(3):
        # anywhere, not only in the set: extrapolated points leave it
        point = problem.start() + 0.3 * rng.standard_normal(problem.n_points)
        image = image_of(problem, point)
        gradient, direction = np.empty(problem.n_points), rng.standard_normal(problem.n_points)
        problem.gradient(gradient, point, image, pulled_of(problem, image))
        values = [problem.smooth(p, image_of(problem, p)) for p in (point + 1e-6 * direction, point - 1e-6 * direction)]
        assert gradient @ direction == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_excess_is_the_distance_of_f_from_its_tangent(name: str) -> None:
    problem, rng = ALL[name](two_classes(1)), np.random.default_rng(1)
    for scale in (1.0, 1e-2):
        point = feasible_point(problem, rng)
        at = point + scale * rng.standard_normal(problem.n_points)
        image, at_image = image_of(problem, point), image_of(problem, at)
        gradient = np.empty(problem.n_points)
        problem.gradient(gradient, at, at_image, pulled_of(problem, at_image))
        values = problem.smooth(point, image), problem.smooth(at, at_image)
        expected = values[0] - values[1] - gradient @ (point - at)
        excess = problem.excess(point, image, at, at_image)
        assert excess > 0
        assert excess == pytest.approx(expected, rel=1e-6, abs=1e-11 * max(map(abs, values)))


@pytest.mark.parametrize("name", ALL)
def test_prox_minimises(name: str) -> None:
    problem, rng = ALL[name](two_classes(2)), np.random.default_rng(2)
    target, lipschitz = problem.start() + rng.standard_normal(problem.n_points), 0.8
    found = np.empty(problem.n_points)
    problem.prox(found, target.copy(), lipschitz)
    least = problem.penalty(found) + 0.5 * lipschitz * np.sum((found - target) ** 2)
    for _ in range(30):
        # on the segment to another feasible point: the sets are convex
        other = found + rng.choice([1.0, 1e-3]) * (feasible_point(problem, rng) - found)
        value = problem.penalty(other) + 0.5 * lipschitz * np.sum((other - target) ** 2)
        assert value >= least - 1e-9 * abs(least)


@pytest.mark.parametrize("from_far", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        *("c-svm without bias", "l2-svm without bias", "logistic without bias", "c-svm in a ball"),
        *("c-svm", "l2-svm", "nu-svm", "nu-svm without bias"),
    ],
)
def test_sweep_is_a_step_of_two_reads_with_the_same_bits_for_any_threads(name: str, from_far: bool) -> None:
    rows = two_classes(4, n_rows=700)
    found = []
    for n_threads in (1, 2, 3):
        problem = SWEPT[name](DenseRows(rows.rows, rows.signs, n_threads))
        point = problem.start() + 0.3 * np.random.default_rng(4).standard_normal(problem.n_points)
        image = image_of(problem, point)
        at = Vectors(Iterate(point, image), Iterate(point, image))
        at.extrapolate(0.0)
        swept = problem.sweep(at, 40.0, (0.0, 0.0))
        assert swept is not None
        if not from_far:
            (plus, minus), _ = swept
            swept = problem.sweep(at, 40.0, (1.02 * plus, 1.01 * minus))
            assert swept is not None
            assert swept[1] < 1.1
        out, gradient, out_image = at.new.point, at.gradient, at.new.image
        found.append(np.concatenate([out, gradient, out_image]))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    expected, target = np.empty(700), np.empty(700)
    problem.gradient(expected, point, image, pulled_of(problem, image))
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-12)
    problem.prox(target, point - expected / 40.0, 40.0)
    np.testing.assert_allclose(out, target, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(out_image, image_of(problem, target), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [CSVM(0.7), L2SVM(0.5), LogisticRegression(2.0), DWD(0.02), NuSVM(0.5)])
def test_weighted_row_counts_as_often_as_it_weighs(
    model: CSVM | L2SVM | LogisticRegression | DWD | NuSVM,
) -> None:
    rows, rng = two_classes(3), np.random.default_rng(3)
    weights = rng.integers(0, 3, rows.n_points).astype(float)
    repeated = np.repeat(np.arange(rows.n_points), weights.astype(int))
    again = DenseRows(rows.rows[repeated], rows.signs[repeated])
    problem, other = model.problem(rows, weights), model.problem(again)
    point = feasible_point(problem, rng)
    spread = point[repeated] / weights[repeated]
    image, other_image = image_of(problem, point), image_of(other, spread)
    left = problem.certificate(point, image, pulled_of(problem, image))
    right = other.certificate(spread, other_image, pulled_of(other, other_image))
    assert left.primal == pytest.approx(right.primal)
    assert left.dual == pytest.approx(right.dual)


def test_excess_of_logistic_losses_is_whole_where_shares_vanish() -> None:
    rows = two_classes(6, n_rows=60)
    problem = L1LogisticRegression(2.0).problem(rows)
    start: Doubles = problem.start().astype(np.float64)
    far: Doubles = 1e4 * np.random.default_rng(6).standard_normal(problem.n_points)
    image, far_image = image_of(problem, start), image_of(problem, far)
    assert np.abs(far_image).max() > 5e3
    slopes = pulled_of(problem, image)
    change = problem.smooth(far, far_image) - problem.smooth(start, image)
    assert problem.excess(far, far_image, start, image) == pytest.approx(change - slopes @ (far - start), rel=1e-9)
    outcome = solve(L1LogisticRegression(1e5).problem(rows), Fapg(tolerance=1e-3))[1]
    assert outcome.reason.endswith(", tolerance 0.001")


ROWS = 1500
Windows = dict[str, tuple[Dataset, Dataset]]


@dataclass(frozen=True)
class FixedMaps:
    """A feature map that exists already."""

    feature_map: FeatureMap

    def draw(self, *_: Any) -> tuple[FeatureMap, dict[str, Any]]:
        return self.feature_map, {}


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Windows:
    """Return two windows for each task that share nine tenths of their rows."""
    folder, made = tmp_path_factory.mktemp("windows"), {}
    for task in ("binary", "multiclass"):
        table = learnable_table(task, ROWS + ROWS // 10).drop_columns(["split"])
        settings = IngestSettings(scale="standard", rows_per_group=256, task=task)
        found: list[Dataset] = []
        for number, first in enumerate((0, ROWS // 10)):
            path = folder / f"{task}{number}.parquet"
            pq.write_table(table.slice(first, ROWS), path)
            reference = found[0].schema if found else None
            found.append(ingest(path, folder / f"{task}{number}", settings, reference=reference).dataset)
        made[task] = (found[0], found[1])
    return made


def solved(settings: TrainSettings, data: Dataset, execution: Execution) -> tuple[Any, LinearPredictor]:
    solver = make_solver(settings, data)
    assert isinstance(solver, AcceleratedSolver | SubgradientSolver)
    found = run_loop(solver, solver.start(data, execution), data, execution).predictor
    assert isinstance(found, LinearPredictor)
    return solver, found


CASES = [
    ("c-svm", "binary"),
    ("l2-svm", "binary"),
    ("logistic", "binary"),
    ("l1-logistic", "binary"),
    ("c-svm", "multiclass"),
]


@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_warm_start_is_nearer_and_reaches_the_same_optimum(name: str, task: str, windows: Windows) -> None:
    first, second = windows[task]
    settings = TrainSettings.model_validate({"data": "none", "solver": name, "frequencies": 20, "tol": 2e-2})
    with open_execution(threads=1) as execution:
        solver, before = solved(settings, first, execution)
        cold = replace(solver, maps=FixedMaps(before.feature_map))
        begins = [cold.start(second, execution), *(solver.start(second, execution, before) for _ in range(2))]
        ends = [run_loop(solver, begin, second, execution).state for begin in begins]
    proofs = [solver.certificate(end) for end in ends]
    assert all(proof["relative_gap"] <= 2e-2 for proof in proofs)
    assert abs(proofs[0]["objective"] - proofs[1]["objective"]) <= proofs[0]["gap"] + proofs[1]["gap"]
    best = min(end.solved[0].method_state.best_record.objective for end in ends)
    above = [begin.current.method_state.history[0].objective - best for begin in begins]
    assert above[1] < 0.5 * above[0]
    for key, array in solver.predictor(ends[1]).arrays().items():
        np.testing.assert_array_equal(solver.predictor(ends[2]).arrays()[key], array)


def test_a_warm_start_that_is_worse_than_the_default_start_is_not_used(windows: Windows) -> None:
    data = windows["binary"][0]
    settings = TrainSettings.model_validate({"data": "none", "solver": "logistic", "frequencies": 20, "tol": 1e-4})
    with open_execution(threads=1) as execution:
        solver, before = solved(settings, data, execution)
        bad_start = solver.start(data, execution, replace(before, weights=-1000 * before.weights))
        own = replace(solver, maps=FixedMaps(before.feature_map)).start(data, execution)
        again = solver.start(data, execution, before)
    begun = [one.current.method_state.history[0].objective for one in (bad_start, own, again)]
    assert begun[0] == begun[1] > begun[2]


@pytest.mark.parametrize("bias", ["own", "regularised"])
def test_cuts_begin_at_the_weights_that_are_given(bias: str, windows: Windows) -> None:
    first, second = windows["binary"]
    given = {"data": "none", "solver": "scs", "frequencies": 20, "gap": 1e-2, "bias": bias}
    with open_execution(threads=1) as execution:
        solver, before = solved(TrainSettings.model_validate(given), first, execution)
        cold = replace(solver, maps=FixedMaps(before.feature_map)).start(second, execution)
        warm = solver.start(second, execution, before)
        end = run_loop(solver, warm, second, execution).state
    assert warm.descent.objective < cold.descent.objective
    assert solver.certificate(end)["gap"] <= 1e-2
