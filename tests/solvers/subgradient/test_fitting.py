"""Growing samples: until a bound on all rows is small enough, until all rows are used, or as in the paper."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from okl.losses import EpsilonInsensitive, Hinge, MulticlassHinge
from okl.solvers.subgradient.fitting import GeometricGrowth, PaperGrowth
from okl.solvers.subgradient.scs import SampleDescent, Scs, solve_sample
from okl.solvers.subgradient.spaces import ColumnSource, KernelSource, Vector


def problem(n_rows: int, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, 6))
    return rows, np.where(rows @ rng.standard_normal(6) + rng.standard_normal(n_rows) > 0.0, 1.0, -1.0)


def in_order(rows: FloatArray) -> ColumnSource:
    return ColumnSource(rows, np.arange(len(rows)))


def objective(rows: FloatArray, targets: FloatArray, vector: Vector, lam: float) -> float:
    weights = vector.coefficients
    return 0.5 * lam * float(weights @ weights) + float(Hinge().value(rows @ weights, targets).mean())


def test_full_bound_covers_the_excess_and_reads_some_of_the_rows() -> None:
    rows, targets = problem(100_000)
    best = solve_sample(in_order(rows).space(len(rows)), targets, Scs(lam=0.1, gap=1e-6)).lower_bound
    drawn = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(rows))
        source = ColumnSource(rows, order)
        fitted = GeometricGrowth(first_sample=500).fit(source, targets[order], Scs(lam=0.1, gap=5e-3))
        assert fitted.full is not None
        assert fitted.full.confidence is not None
        assert 0.95 <= fitted.full.confidence < 1.0
        assert objective(rows, targets, fitted.vector, 0.1) - best <= fitted.full.gap <= 5e-3
        drawn.append(fitted.n_rows + fitted.full.rows)
    assert max(drawn) < 0.5 * len(rows)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), MulticlassHinge()])
def test_cuts_that_are_carried_on_bound_the_larger_sample(loss: Any) -> None:
    rows, targets = problem(2000)
    if loss.task == "multiclass":
        targets = np.argmax(rows[:, :3], axis=1).astype(np.float64)
    source = ColumnSource(rows, np.arange(2000), n_outputs=3 if loss.task == "multiclass" else 1)
    method = Scs(lam=0.01, loss=loss, gap=1e-9)
    small = solve_sample(source.space(600), targets[:600], method, until=1e-3)
    best = solve_sample(source.space(2000), targets, method)
    cold = SampleDescent(source.space(2000), targets, method, small.point.vector)
    warm = SampleDescent(source.space(2000), targets, method, small.point.vector, small)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-12)
    assert cold.lower_bound < warm.lower_bound <= best.objective
    while warm.finished(1e-9, 500) is None:  # most of its cuts are sums of few rows' changes by then
        warm.iterate()
    assert warm.lower_bound <= best.objective <= warm.objective + 1e-9 <= best.objective + 2e-9


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), MulticlassHinge()])
@pytest.mark.parametrize("exact_kernel", [True, False])
def test_a_sample_of_all_rows_gives_an_exact_bound(loss: Any, exact_kernel: bool) -> None:
    rows, targets = problem(1500)
    n_outputs = 1
    if loss.task == "multiclass":
        n_outputs, targets = 3, np.argmax(rows[:, :3], axis=1).astype(np.float64)
    shared = (rows, np.arange(1500))
    source = (
        KernelSource(Gaussian(3.0), *shared, n_outputs=n_outputs)
        if exact_kernel
        else ColumnSource(*shared, n_outputs=n_outputs)
    )
    method = Scs(lam=0.01, loss=loss, gap=1e-4)
    fitted = GeometricGrowth(first_sample=100, confidence=None).fit(source, targets, method)
    assert fitted.full is not None
    assert fitted.full.confidence is None
    assert fitted.n_rows == 1500
    whole = solve_sample(source.space(1500), targets, method)
    assert abs(fitted.objective - whole.objective) <= 1e-4
    assert {record.n_rows for record in fitted.history} == {100, 400, 1500}
    assert np.abs(fitted.vector.coefficients).max() > 0.0


def test_kernel_sample_is_certified_by_fresh_rows() -> None:
    rows, targets = problem(8000, seed=1)
    source = KernelSource(Gaussian(3.0), rows, np.arange(len(rows)))
    fitted = GeometricGrowth(first_sample=200).fit(source, targets, Scs(lam=0.1, gap=0.03))
    assert fitted.full is not None
    assert fitted.full.confidence is not None
    assert fitted.n_rows < 4000


def test_a_sample_of_one_label_is_enlarged_with_a_note() -> None:
    rows, targets = problem(3000)
    targets = np.sort(targets)
    fitted = GeometricGrowth(first_sample=50).fit(in_order(rows), targets, Scs(lam=0.1, gap=1e-3))
    assert any("a single label, so the sample was enlarged" in note for note in fitted.notes)
    assert fitted.history[0].n_rows > (targets < 0).sum()
    with pytest.raises(DataError, match="labels are equal"):
        GeometricGrowth().fit(in_order(rows), np.ones(3000), Scs())
    with pytest.raises(DataError, match="labels are equal"):
        PaperGrowth().fit(in_order(rows), np.ones(3000), Scs(directions="conjugate"))


def test_fewer_rows_than_the_first_sample_are_all_used() -> None:
    rows, targets = problem(80)
    fitted = GeometricGrowth(first_sample=1000).fit(in_order(rows), targets, Scs(lam=0.1, gap=1e-6))
    assert fitted.n_rows == 80
    assert any("it has all of them" in note for note in fitted.notes)


def test_gap_that_rows_cannot_certify_is_noted() -> None:
    rows, targets = problem(80)
    fitted = GeometricGrowth().fit(in_order(rows), targets, Scs(lam=0.1, gap=1e-18))
    assert fitted.reason == "stalled"
    assert any("no longer reduce the gap" in note for note in fitted.notes)
    assert not any("rounding" in note for note in fitted.notes)


@pytest.mark.parametrize("exact_kernel", [True, False])
@pytest.mark.parametrize("directions", ["conjugate", "subgradient"])
def test_growth_of_the_paper_ends_near_the_optimum_with_a_valid_bound(exact_kernel: bool, directions: Any) -> None:
    rows, targets = problem(1200)
    order = np.arange(1200)
    source = KernelSource(Gaussian(3.0), rows, order) if exact_kernel else ColumnSource(rows, order)
    best = solve_sample(source.space(1200), targets, Scs(lam=0.01, gap=1e-6))
    method = Scs(lam=0.01, gap=2e-3, directions=directions, max_iterations=400)
    fitted = PaperGrowth(validation_rows=100).fit(source, targets, method)
    assert fitted.full is not None
    assert fitted.n_rows == 1200
    assert fitted.lower_bound <= best.objective
    assert best.lower_bound <= fitted.objective <= best.objective + 0.02
    sizes = [record.n_rows for record in fitted.history]
    assert sizes[0] == 150
    assert sizes[1] == 166
    assert fitted.reason == "gap" or directions == "subgradient"


def test_growth_of_the_paper_takes_only_steps_that_its_validation_rows_agree_to() -> None:
    rows, targets = problem(4000)
    seen: list[tuple[Vector, int]] = []
    method = Scs(lam=0.01, gap=2e-3, directions="conjugate", max_iterations=60)
    PaperGrowth(validation_rows=100).fit(
        in_order(rows), targets, method, lambda point, drawn: seen.append((point.vector, drawn))
    )
    taken = 0
    for (before, _), (after, drawn) in pairwise(seen):
        if not np.array_equal(before.coefficients, after.coefficients):
            on_sample, on_validation = (
                objective(rows[part], targets[part], before, 0.01) - objective(rows[part], targets[part], after, 0.01)
                for part in (slice(100, 100 + drawn), slice(100))
            )
            assert 0.0 < 0.2 * on_sample <= on_validation + 1e-12
            taken += 1
    assert taken >= 5
    assert seen[-1][1] < 1200


def test_bounds_of_a_growing_sample_hold_on_each_of_its_sizes() -> None:
    rows, targets = problem(700)
    fitted = PaperGrowth(validation_rows=100, first_sample=100, step_rows=20).fit(
        in_order(rows), targets, Scs(lam=0.3, gap=1e-3, directions="conjugate")
    )
    all_rows, checked = rows[100:], 0
    for record in fitted.history:
        if record.n_rows < 600:
            own = ColumnSource(all_rows, np.arange(600)).space(record.n_rows)
            best = solve_sample(own, targets[100 : 100 + record.n_rows], Scs(lam=0.3, gap=1e-7))
            assert record.lower_bound <= best.objective + 1e-12
            checked += record.lower_bound > 0.0
    assert checked > 3


def test_growth_of_the_paper_refuses_a_bundle_and_wrong_numbers() -> None:
    rows, targets = problem(100)
    with pytest.raises(ConfigError, match="the cuts of a bundle are valid on one sample only"):
        PaperGrowth().fit(in_order(rows), targets, Scs())
    for wrong in ({"first_sample": 1}, {"step_rows": 0}, {"validation_rows": 0}):
        with pytest.raises(ConfigError):
            PaperGrowth(**wrong)
    for other in ({"confidence": 1.0}, {"first_sample": 1}, {"replicates": 1}):
        with pytest.raises(ConfigError):
            GeometricGrowth(**other)
