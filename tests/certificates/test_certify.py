"""Regret of learners in a ball, the best weights in hindsight, and theoretical bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from okl.certificates.certify import (
    KernelSetting,
    LearnerLosses,
    StepSizes,
    growth_exponent,
    kernel_space_bound,
    map_space_bound,
)
from okl.certificates.hindsight import solve_in_ball
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from okl.losses import ExtensionLoss, Hinge, Logistic, Loss
from okl.runs.plan import check
from okl.solvers.accelerated.base import RowOperator
from okl.solvers.accelerated.operators import DenseRows, MappedInputs
from okl.solvers.online.linear import check_ball
from okl.solvers.settings import TrainSettings
from tests.rows import curved, train, train_settings, write

LOSSES: dict[Any, Loss] = {"hinge": Hinge(), "logistic": Logistic()}


def noisy_rows(seed: int, rows: int = 120, columns: int = 5) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, columns))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.where(features[:, 0] + 0.4 * rng.standard_normal(rows) > 0.1, 1.0, -1.0)
    return features, labels


def brute_force(loss: Loss, features: FloatArray, labels: FloatArray, radius: float, weights: FloatArray) -> float:
    """Return the least loss in the ball by sequential quadratic programming on increasingly sharp smooth hinges."""

    def objective(w: FloatArray, width: float) -> tuple[float, FloatArray]:
        margins = labels * (features @ w)
        if loss.name == "logistic":
            slopes = loss.derivative(margins, np.ones(len(margins)))
            return float(weights @ loss.value(margins, np.ones(len(margins)))), features.T @ (weights * labels * slopes)
        shares = np.clip((1.0 - margins) / width, 0.0, 1.0)
        return float(weights @ (shares * (1.0 - margins) - 0.5 * width * shares**2)), -features.T @ (
            weights * labels * shares
        )

    w = np.zeros(features.shape[1])
    inside = {"type": "ineq", "fun": lambda w: radius**2 - w @ w, "jac": lambda w: -2.0 * w}
    for width in (1e-1, 1e-2, 1e-3, 1e-4):
        w = minimize(objective, w, (width,), "SLSQP", jac=True, constraints=[inside], options={"maxiter": 500}).x
    w *= min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300))
    return float(weights @ loss.value(features @ w, labels))


@pytest.mark.parametrize("radius", [0.5, 3.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_best_weights_of_a_ball_match_brute_force(loss: Any, radius: float) -> None:
    features, labels = noisy_rows(1)
    weights = np.where(labels > 0, 1.5, 1.0)
    exact = partial(brute_force, LOSSES[loss], features, labels, radius, weights)()
    found = solve_in_ball(
        DenseRows(features, labels), loss, radius, weights, enough=lambda proof, _: proof.relative_gap < 1e-5
    )
    norm = float(np.linalg.norm(found.weights))
    assert found.certificate.dual <= exact + 1e-9
    assert found.certificate.primal == pytest.approx(exact, rel=1e-4)
    assert norm <= radius * (1 + 1e-12)
    assert norm == pytest.approx(radius, rel=1e-2)  # the ball is active
    assert found.certificate.primal == pytest.approx(
        float(weights @ LOSSES[loss].value(features @ found.weights, labels))
    )


def test_a_comparator_starts_from_that_of_fewer_rows() -> None:
    features, labels = noisy_rows(2, rows=400)
    few = solve_in_ball(DenseRows(features[:200], labels[:200]), "hinge", 3.0)
    near = solve_in_ball(DenseRows(features, labels), "hinge", 3.0, near=few)
    cold_start = solve_in_ball(DenseRows(features, labels), "hinge", 3.0)
    assert near.certificate.relative_gap <= 0.01 >= cold_start.certificate.relative_gap
    assert near.iterations < cold_start.iterations


def test_inputs_mapped_on_each_read_give_the_bits_of_features_in_memory() -> None:
    inputs, labels = noisy_rows(3, rows=5000)
    inputs = np.ascontiguousarray(inputs, dtype=np.float32)
    feature_map = draw_fourier_map(Gaussian(0.7), inputs.shape[1], 11, 0)
    held = DenseRows(feature_map.transform(inputs), labels, 2)
    mapped = MappedInputs(inputs, labels, feature_map, 2)
    point = np.random.default_rng(0).random(len(labels))
    images, pulled = np.empty((2, held.n_image)), np.empty((2, len(labels)))
    both: tuple[RowOperator, RowOperator] = held, mapped
    for k, rows in enumerate(both):
        rows.apply(images[k], point)
        rows.adjoint(pulled[k], images[k])
    np.testing.assert_array_equal(images[0], images[1])
    np.testing.assert_array_equal(pulled[0], pulled[1])
    np.testing.assert_array_equal(held.squared_lengths(), mapped.squared_lengths())


@pytest.mark.parametrize("decaying", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_regret_against_any_weights_of_the_ball_obeys_the_bound(loss: Any, decaying: bool) -> None:
    least = np.inf
    for seed in range(16):
        rng = np.random.default_rng(seed)
        features, labels = noisy_rows(seed)
        labels *= np.where(rng.random(len(labels)) < 0.2, -1.0, 1.0)
        radius = float(np.exp(rng.uniform(-1.0, 2.0)))
        steps = StepSizes(radius * float(np.exp(rng.uniform(-3.0, 1.0))), decaying)
        played = play(LOSSES[loss], features, labels, radius, steps)
        best = solve_in_ball(DenseRows(features, labels), loss, radius).weights
        drawn = rng.standard_normal((20, features.shape[1]))
        drawn *= radius * rng.random((20, 1)) / np.linalg.norm(drawn, axis=1, keepdims=True)
        for other in [best, *drawn]:
            regret = played.loss - float(LOSSES[loss].value(features @ other, labels).sum())
            bound = map_space_bound(played, steps, radius, float(np.linalg.norm(other)))
            assert regret <= bound
            least = min(least, bound / max(regret, 1e-9))
    assert least < 4.0  # the bound is active


def play(loss: Loss, features: FloatArray, labels: FloatArray, radius: float, steps: StepSizes) -> LearnerLosses:
    w, total, stepped = np.zeros(features.shape[1]), 0.0, 0.0
    for t, (z, y) in enumerate(zip(features, labels, strict=True), start=1):
        score, target = np.array([z @ w]), np.array([y])
        total += float(loss.value(score, target)[0])
        gradient = loss.derivative(score, target)[0] * z
        stepped += steps.at(t) * float(gradient @ gradient)
        w = w - steps.at(t) * gradient
        w *= min(1.0, radius / max(float(np.linalg.norm(w)), 1e-300))
    return LearnerLosses(len(labels), total, stepped)


def test_growth_is_the_slope_of_the_logarithms() -> None:
    rows = np.array([100.0, 200.0, 400.0, 800.0])
    assert growth_exponent(rows, 3.0 * rows**0.4) == pytest.approx(0.4)
    assert growth_exponent(rows, np.array([3.0, 4.0, -1.0, 5.0])) is None
    assert growth_exponent(rows[:1], rows[:1]) is None


def test_theorem_1_is_vacuous_for_few_frequencies_and_not_for_very_many() -> None:
    played = LearnerLosses(100_000, 30_000.0, 500.0)
    setting = KernelSetting(5, 400, 10.0, 5.0, 1.0, 4.0)
    few = kernel_space_bound(played, 0.01, setting)
    many = kernel_space_bound(played, 0.01, replace(setting, n_frequencies=10_000_000))
    assert few.vacuous
    assert not many.vacuous
    assert many.epsilon < 0.01 < few.epsilon <= 2.0
    failure = 256 * 5.0 * (10.0 / many.epsilon) ** 2 * np.exp(-10_000_000 * many.epsilon**2 / (4 * 7))
    assert failure == pytest.approx(0.05, rel=1e-6)
    expected = (1 + many.epsilon) * 16 / 0.02 + 0.005 * 100_000 + many.epsilon * 100_000 * 4
    assert many.bound == pytest.approx(expected)
    assert kernel_space_bound(played, 0.01, replace(setting, second_moment=np.inf)).epsilon == 2.0
    classes = kernel_space_bound(played, 0.01, replace(setting, n_frequencies=10_000_000, n_classes=3))
    third = 3 * (1 + many.epsilon) * 16 / 0.02 + 0.01 * 100_000 + 2 * many.epsilon * 100_000 * 4
    assert classes.bound == pytest.approx(third), "Theorem 3"


class Watcher:
    """Observer that records the progress of the stage "certify"."""

    def __init__(self) -> None:
        self.now = ""
        self.reports: list[tuple[int, int, dict[str, float]]] = []

    def stage(self, name: str) -> None:
        self.now = name

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        if self.now == "certify":
            self.reports.append((done, total, metrics))

    def finish(self) -> None:
        self.now = ""


WATCHER = Watcher()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("certified")
    settings = train_settings(write(folder, curved(6000)), folder / "run", radius=5.0, certify=True)
    return train(settings, WATCHER)


def test_an_observer_receives_progress_of_certifying_to_its_end(certified: dict[str, Any]) -> None:
    done = [one[0] for one in WATCHER.reports]
    totals = {one[1] for one in WATCHER.reports}
    rows = [one["rows"] for one in certified["certificate"]["horizons"]]
    assert totals == {certified["rows"] + sum(rows)}
    assert done == sorted(done)
    assert done[-1] == max(totals)
    assert len(set(done)) > 6
    gaps = [one[2]["relative_gap"] for one in WATCHER.reports if one[2]]
    assert max(gaps) > 0.05
    assert gaps[-1] <= 0.01


def test_a_certificate_is_in_the_report_of_its_run(certified: dict[str, Any]) -> None:
    page = (Path(certified["run"]) / "report.html").read_text()
    written = json.loads((Path(certified["run"]) / "result.json").read_text())["certificate"]
    assert "<h3>Regret</h3>" in page
    assert page.count('alt="Regret against rows') == page.count('alt="Average regret against rows') == 1
    assert written == certified["certificate"]
    assert {"kind", "regret", "bound", "comparator", "horizons", "average_regret", "kernel_bound"} <= set(written)


def test_a_certified_run_states_its_regret_at_five_horizons(certified: dict[str, Any]) -> None:
    proof, rows = certified["certificate"], certified["rows"]
    assert proof["kind"] == "regret"
    assert proof["shown"]
    horizons = proof["horizons"]
    assert len(horizons) == 5
    assert [one["rows"] / rows for one in horizons] == pytest.approx([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1], abs=0.04)
    for one in horizons:
        comparator = one["comparator"]
        assert comparator["relative_gap"] <= 0.01
        assert comparator["norm"] <= 5.0 * (1 + 1e-9)
        assert one["regret"] == pytest.approx(one["loss"] - comparator["objective"])
        assert one["regret_at_most"] == pytest.approx(one["loss"] - comparator["dual_objective"])
        assert 0 < one["regret"] <= one["regret_at_most"] <= one["bound"]
        assert one["average_regret"] == pytest.approx(one["regret"] / one["rows"])
    assert {name: proof[name] for name in horizons[-1]} == horizons[-1]
    assert proof["growth_exponent"] < 1.0
    assert proof["kernel_bound"]["vacuous"]
    assert certified["chosen"]["step_size"] == pytest.approx(5.0 / np.sqrt(2.0))


def test_the_loss_of_a_certified_run_matches_a_naive_learner(certified: dict[str, Any], tmp_path: Path) -> None:
    proof = certified["certificate"]
    plain = train(train_settings(Path(certified["run"]) / "data", tmp_path / "plain", radius=5.0))
    assert plain["weights_sha256"] == certified["weights_sha256"]
    assert "certificate" not in plain
    assert proof["horizons"][0]["loss"] < proof["horizons"][1]["loss"] < proof["loss"]


def test_regret_is_shown_only_with_a_radius(certified: dict[str, Any], tmp_path: Path) -> None:
    data = Path(certified["run"]) / "data"
    proof = train(train_settings(data, tmp_path / "run", certify=True, step_size=0.5))["certificate"]
    assert not proof["shown"]
    assert "Set a radius" in proof["reason"]
    assert "regret" not in proof
    page = (tmp_path / "run" / "report.html").read_text()
    assert "No regret is shown. Regret requires" in page
    assert "Regret against rows" not in page


@pytest.mark.parametrize(
    ("solver", "task", "more"),
    [
        ("fogd", "multiclass", {"class_weights": {"5": 2.0}}),
        ("fogd", "regression", {}),
        ("nogd", "binary", {"loss": "logistic"}),
        ("nogd", "multiclass", {"landmarks": "uniform"}),
        ("nogd", "multiclass", {}),
        ("nogd", "regression", {"step_rule": "sqrt", "average": False}),
    ],
)
def test_runs_of_every_task_are_certified(solver: str, task: Any, more: dict[str, Any], tmp_path: Path) -> None:
    radius, size = 40.0 if task == "regression" else 4.0, {"budget": 30} if solver == "nogd" else {"frequencies": 40}
    files = {"data": str(write(tmp_path, curved(4000, task))), "out": str(tmp_path / "run")}
    values = files | size | {"solver": solver, "radius": radius, "certify": True} | more
    result = train(settings_from(TrainSettings, values, "test"))
    proof, page = result["certificate"], (tmp_path / "run" / "report.html").read_text()
    assert proof["shown"]
    assert len(proof["horizons"]) == 4
    for one in proof["horizons"]:
        assert 0 < one["regret"] <= one["regret_at_most"] <= one["bound"]
        assert one["comparator"]["relative_gap"] <= 0.01
        assert one["comparator"]["norm"] <= radius * (1 + 1e-9)
    assert proof["growth_exponent"] < 1.0
    assert "<h3>Regret</h3>" in page
    assert page.count('alt="Regret against rows') == page.count('alt="Average regret against rows') == 1
    kernel = proof["kernel_bound"]
    theorem = f"Theorem {(3 if task == 'multiclass' else 1) + (solver == 'nogd')}"
    assert kernel["theorem"].endswith(theorem)
    assert f"{theorem} of Lu et al." in page
    assert kernel["bound"] >= proof["regret_at_most"]
    assert "least_loss" not in kernel or kernel["bound"] == pytest.approx(proof["loss"] - kernel["least_loss"])
    assert ("up to epsilon count 0" in page) == (task == "regression")
    assert not np.isclose(result["chosen"]["step_size"], 0.0)


@pytest.mark.parametrize(("drawn", "bounded"), [("independent", True), ("orthogonal", False), ("quasi", False)])
def test_theorem_of_independent_frequencies_is_not_claimed_for_others(
    drawn: str, bounded: bool, tmp_path: Path
) -> None:
    values = {"data": str(write(tmp_path, curved(400))), "out": str(tmp_path / "run"), "frequencies": 20, "map": drawn}
    result = train(settings_from(TrainSettings, values | {"radius": 3.0, "certify": True}, "test"))
    assert result["certificate"]["shown"]
    assert (result["certificate"]["kernel_bound"] is not None) == bounded


def test_nogd_without_a_full_budget_has_no_map_to_compare_in(tmp_path: Path) -> None:
    data, values = str(write(tmp_path, curved(400))), {"budget": 270, "radius": 3.0, "certify": True}
    settings = settings_from(
        TrainSettings, {"data": data, "out": str(tmp_path / "run"), "solver": "nogd"} | values, "t"
    )
    proof = train(settings)["certificate"]
    assert not proof["shown"]
    assert proof["reason"].endswith("so there is no Nystrom map to compare in. Set a smaller budget.")
    assert "No regret is shown. " in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"certify": True, "mode": "mix"}, "regret is defined for rows that are trained on in order"),
        ({"certify": True, "workers": 2}, "regret is defined for rows that are trained on in order"),
        ({"certify": True, "passes": 2}, "regret is defined for a single pass"),
        ({"certify": True, "solver": "nogd", "mode": "mix"}, "regret is defined for rows that are trained on in order"),
        ({"certify": True, "solver": "nogd", "passes": 2}, "regret is defined for a single pass"),
        (
            {"certify": True, "solver": "bsgd-removal"},
            "bsgd-removal has no certify: it belongs to fogd, nogd or pegasos",
        ),
        ({"radius": 2.0, "solver": "nogd", "mode": "sum"}, "mode = 'sum', but nogd with a radius supports stream only"),
        ({"solver": "nogd", "step_rule": "sqrt"}, "only with a bound on the weights"),
        (
            {"radius": 2.0, "mode": "sum"},
            "mode = 'sum', but fogd with a radius supports stream only. .* remove the radius",
        ),
        ({"step_rule": "sqrt"}, "only with a bound on the weights"),
    ],
)
def test_proofs_that_cannot_be_given_are_refused(
    values: dict[str, Any], message: str, certified: dict[str, Any], tmp_path: Path
) -> None:
    data, out = str(Path(certified["run"]) / "data"), str(tmp_path / "run")
    with pytest.raises(ConfigError, match=message):
        check(settings_from(TrainSettings, {"data": data, "out": out, **values}, "test"))


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_tracking_in_a_ball_requires_two_classes(task: Any, tmp_path: Path) -> None:
    files = {"data": str(write(tmp_path, curved(400, task))), "out": str(tmp_path / "run"), "radius": 2.0}
    with pytest.raises(ConfigError, match="radius = 2 needs two classes and the hinge or logistic loss"):
        train(settings_from(TrainSettings, files | {"track": True, "certify": True}, "test"))


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_losses_of_extensions_have_no_ball(task: Any) -> None:
    with pytest.raises(ConfigError, match="needs the hinge, logistic or half squared loss, but the loss is mine"):
        check_ball(2.0, False, ExtensionLoss("mine", task, "here"))
