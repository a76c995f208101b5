"""Certificates of several classes, regressions and NOGD, against a cone solver and slow twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from okl.certificates.certify import LearnerLosses, RegretAtHorizon, fourier_error, nystrom_floor
from okl.certificates.hindsight import MemoryRows, solve_in_ball, solve_least_squares
from okl.features.base import transform_rows
from okl.features.fourier import draw_fourier_map
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from okl.solvers.online.linear import LinearLearner
from tests.certificates.streams import LOSSES, Stream, check_stream, least_loss, limits_about, play_stream
from tests.naive.sgd import slopes_of, value_of

STREAMS = 8  # 200 of each: python -m tests.benchmarks.certified
KINDS = [("multiclass", False), ("regression", False), ("binary", True), ("multiclass", True), ("regression", True)]


@pytest.mark.parametrize(("task", "nystrom"), KINDS)
def test_certificates_cover_the_true_regret_of_random_streams(task: str, nystrom: bool) -> None:
    checked = [check_stream(task, seed, nystrom) for seed in range(STREAMS)]
    assert all(one.covered for one in checked)
    assert min(one.bound / one.regret for one in checked if one.regret > 0.0) < 4.0  # the bound is active
    if nystrom:
        vacuous = sum(bool(one.kernel_vacuous) for one in checked)
        assert 0 < vacuous < STREAMS


@pytest.mark.parametrize("task", LOSSES)
def test_certificates_cover_the_true_regret_within_limits(task: str) -> None:
    checked = [check_stream(task, seed, False, limited=True) for seed in range(STREAMS)]
    assert all(one.covered for one in checked)
    assert min(one.bound / one.regret for one in checked if one.regret > 0.0) < 6.0


@pytest.mark.parametrize("task", LOSSES)
@pytest.mark.parametrize("seed", [0, 3])  # without and with class weights, the step constant and decaying
def test_losses_of_nogd_are_those_of_steps_and_projections_in_the_space_of_the_kernel(task: str, seed: int) -> None:
    stream = play_stream(task, seed, nystrom=True)
    loss, stepped = play_slowly(stream)
    assert stream.played.loss == pytest.approx(loss, rel=1e-9)
    assert stream.played.stepped_gradients == pytest.approx(stepped, rel=1e-9)


def play_slowly(stream: Stream) -> tuple[float, float]:
    """Run NOGD in coordinates of the kernel space: rows of `exact` are k(x, .), rows of `w` are f for each output."""
    values, vectors = np.linalg.eigh(stream.kernel.matrix(stream.inputs, stream.inputs))
    exact: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    learner, onto = stream.learner, np.eye(len(exact))
    supports: list[int] = []
    w, loss, stepped = np.zeros((learner.n_outputs, len(exact))), 0.0, 0.0
    for t, (y, c) in enumerate(zip(stream.targets, stream.weights, strict=True), start=1):
        slopes = slopes_of(stream.loss, w @ exact[t - 1], y)
        if np.any(slopes != 0.0) and len(supports) == learner.budget:
            parts, sizes, _ = np.linalg.svd(exact[np.array(supports)].T, full_matrices=False)
            basis = parts[:, : stream.linear.feature_map.n_columns]
            assert sizes[basis.shape[1] - 1] > 1e-6
            onto, supports = basis @ basis.T, [*supports, -1]
            w = w @ onto
            slopes = slopes_of(stream.loss, w @ exact[t - 1], y)
        if np.any(slopes != 0.0) and len(supports) < learner.budget:
            supports.append(t - 1)
        gradient = c * np.outer(slopes, onto @ exact[t - 1])
        loss += c * value_of(stream.loss, w @ exact[t - 1], y)
        stepped += stream.steps.at(t) * float(np.sum(gradient**2))
        w = w - stream.steps.at(t) * gradient
        w *= min(1.0, stream.radius / max(float(np.linalg.norm(w)), 1e-300))
    return loss, stepped


@pytest.mark.parametrize("task", LOSSES)
def test_projected_functions_lose_no_more_than_the_floor_allows(task: str) -> None:
    stream = play_stream(task, 5, nystrom=True)
    held, _ = stream.hindsight()
    assert held.residuals is not None
    matrix = stream.kernel.matrix(stream.inputs, stream.inputs)
    trace = float(np.trace(matrix - stream.features @ stream.features.T))
    assert held.residuals.sum() == pytest.approx(trace, rel=1e-6)
    values, vectors = np.linalg.eigh(matrix)
    exact = vectors * np.sqrt(np.maximum(values, 0.0))
    inside = stream.features @ np.linalg.lstsq(exact, stream.features, rcond=None)[0].T  # projections of k(x, .)
    rng, loss, outputs = np.random.default_rng(0), stream.loss, stream.learner.n_outputs
    for _ in range(50):
        f = rng.standard_normal((outputs, len(exact)))
        f *= stream.radius / np.linalg.norm(f)
        scores = (exact @ f.T) if outputs > 1 else (exact @ f.T)[:, 0]
        near = (inside @ f.T) if outputs > 1 else (inside @ f.T)[:, 0]
        values_at = [_total(stream, at) for at in (scores, near)]
        lipschitz = {"binary": 1.0, "multiclass": np.sqrt(2.0), "regression": np.inf}[loss.task]
        floor = nystrom_floor(values_at[1], held.residuals, stream.radius, lipschitz, stream.weights)
        assert floor <= values_at[0] + 1e-9


def _total(stream: Stream, scores: FloatArray) -> float:
    """Return the sum of the losses: half squared errors in a regression."""
    if stream.loss.task == "regression":
        return float(0.5 * np.sum((scores - stream.targets) ** 2))
    return float(stream.weights @ stream.loss.value(scores, stream.targets))


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_functions_of_the_kernel_lose_no_less_than_the_floor_of_a_fourier_map(task: str) -> None:
    """The best function of the kernel with a limited coefficient sum is found by Frank and Wolfe's method."""
    rng, n_rows, radius, loss = np.random.default_rng(0), 80, 2.0, LOSSES[task]
    inputs = rng.standard_normal((n_rows, 3))
    targets = np.sin(inputs[:, 0]) + rng.standard_normal(n_rows)
    targets = np.where(targets > 0.0, 1.0, -1.0) if task == "binary" else targets
    drawn = draw_fourier_map(Gaussian(1.5), 3, 500, 0, "float64")
    matrix, features = Gaussian(1.5).matrix(inputs, inputs), transform_rows(drawn, inputs)
    epsilon = fourier_error(n_rows, 500)
    assert 0.25 * epsilon < np.abs(features @ features.T - matrix).max() < epsilon
    learner = LinearLearner(drawn, loss, 0.1, radius=radius)
    held = MemoryRows(features, targets, learner, True, 1)
    if task == "regression":
        hindsight = solve_least_squares(held, radius)
    else:
        hindsight = solve_in_ball(held.between(0, n_rows), "hinge", radius)
    bound = RegretAtHorizon(LearnerLosses(n_rows, 100.0, 1.0), learner, hindsight)._floor_bound(held, epsilon)
    alpha = np.zeros(n_rows)
    for step in range(3000):
        f = matrix @ alpha
        pull = matrix @ (f - targets if task == "regression" else -targets * (targets * f < 1.0))
        vertex, best = np.zeros(n_rows), int(np.abs(pull).argmax())
        vertex[best] = -np.sign(pull[best]) * bound["l1_norm"]
        alpha += 2.0 / (step + 2.0) * (vertex - alpha)
    stream = Stream(loss, inputs, targets, np.ones(n_rows), Gaussian(1.5), learner, learner, LearnerLosses(1, 0.0, 0.0))
    assert np.linalg.norm(alpha @ features) <= radius
    assert 0.0 < bound["least_loss"] <= _total(stream, matrix @ alpha)
    assert bound["bound"] == pytest.approx(100.0 - bound["least_loss"])


def test_nystrom_floor_matches_values_computed_by_hand() -> None:
    residuals = np.array([0.25, 0.0, 1.0])
    assert nystrom_floor(10.0, residuals, 2.0, 1.0) == pytest.approx(10.0 - 2.0 * 1.5)
    assert nystrom_floor(10.0, residuals, 2.0, np.sqrt(2.0), np.array([2.0, 5.0, 0.5])) == pytest.approx(
        10.0 - np.sqrt(2.0) * 2.0 * 1.5
    )
    assert nystrom_floor(8.0, residuals, 2.0, np.inf) == pytest.approx(0.5 * (4.0 - 2.0 * np.sqrt(1.25)) ** 2)
    assert nystrom_floor(0.1, residuals, 2.0, 1.0) == nystrom_floor(0.1, residuals, 2.0, np.inf) == 0.0


def test_cone_solver_finds_a_loss_computed_by_hand() -> None:
    features, targets = np.array([[1.0], [1.0]]), np.array([1.0, -1.0])
    assert least_loss(LOSSES["binary"], features, targets, 1.0, np.array([3.0, 1.0]))[0] == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_inputs_mapped_on_each_read_and_a_warm_start_give_the_same_optimum(task: str) -> None:
    stream = play_stream(task, 2, nystrom=False)
    held, found = stream.hindsight()
    mapped = replace(held, rows=stream.inputs, mapped=False)
    if task == "regression":
        cold_start = solve_least_squares(mapped, stream.radius)
        assert cold_start.weights == pytest.approx(found.weights)
        assert solve_least_squares(mapped.first(60), stream.radius).certificate.primal < found.certificate.primal
        return
    few = solve_in_ball(mapped.between(0, 60), "hinge", stream.radius)
    near = solve_in_ball(mapped.between(0, 100), "hinge", stream.radius, near=few)
    for one in (few, near):
        assert one.certificate.relative_gap <= 0.01
        assert np.linalg.norm(one.weights) <= stream.radius * (1 + 1e-9)
    assert near.certificate.dual <= found.certificate.primal
    assert found.certificate.dual <= near.certificate.primal
    weights = near.weights.reshape(stream.learner.n_outputs, -1)
    assert near.certificate.primal == pytest.approx(_total(stream, stream.features @ weights.T))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("task", LOSSES)
def test_best_weights_within_limits_match_a_cone_solver(task: str, seed: int) -> None:
    stream = play_stream(task, seed, nystrom=False)
    features, outputs = stream.features, stream.learner.n_outputs
    free = stream.hindsight()[1].weights.reshape(outputs, -1)
    limits = limits_about(stream.inputs, features, np.full(2, 0.05), stream.radius, outputs)
    _, found = stream.hindsight(limits=limits)
    expected, _ = least_loss(stream.loss, features, stream.targets, stream.radius, stream.weights, limits)
    assert found.certificate.dual <= expected * (1.0 + 1e-6)
    assert found.certificate.primal == pytest.approx(expected, rel=1e-3)
    assert found.certificate.relative_gap < (1e-6 if task == "regression" else 1e-3)
    assert not limits.excess(found.weights).any()
    assert np.linalg.norm(found.weights) <= stream.radius * (1.0 + 1e-9)
    scores = features @ found.weights.reshape(outputs, -1).T
    assert found.certificate.primal == pytest.approx(_total(stream, scores if outputs > 1 else scores[:, 0]))
    assert limits.excess(free).any(), "the limits change the optimum"
    if task != "regression":
        assert stream.hindsight(limits=limits, near=found)[1].iterations <= found.iterations


def test_shares_of_classes_are_projected_as_by_bisection() -> None:
    rng = np.random.default_rng(4)
    stream = play_stream("multiclass", 1, nystrom=False)
    held, _ = stream.hindsight()
    problem = held.between(0, 100).problem(stream.weights)  # type: ignore[attr-defined]
    points = 2.0 * rng.standard_normal((100, stream.learner.n_outputs))
    out = np.empty(points.size)
    problem.region.prox(out, points.ravel(), 1.0)
    for row, (point, true, upper) in enumerate(zip(points, stream.targets.astype(int), stream.weights, strict=True)):
        wrong = np.arange(len(point)) != true
        low, high = 0.0, float(np.abs(point).max())
        for _ in range(80):
            middle = 0.5 * (low + high)
            too_large = np.maximum(point[wrong] - middle, 0.0).sum() > upper
            low, high = (middle, high) if too_large else (low, middle)
        expected = np.where(wrong, np.maximum(point - high, 0.0), 0.0)
        if np.maximum(point[wrong], 0.0).sum() <= upper:
            expected = np.where(wrong, np.maximum(point, 0.0), 0.0)
        assert out.reshape(points.shape)[row] == pytest.approx(expected, abs=1e-9)
