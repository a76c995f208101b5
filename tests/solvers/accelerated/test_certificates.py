from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.fapg import Fapg, solve
from okl.solvers.accelerated.fitting import solve_problem
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM
from okl.solvers.accelerated.newton import Newton
from okl.solvers.accelerated.operators import DenseRows
from tests.solvers.accelerated.certificate_cases import Case, gap_violation, is_solved, proof_of, random_case
from tests.solvers.accelerated.model_cases import MAKERS, pulled_of, two_classes

SEEDS = range(2)  # tests.benchmarks.accelerated_certificates takes 36
WITH_BIAS = ["c-svm", "l2-svm", "logistic", "nu-svm", "dwd"]
cached_case = cache(random_case)


@pytest.fixture(params=MAKERS)
def cases(request: pytest.FixtureRequest) -> list[Case]:
    return [cached_case(request.param, seed) for seed in SEEDS]


def test_certified_gap_is_never_below_the_true_one(cases: list[Case]) -> None:
    assert all(is_solved(case) for case in cases)
    assert max(gap_violation(case, seed) for seed, case in enumerate(cases)) < 1e-12


def test_proven_method_obeys_lemma_5_and_theorem_7(cases: list[Case]) -> None:
    for case in cases:
        proof = proof_of(case)
        assert proof.above_ceiling <= 1e-12
        assert 0 < proof.share_of_bound <= 1
        assert 0 < proof.lipschitz_share <= 1


@pytest.mark.parametrize("name", WITH_BIAS)
def test_own_bias_minimises_the_objective(name: str) -> None:
    case = cached_case(name, 0)
    problem, best, record = case.problem.at_level(case.run.best_record.level), case.run.best, case.run.best_record
    assert isinstance(problem, DualProblem)
    margins = pulled_of(problem, best.image.astype(np.float64))
    found = problem.certificate(best.point, best.image, margins)
    assert (found.primal, found.bias) == (record.certificate.primal, record.certificate.bias)
    assert found.dual <= record.certificate.dual  # which may belong to another point
    margins *= problem.outer.slope(problem.rows.squared_norm(best.point, best.image))
    bias = record.certificate.bias
    values = [problem.risk.value(margins, bias + step) for step in (-5.0, -1e-3, 0.0, 1e-3, 5.0)]
    assert values[2] <= min(values) + 1e-12 * abs(values[2])
    assert values[0] > values[2] < values[4]


def test_optimum_of_zero_ends_the_run() -> None:
    # nu below the share of rows that must be wrong: the reduced hulls meet, and w = 0 is best
    state, outcome = solve(NuSVM(0.2).problem(two_classes(0, distance=0.1)), Fapg())
    assert outcome.kind == "done"
    assert "optimum is 0" in outcome.reason
    assert state.history[-1].iteration < 1000


@pytest.mark.parametrize("seed", range(3))
def test_bound_holds_where_rows_are_so_short_that_steps_are_far_longer_than_the_set(seed: int) -> None:
    rows = two_classes(seed, n_rows=10, n_columns=2)
    problem = CSVM(0.002).problem(DenseRows(1e-6 * rows.rows, rows.labels))
    best = solve_problem(problem, Newton(1e-10)).certificate.primal
    found = solve_problem(problem, Fapg(tolerance=1e-6, max_iterations=200)).certificate
    assert found.dual <= best * (1.0 + 1e-9)
