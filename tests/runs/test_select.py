"""The automatic choice of `okl train` depends only on data, budget and seed, and states its reasons."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from okl.data.dataset import ColumnStatistics, Dataset, Schema
from okl.data.execution import Rows
from okl.data.ingest.run import ingest
from okl.data.reading import sample_rows
from okl.features.bandwidth import kernel_of_bandwidth
from okl.features.metric_learning import metric_shares
from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.foundation.telemetry import NullObserver
from okl.foundation.types import Criterion, Task
from okl.metrics.calibration import fit_calibration, log_losses
from okl.models.file import load_model
from okl.models.onnx import to_onnx
from okl.report.explanation import explanation_text
from okl.report.training import text_summary
from okl.runs import candidates, select
from okl.runs.baselines import fit_logistic
from okl.runs.candidates import (
    FACTORS,
    LARGE_SAMPLE,
    Candidate,
    CandidateResult,
    Selection,
    Validation,
    ValidationSample,
    continued_metric,
    initial_candidates,
    learn_metrics,
    successive_halving,
    with_larger_sample,
)
from okl.runs.explain import ExplainSettings, explain
from okl.runs.model_sizes import (
    ENOUGH_LANDMARKS,
    LEAST_LANDMARKS,
    MOST_LANDMARKS,
    Shape,
    affordable_sizes,
    fogd_seconds,
    large_sample_seconds,
    local_sizes,
    ridge_seconds,
    selection_rounds,
    sizes_of,
)
from okl.runs.select import LEAST_ROWS, Choice, NeighbourSimilarity, are_test_rows_given, choose_solver
from okl.runs.train import TRAIN_STAGES, TrainingRun
from okl.solvers.ridge.gram import Clip, LandmarkBasis, MapBasis, Outputs
from okl.solvers.ridge.penalty_path import fit_rows
from okl.solvers.ridge.solver import plain_inputs
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings as ingest_settings
from tests.rows import train
from tests.runs.small_choice import make_choice_small

# The default of `okl train`: chosen models, reproducibility and messages.

ROWS, SECONDS = 400, 0.5
TIMES = ("seconds",)


def circles(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return two rings in very different units."""
    labels, angle = random.integers(0, 2, ROWS), random.uniform(0.0, 2.0 * np.pi, ROWS)
    radius = 1.0 + labels + 0.1 * random.normal(size=ROWS)
    return np.column_stack([1000.0 * radius * np.cos(angle), radius * np.sin(angle)]), labels


def half_spaces(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return classes separated by a plane with noise, in many columns."""
    inputs = random.normal(size=(ROWS, 12))
    return inputs, (inputs.sum(axis=1) + 3.0 * random.normal(size=ROWS) > 0).astype(int)


def wave(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return a regression with a target far from 0."""
    inputs = random.uniform(-3.0, 3.0, size=(ROWS, 2))
    return inputs, 50.0 + 10.0 * np.sin(2.0 * inputs[:, 0]) + inputs[:, 1]


def stored(folder: Path, inputs: NDArray[np.float64], target: NDArray[Any], task: Task, **options: Any) -> Dataset:
    names = {f"x{j}": column for j, column in enumerate(inputs.T)}
    folder.mkdir(parents=True)
    pq.write_table(pa.table(names | {"y": target}), folder / "rows.parquet")
    settings = ingest_settings(task=task, holdout=0.2, rows_per_shard=300, **options)
    return ingest(folder / "rows.parquet", folder / "set", settings).dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder, random = tmp_path_factory.mktemp("chosen"), np.random.default_rng(5)
    return {
        "circles": stored(folder / "circles", *circles(random), "binary"),
        "half spaces": stored(folder / "half", *half_spaces(random), "binary"),
        "wave": stored(folder / "wave", *wave(random), "regression"),
    }


def settings_for(data: Dataset, **values: Any) -> TrainSettings:
    return settings_from(TrainSettings, {"data": str(data.folder), "budget_seconds": SECONDS} | values, "test")


def without_times(choice: Choice) -> dict[str, Any]:
    record = {name: value for name, value in choice.record.items() if name not in TIMES}
    ran = [{name: value for name, value in one.items() if name not in TIMES} for one in record["candidates"]]
    return record | {"candidates": ran}


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use fewer kernels and landmarks, for tests that do not depend on them."""
    make_choice_small(monkeypatch)


@pytest.fixture(scope="module")
def circles_choice(data: dict[str, Dataset]) -> Choice:
    return choose_solver(settings_for(data["circles"], threads=1), data["circles"])


def test_a_choice_is_reproducible_except_for_its_times(circles_choice: Choice, data: dict[str, Dataset]) -> None:
    again = choose_solver(settings_for(data["circles"], threads=2), data["circles"])
    assert again.settings.model_copy(update={"threads": 1}) == circles_choice.settings
    assert without_times(again) == without_times(circles_choice)
    assert again.record["seconds"] != circles_choice.record["seconds"]
    assert len({one["seconds"] for one in again.record["candidates"]}) > 1


def test_circles_lead_to_a_kernel_and_scaled_inputs(circles_choice: Choice) -> None:
    settings, record = circles_choice.settings, circles_choice.record
    assert settings.solver == "ridge"
    assert settings.model_dump()["kernel"] != "linear"
    assert record["candidates"][0]["name"].startswith(settings.model_dump()["kernel"] + " kernel")
    assert settings.rescale in ("standard", "minmax")
    best, linear = record["candidates"][0], [one for one in record["candidates"] if one["name"].startswith("linear")]
    assert best["score"] > 0.97
    assert max(one["score"] for one in linear) < 0.65
    assert best["kept"]
    assert any("linear model" in sentence for sentence in record["why"])


def test_the_settings_of_a_choice_can_be_given(circles_choice: Choice) -> None:
    settings = circles_choice.settings
    settings.check_options()
    assert settings_from(TrainSettings, settings.model_dump(mode="json"), "test") == settings
    assert circles_choice.record["budget_seconds"] == SECONDS


@pytest.mark.usefixtures("few_candidates")
def test_a_linear_problem_gets_a_linear_model(data: dict[str, Dataset]) -> None:
    choice = choose_solver(settings_for(data["half spaces"]), data["half spaces"])
    assert (choice.settings.solver, choice.settings.model_dump()["kernel"]) == ("ridge", "linear")
    choice.settings.options.check(choice.settings)


@pytest.mark.usefixtures("few_candidates")
def test_a_regression_is_judged_by_the_unexplained_variance(data: dict[str, Dataset]) -> None:
    choice = choose_solver(settings_for(data["wave"]), data["wave"])
    assert choice.settings.model_dump()["kernel"] != "linear"
    assert choice.record["candidates"][0]["score"] > 0.95
    assert "of the variance unexplained" in choice.record["why"][0]


@pytest.mark.usefixtures("few_candidates")
def test_reasons_name_the_loss_for_heavy_tails_and_the_gain_of_a_logarithm(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    inputs, targets = wave(random)
    heavy = stored(tmp_path / "heavy", inputs, targets + 5.0 * random.standard_t(2.0, ROWS), "regression")
    choice = choose_solver(settings_for(heavy), heavy)
    assert choice.settings.model_dump()["huber"] > 0.0
    assert re.search(r"Huber's loss .*: [\d.]+% of .* on held-out folds, with least squares", choice.record["why"][0])
    assert re.match(r"By least squares: [\d.]+% of the variance unexplained", choice.record["why"][1])
    skewed = stored(tmp_path / "skewed", inputs, targets + 50.0 * random.exponential(1.0, ROWS) ** 2, "regression")
    record = choose_solver(settings_for(skewed), skewed).record
    assert any("models of log(target) leave" in sentence for sentence in [*record["why"], record.get("hint", "")])
    relative = stored(tmp_path / "relative", inputs, np.exp(2.0 * targets + random.normal(size=ROWS)), "regression")
    hint = choose_solver(settings_for(relative), relative).record["hint"]
    assert re.search(
        r"models of log\(target\) explain \d\d% of .*, models of the target \d%\. If relative errors", hint
    )
    assert hint.endswith("Transformed back, its predictions are medians: too low on average.")


def few_relevant_inputs(random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return columns of noise and two columns whose product is the target."""
    inputs = random.normal(size=(ROWS, 30))
    return inputs, inputs[:, 3] * inputs[:, 7] + 0.1 * random.normal(size=ROWS)


@pytest.mark.usefixtures("few_candidates")
def test_columns_that_matter_are_found_and_the_model_keeps_their_metric(tmp_path: Path) -> None:
    found = stored(tmp_path / "few", *few_relevant_inputs(np.random.default_rng(2)), "regression")
    settings = settings_for(found, budget_seconds=60.0, out=str(tmp_path / "run"), threads=1)
    choice, result = choose_solver(settings.model_copy(update={"threads": 2}), found), train(settings)
    plain = train(settings.model_copy(update={"out": str(tmp_path / "plain"), "metric": "none"}))
    assert (result["settings"]["metric"], plain["settings"]["metric"]) == ("diagonal", "none")
    assert 1.0 - result["test"]["r2"] < 0.5 * (1.0 - plain["test"]["r2"])
    shares = result["metric"]["shares"]
    assert list(shares)[:2] in (["x3", "x7"], ["x7", "x3"])
    assert shares["x3"] + shares["x7"] > 0.9
    [sentence] = [sentence for sentence in result["choice"]["why"] if "metric gives" in sentence]
    assert "to 2 of 30 columns: 'x" in sentence
    assert re.search("It was checked: on (5|10) held-out folds, ", sentence)
    unexplained = 1.0 - choice.record["candidates"][0]["score"]  # of folds that the metric was not trained on
    assert 0.5 * unexplained < 1.0 - result["test"]["r2"] < 2.0 * unexplained
    assert "metric" not in plain
    assert not any("metric" in one["name"] for one in plain["choice"]["candidates"])
    model = load_model(result["model"])
    assert model.schema.metric == choice.metric
    assert json.loads((tmp_path / "run" / "model" / "model.json").read_text())["format_version"] == 5
    rows = pq.read_table(tmp_path / "few" / "rows.parquet")
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    raw = np.column_stack([rows[name] for name in model.schema.features])
    _, predicted = session.run(None, {"rows": raw})
    np.testing.assert_allclose(predicted.ravel(), model.predict(rows), atol=1e-5)
    explained = explanation_text(explain(ExplainSettings(model=result["model"], rows=50, repeats=1)))
    assert "Share of the squared distance of two rows in the learnt metric" in explained
    assert metric_shares(model.schema) == shares


@pytest.mark.usefixtures("few_candidates")
def test_probabilities_of_a_checked_metric_come_from_its_held_out_folds(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    inputs = random.normal(size=(4000, 20))
    target = (3.0 * inputs[:, 3] * inputs[:, 7] + random.logistic(size=4000) > 0.0).astype(int)
    found = stored(tmp_path / "few", inputs[:250], target[:250], "binary")
    result = train(settings_for(found, budget_seconds=60.0, out=str(tmp_path / "run")))
    assert result["settings"]["metric"] == "diagonal"
    assert result["calibration"]["on"] == "held-out folds of sampled training rows"
    model = load_model(result["model"])
    log_odds = model.scores(pa.table({f"x{j}": column for j, column in enumerate(inputs[250:].T)}))
    assert 0.8 < fit_calibration(log_odds, target[250:]).slope < 1.25


def test_held_out_folds_of_a_metric_show_that_labels_of_pure_chance_were_not_learnt(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    found = stored(tmp_path / "chance", random.normal(size=(200, 40)), random.integers(0, 2, 200), "binary")
    outputs, rows = Outputs("binary", 1), found.rows("train")
    track = select._sample(settings_for(found), found, rows, outputs)
    first = track.run(Candidate("standard", "gaussian"), rows, rows, in_last_round=True)
    learnt = min(continued_metric(track, first), key=lambda step: step.squared_error)
    check = track.check_metric(learnt, rows, rows, 1.0)
    assert check.calibration is not None
    data = found.with_metric(learnt.candidate.metric)
    inputs, targets = sample_rows(
        replace(data, schema=replace(data.schema, scale="standard")), "train", rows, 0, "float64"
    )
    assert learnt.bandwidth is not None
    kernel = kernel_of_bandwidth("gaussian", learnt.bandwidth)
    overfitted = fit_rows(LandmarkBasis(kernel, inputs), Rows(inputs, targets), outputs, calibrate=True).calibration
    assert overfitted is not None
    assert check.calibration.slope < 0.3 * overfitted.slope


@pytest.mark.parametrize(("budget", "share"), [(1.0, 1), (1e-3, 8)])
def test_a_small_budget_checks_a_metric_with_fewer_landmarks_before_fewer_rows(
    budget: float, share: int, tmp_path: Path
) -> None:
    inputs = np.random.default_rng(9).normal(size=(1500, 40))
    found = stored(tmp_path / "few", inputs, np.sign(inputs[:, 3] * inputs[:, 9]), "binary")
    rows = found.rows("train")
    track = select._sample(settings_for(found), found, rows, Outputs("binary", 1))
    linear, start = (track.run(Candidate("standard", name), rows, 384, True) for name in ("linear", "gaussian"))
    steps = sorted(continued_metric(track, start), key=lambda step: step.squared_error)
    result = select.checked(track, Selection((*steps, start, linear)), budget, Shape(rows, 40, 1))
    assert result.check is not None
    assert (result.check.learnt.rows, result.check.learnt.landmarks < 384) == (rows // share, True)
    assert f" mistakes on {rows // share:,} sampled rows (" in select._best_of(result, "rows", "accuracy")[1][0]


@pytest.mark.parametrize("by", ["rows", "blocks"])
def test_a_metric_finds_columns_that_matter_in_products_alone(by: Validation, tmp_path: Path) -> None:
    inputs = np.random.default_rng(9).normal(size=(900, 40))
    target = np.sign(inputs[:, 3] * inputs[:, 9] + inputs[:, 20] * inputs[:, 31])
    found = stored(tmp_path / "products", inputs, target, "binary")
    track = select._sample(settings_for(found), found, 900, Outputs("binary", 1)).judging(by)
    start = track.run(Candidate("standard", "gaussian"), 900, 500, in_last_round=True)
    learnt = min(continued_metric(track, start), key=lambda step: step.squared_error)
    assert {*np.argsort(learnt.candidate.metric)[-4:]} == {3, 9, 20, 31}
    assert learnt.error < 0.2 < 0.3 < start.error


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("given", [{}, {"validation": "blocks"}])
def test_a_metric_that_overfits_is_not_used(given: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    inputs = random.normal(size=(1200, 200))
    target = np.abs(inputs @ random.normal(size=200)) > 9.5
    found = stored(tmp_path / "all", inputs[:200], target[:200], "binary")
    choice = choose_solver(settings_for(found, budget_seconds=60.0, rescale="standard", **given), found)
    assert not choice.metric
    assert not any("metric learnt" in one["name"] for one in choice.record["candidates"])
    [sentence] = [sentence for sentence in choice.record["why"] if "No metric was learnt" in sentence]
    assert f"{10 if not given else 5} held-out folds" in sentence
    expected = max(target.mean(), 1.0 - target.mean())
    assert choice.record["candidates"][0]["score"] < expected + 0.1


@pytest.mark.parametrize("by", ["rows", "fifths"])
def test_a_linear_candidate_with_more_inputs_than_rows_has_one_column_per_input(
    by: Validation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(5)
    inputs = random.normal(size=(110, 130)) + 1.0
    found = stored(
        tmp_path / "wide", inputs, inputs @ random.normal(size=130) + 5.0 * random.normal(size=110), "regression"
    )
    rows, linear = found.rows("train"), Candidate("standard", "linear")
    track = select._sample(settings_for(found), found, rows, Outputs("regression", 1), by)
    wide = track.run(linear, rows, rows, in_last_round=False)
    with monkeypatch.context() as patch:
        patch.setattr(
            candidates, "LandmarkBasis", lambda kernel, rows: MapBasis(plain_inputs(rows.shape[1], "float64"))
        )
        plain = track.run(linear, rows, rows, in_last_round=False)
    assert (wide.landmarks, plain.landmarks) == (rows, 131)
    assert wide.penalty == plain.penalty
    np.testing.assert_allclose(wide.error, plain.error, rtol=1e-7)


class ScriptedSample:
    """Sample stub: each step of a metric has the next of the given squared errors."""

    def __init__(self, *errors: float) -> None:
        self.errors = iter(errors)

    def next_step(self, result: CandidateResult, power: float) -> Candidate:
        return replace(result.candidate, metric=(1.0,), steps=result.candidate.steps + 1)

    def with_interactions(self, result: CandidateResult) -> None:
        """Find no product."""

    def run(self, candidate: Candidate, rows: int, landmarks: int, in_last_round: bool) -> CandidateResult:
        return result_of(candidate, next(self.errors))


def result_of(candidate: Candidate, squared_error: float) -> CandidateResult:
    return CandidateResult(candidate, 0.5, squared_error, 1.0, 100, 10, 1.0, 0.0, False)


@pytest.mark.parametrize(
    ("squared_error", "chance", "is_named"), [(0.9, 0.1, True), (0.7, 0.1, False), (0.9, 0.0, False)]
)
def test_another_candidate_is_named_only_where_its_squared_error_decides(
    squared_error: float, chance: float, is_named: bool
) -> None:
    winner = replace(result_of(Candidate("standard", "gaussian"), 0.8), chance=chance)
    other = replace(result_of(Candidate("standard", "laplacian"), squared_error), error=0.45)
    linear = replace(result_of(Candidate("standard", "linear"), 2.0), error=0.9)
    _, why = select._best_of(Selection((winner, other, linear)), "rows", "accuracy")
    assert any("Another candidate had 45.00%" in sentence for sentence in why) == is_named


class RankedSample:
    """Sample stub: the error of a candidate increases with the distance of its factor from 3."""

    def run(self, candidate: Candidate, rows: int, landmarks: int, in_last_round: bool) -> CandidateResult:
        error = 0.1 * abs(candidate.factor - 3.0) + 100.0 / rows
        return CandidateResult(candidate, error, error, 1.0, rows, landmarks, 1.0, 0.0, in_last_round)


class ProgressObserver(NullObserver):
    """Observer that records the metrics of progress."""

    def __init__(self) -> None:
        self.shown: list[dict[str, float]] = []

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.shown.append(metrics)


def test_each_round_has_more_rows_and_fewer_candidates_the_best_of_the_round_before() -> None:
    factors = [0.5 * number for number in range(1, 13)]
    starters = [Candidate("standard", "linear"), *(Candidate("standard", "gaussian", factor) for factor in factors)]
    track: Any = RankedSample()
    observer = ProgressObserver()
    progress = select._Progress(observer)
    ran = successive_halving(track, starters, [(100, 10), (200, 20), (400, 40)], progress.tell).ran
    least = {round(shown["rows"]): shown["error_of_the_best_candidate"] for shown in observer.shown}
    assert least == pytest.approx({100: 1.0, 200: 0.5, 400: 0.25}), "errors of other rows are not compared"
    last = [result for result in ran if result.in_last_round]
    assert last == list(ran[: len(last)])
    assert {result.rows for result in last} == {400}
    assert sorted(result.candidate.factor for result in last if result.candidate.kernel == "gaussian") == pytest.approx(
        [3.0 / 2**0.5, 2.5, 3.0, 3.5, 3.0 * 2**0.5]
    )  # three and the neighbours of the best one
    assert any(result.candidate.kernel == "linear" for result in last)
    assert ran[0].candidate.factor == 3.0
    gone = [(-result.rows, result.error) for result in ran[len(last) :]]
    assert gone == sorted(gone)
    assert [-rows for rows, _ in gone] == [200] * 4 + [100] * 5


@pytest.mark.parametrize(
    ("errors", "steps", "patient"),
    [
        ((0.8, 0.7, 0.6, 0.5, 0.4), 4, 4),  # as many as there are
        ((1.1, 0.9, 0.8, 0.8, 0.8), 1, 4),  # the first step did not improve, later ones did
        ((1.1, 1.0, 0.5), 1, 2),
        ((0.8, 0.799, 0.798, 0.5), 2, 3),
    ],
)
def test_learning_a_metric_ends_after_steps_without_improvement(
    errors: tuple[float, ...], steps: int, patient: int
) -> None:
    start: Any = result_of(Candidate("standard", "gaussian"), 1.0)
    for patience, number in ((1, steps), (2, patient)):
        track: Any = ScriptedSample(*errors)
        learnt = continued_metric(track, start, patience=patience)
        assert [result.squared_error for result in learnt] == list(errors[:number])


def test_a_metric_starts_from_the_best_candidate_and_from_another_one() -> None:
    names = ("laplacian", "laplacian", "gaussian", "matern32", "linear")
    plain = [result_of(Candidate("standard", name, float(index)), 1.0 + index) for index, name in enumerate(names)]

    def starts(best_first: list[CandidateResult], thorough: bool, *errors: float) -> list[tuple[str, int]]:
        track: Any = ScriptedSample(*errors)
        return [(one.candidate.kernel, one.candidate.steps) for one in learn_metrics(track, best_first, thorough)]

    assert starts(plain, True, 0.95, 9.0, 0.5, 9.0) == [("gaussian", 1)]  # only large improvements
    assert starts(plain, False, 9.0) == [("laplacian", 1)]  # no improvement
    assert starts(plain, False, 0.5, 9.0, 9.0) == [("laplacian", 1), ("laplacian", 2), ("gaussian", 1)]
    learnt = result_of(Candidate("standard", "gaussian", metric=(1.0,), steps=2), 0.9)
    assert starts([learnt, *plain], False, 9.0, 9.0) == [("gaussian", 3), ("laplacian", 1)]


def test_with_many_inputs_the_best_candidate_of_each_kernel_learns_a_metric() -> None:
    names = (*("gaussian",) * 9, "matern32", "laplacian", "laplacian")
    starters = [Candidate("standard", name, 3.0 + index) for index, name in enumerate(("linear", *names))]
    sizes, learnt = [(100, 10), (200, 20), (400, 40)], list[Candidate]()

    class Recorded(RankedSample):
        def next_step(self, result: CandidateResult, power: float) -> Candidate:
            learnt.append(result.candidate)
            return replace(result.candidate, metric=(1.0,), factor=50.0)

        def with_interactions(self, result: CandidateResult) -> None:
            """Find no product."""

    for wide, kernels in ((False, {"gaussian"}), (True, {"gaussian", "matern32", "laplacian"})):
        track: Any = Recorded()
        learnt.clear()
        successive_halving(track, starters, sizes, lambda *_: None, learns_metric=True, wide=wide)
        assert {candidate.kernel for candidate in learnt} == kernels
        assert all(candidate.factor == 14.0 for candidate in learnt if candidate.kernel == "laplacian")


def test_a_metric_is_learnt_again_on_more_rows_and_used_if_it_is_better_there() -> None:
    rough = result_of(Candidate("standard", "laplacian", 2.0, metric=(1.0,), steps=3), 0.6)
    plain = [result_of(Candidate("standard", name, 0.5), 0.9) for name in ("laplacian", "gaussian")]
    before = Selection((rough, *plain))
    assert before.few_columns_matter
    assert not Selection((replace(rough, squared_error=0.85), *plain)).few_columns_matter
    assert not Selection((plain[0], rough)).few_columns_matter
    track: Any = ScriptedSample(0.6, 0.9, 0.7, 0.4, 0.41, 0.42, 0.3)  # winner, start, four steps, winner's kernel
    after = with_larger_sample(track, before, *LARGE_SAMPLE)
    assert (after.enlarged, after.winner.squared_error) == (True, 0.3)
    assert after.winner.candidate == Candidate("standard", "laplacian", 2.0, metric=(1.0,), steps=2)
    assert after.ran[1:] == before.ran
    track = ScriptedSample(0.2, 0.9, 0.91, 0.92, 0.95)
    assert with_larger_sample(track, before, *LARGE_SAMPLE).winner.candidate == rough.candidate


def test_a_larger_sample_needs_rows_budget_and_all_rounds() -> None:
    rounds = selection_rounds(60.0, Shape(80_000, 200, 1), 25, learns_metric=True)
    assert large_sample_seconds(60.0, Shape(80_000, 200, 1), rounds) > 0.0
    assert large_sample_seconds(60.0, Shape(20_000, 200, 1), rounds) == 0.0
    assert large_sample_seconds(30.0, Shape(80_000, 200, 1), rounds) == 0.0
    assert large_sample_seconds(60.0, Shape(80_000, 200, 1), rounds[:2]) == 0.0
    few = selection_rounds(60.0, Shape(2000, 200, 1), 25, learns_metric=True)
    assert large_sample_seconds(60.0, Shape(2000, 200, 1), few) > 0.0  # all rows, and more of them as landmarks
    rounds = selection_rounds(60.0, Shape(900, 200, 1), 25, learns_metric=True)
    assert large_sample_seconds(60.0, Shape(900, 200, 1), rounds) == 0.0  # all were landmarks before


def test_a_metric_is_used_only_if_errors_are_smaller_with_it(circles_choice: Choice) -> None:
    choice, record = circles_choice, circles_choice.record["candidates"]  # both columns matter equally
    assert any("metric learnt" in one["name"] for one in record)
    kept = [one for one in record if one["kept"]]
    plain = max(one["score"] for one in kept if "metric learnt" not in one["name"])
    assert bool(choice.metric) == ("metric learnt" in kept[0]["name"])
    assert kept[0]["score"] >= plain or not choice.metric


@pytest.mark.parametrize(
    "given", [{"solver": "fogd", "frequencies": 300, "passes": 5}, {"solver": "ridge", "kernel": "matern32"}]
)
def test_a_given_solver_learns_a_metric_on_request(given: dict[str, Any], tmp_path: Path) -> None:
    inputs, targets = few_relevant_inputs(np.random.default_rng(2))
    found = stored(tmp_path / "few", inputs, targets > 0, "binary")
    results = {}
    for metric in ("auto", "diagonal"):
        values = {"data": str(found.folder), "out": str(tmp_path / metric), "metric": metric, "rescale": "standard"}
        results[metric] = train(settings_from(TrainSettings, values | given, "test"))
    assert "metric" not in results["auto"]
    assert list(results["diagonal"]["metric"]["shares"])[:2] in (["x3", "x7"], ["x7", "x3"])
    assert results["diagonal"]["test"]["accuracy"] > results["auto"]["test"]["accuracy"] + 0.05
    assert results["diagonal"]["metric"]["why"] in text_summary(results["diagonal"], verbose=True)


def test_rounds_are_those_that_the_time_allows(circles_choice: Choice, data: dict[str, Dataset]) -> None:
    schema, n = data["circles"].schema, len(circles_choice.record["candidates"])
    shape = Shape(data["circles"].rows("train"), schema.n_features, 1)
    rounds = selection_rounds(SECONDS, shape, n, learns_metric=True)
    sizes = {(one["rows"], one["landmarks"]) for one in circles_choice.record["candidates"] if "kernel" in one["name"]}
    assert sizes == set(rounds)


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("rescale", ["none", "minmax"])
def test_a_requested_scaling_is_the_only_candidate(rescale: str, data: dict[str, Dataset]) -> None:
    scaled = replace(data["circles"], schema=replace(data["circles"].schema, scale=rescale))  # type: ignore[arg-type]
    choice = choose_solver(settings_for(data["circles"], rescale=rescale, budget_seconds=0.1), scaled)
    assert choice.settings.rescale == rescale
    name = {"none": "unscaled inputs", "minmax": "0 .. 1"}[rescale]
    assert all(name in one["name"] for one in choice.record["candidates"])


def rows_of_few_values(random: np.random.Generator) -> NDArray[np.float64]:
    return np.column_stack([random.integers(0, 2, 60), np.full(60, 7.0)]).astype(float)


@pytest.mark.parametrize(
    ("task", "targets"),
    [
        ("regression", np.arange(60.0)),
        ("multiclass", np.r_[np.zeros(30), np.ones(29), 2]),
        ("binary", np.r_[np.zeros(59), 1]),
    ],
    ids=["unlearnable", "a class of one row", "two classes, one of one row"],
)
def test_rows_with_little_information_still_get_a_model(
    task: Task, targets: NDArray[np.float64], tmp_path: Path
) -> None:
    few = stored(tmp_path / "few", rows_of_few_values(np.random.default_rng(0)), targets, task)
    assert task == "regression" or min(few.schema.class_counts) == 1
    choice = choose_solver(settings_for(few, budget_seconds=0.1), few)
    assert choice.settings.solver == "ridge"
    assert all(np.isfinite(one["score"]) for one in choice.record["candidates"])


@pytest.mark.parametrize(
    ("rows", "of_classes", "solvers"),
    [
        (800, True, ["ridge"]),
        (3000, True, ["ridge"] * 4),
        (40_000, True, ["ridge"] * 3 + ["falkon"]),
        (100_000, False, ["ridge"] * 3 + ["falkon"] * 2),
        (600_000, True, ["fogd"] * 5 + ["falkon"] * 3),
        (600_000, False, ["ridge"] * 3 + ["falkon"] * 3),
        (100_000_000, False, ["fogd"] * 5 + ["falkon"] * 3),
    ],
)
def test_many_rows_are_learnt_online_or_by_iterations_on_many_landmarks(
    rows: int, of_classes: bool, solvers: list[str]
) -> None:
    sizes = sizes_of(Shape(rows, 50, 1), of_classes)
    assert [size.solver for size in sizes] == solvers
    costs = [size.seconds for size in sizes]
    assert costs == sorted(costs)
    landmarks = [size.options["n_landmarks"] for size in sizes if size.solver == "ridge"]
    if rows <= ENOUGH_LANDMARKS:
        assert landmarks == [rows]
    elif landmarks:
        assert landmarks[0] == LEAST_LANDMARKS
        assert landmarks[-1] == min(rows, MOST_LANDMARKS) or sizes[len(landmarks)].solver == "falkon"


def test_a_single_row_is_refused(tmp_path: Path) -> None:
    one = stored(tmp_path / "one", np.eye(2), np.array([1.0, 2.0]), "regression")
    shards = one.split("train")[:1]
    alone = replace(one, shards=tuple(replace(shard, row_groups=(1,)) for shard in shards))
    with pytest.raises(ConfigError, match=r"1 training rows, but --solver auto needs at least 2\. Name a solver"):
        choose_solver(settings_for(one), alone)


def test_an_option_of_a_learner_switches_the_automatic_choice_off() -> None:
    assert TrainSettings(data="rows").solver == "auto"
    assert settings_from(TrainSettings, {"data": "rows", "seed": 3, "workers": 2}, "test").solver == "auto"
    for given in ({"frequencies": 400}, {"passes": 2}, {"kernel": "gaussian"}, {"mode": "stream"}):
        assert settings_from(TrainSettings, {"data": "rows"} | given, "test").solver == "fogd"
    stored_settings = TrainSettings(data="rows").model_dump(mode="json")
    assert TrainSettings.model_validate(stored_settings).solver == "auto"
    assert TrainSettings.model_validate(stored_settings | {"passes": 2}).solver == "fogd"


@pytest.mark.usefixtures("few_candidates")
def test_an_interrupted_run_makes_the_same_choice_again(data: dict[str, Dataset], tmp_path: Path) -> None:
    settings = settings_for(
        data["circles"], out=str(tmp_path / "run"), threads=1, checkpoint_seconds=0.0, checkpoint_rounds=1
    )
    whole = train(settings.model_copy(update={"out": str(tmp_path / "whole")}))
    broken = TrainingRun(settings)
    for stage in ("ingest", "plan", "learn"):
        broken.perform_stage(stage)
    broken.close()
    [unfinished] = [path for path in tmp_path.iterdir() if path.name.startswith(".run")]
    resumed = TrainingRun(settings, resume=unfinished)
    for stage in TRAIN_STAGES:
        resumed.perform_stage(stage)
    resumed.close()
    result = resumed.result()
    assert result["resumed"] > 0
    assert result["weights_sha256"] == whole["weights_sha256"]
    assert result["choice"]["why"] == whole["choice"]["why"]
    assert result["test"]["accuracy"] > 0.95
    assert result["chosen"]["bandwidth_reason"] == "by the automatic choice"
    assert load_model(result["model"]).provenance["chosen"] == result["chosen"]
    assert re.search(rf"\nChosen +{re.escape(result['choice']['why'][0])}\n", text_summary(result))
    summary = text_summary(result, verbose=True)
    assert all(f"  {sentence}\n" in summary for sentence in result["choice"]["why"])
    kept = json.loads((tmp_path / "run" / "result.json").read_text())
    assert kept["choice"] == result["choice"]
    assert kept["settings"]["solver"] == "ridge"
    assert "budget_seconds" not in kept["settings"]  # an option of the choice


# Training costs on a nominal machine, which determine how much a budget allows.

SHAPE = Shape(rows=50_000, inputs=30, outputs=3)
BUDGETS = (0.1, 5.0, 20.0, 60.0, 300.0)


@pytest.mark.parametrize("name", ["rows", "inputs", "outputs"])
def test_larger_settings_cost_more(name: str) -> None:
    more = replace(SHAPE, **{name: 2 * getattr(SHAPE, name)})
    assert ridge_seconds(more, 1000) > ridge_seconds(SHAPE, 1000)
    assert fogd_seconds(more, 800, 1) > fogd_seconds(SHAPE, 800, 1)
    assert ridge_seconds(SHAPE, 2000) > 2.0 * ridge_seconds(SHAPE, 1000)


@pytest.mark.parametrize("rows", [2, 300, 5000, 10**6, 10**9])
def test_more_time_adds_rounds_and_sizes_and_removes_none(rows: int) -> None:
    shape, rounds, sizes = replace(SHAPE, rows=rows), list[tuple[int, int]](), list[Any]()
    for seconds in BUDGETS:
        allowed, trained = selection_rounds(seconds, shape, 30), affordable_sizes(sizes_of(shape, True), seconds)
        assert allowed[: len(rounds)] == rounds
        assert trained[: len(sizes)] == sizes
        assert all(1 <= landmarks <= sample <= rows for sample, landmarks in allowed)
        assert len(trained) == 1 or sum(size.seconds for size in trained) <= seconds
        rounds, sizes = allowed, trained
    assert (len(rounds) > 1) == (rows > 2048)
    assert (len(sizes) > 1) == (2048 < rows < 10**9)


def test_very_many_rows_have_cells_in_as_many_partitions_as_time_allows() -> None:
    shape = Shape(800_000, 30, 1)
    usual = local_sizes(shape)
    assert len(usual) > 2
    assert local_sizes(shape, usual[0].seconds) == usual
    for share, partitions in ((0.9, 2), (0.3, 1), (0.0, 1)):
        (one,) = local_sizes(shape, share * usual[0].seconds)
        assert one.options == {"cell_rows": usual[0].options["cell_rows"], "partitions": partitions}
        assert one.seconds <= share * usual[0].seconds or share == 0.0
    assert local_sizes(Shape(900, 30, 1), 0.0) == [], "too few rows"


def test_passes_and_frequencies_cost_in_proportion() -> None:
    assert fogd_seconds(SHAPE, 800, 3) == pytest.approx(3.0 * fogd_seconds(SHAPE, 800, 1))
    assert fogd_seconds(SHAPE, 800, 3) == pytest.approx(2.0 * fogd_seconds(SHAPE, 400, 3))


def test_linear_models_are_the_first_candidates_without_duplicates() -> None:
    starters = initial_candidates(("standard", "minmax"))
    assert [one.kernel for one in starters[:2]] == ["linear", "linear"]
    assert {one.kernel for one in starters} == {"linear", *FACTORS}
    assert len(set(starters)) == len(starters) == len({one.name for one in starters})


def test_neighbours_are_half_a_step_away_on_both_sides() -> None:
    below, above = Candidate("standard", "laplacian", 2.0).neighbours()
    assert below.factor < 2.0 < above.factor
    assert below.factor * above.factor == pytest.approx(4.0)
    assert (below.kernel, below.scale) == ("laplacian", "standard")
    assert Candidate("none", "linear").neighbours() == ()


# Similar neighbouring rows: detection, message, and choice with given test rows

PATIENTS, VISITS = 30, 20


def visits(like: float) -> pa.Table:
    """Return rows of consecutive patients: two columns identify the patient and determine the class like the third.

    like : how far patients differ in those two columns, over how far the visits of one do
    """
    random = np.random.default_rng(8)
    ill = np.repeat(random.permutation(PATIENTS) % 2, VISITS)
    patients = np.repeat(random.normal(size=(PATIENTS, 2)), VISITS, axis=0) * like + random.normal(size=(len(ill), 2))
    sign = ill + 0.6 * random.normal(size=len(ill))
    split = np.where(np.arange(len(ill)) < 24 * VISITS, "train", "test")
    return pa.table({"a": patients[:, 0], "b": patients[:, 1], "sign": sign, "y": ill, "split": split})


@pytest.fixture(scope="module")
def neighbour_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("visits")
    found = {}
    for name, like, options in (
        ("given", 30.0, {}),
        ("drawn", 30.0, {"holdout": 0.2, "drop": ("split",)}),
        ("unlike", 0.0, {}),
    ):
        pq.write_table(visits(like), folder / f"{name}.parquet")
        found[name] = ingest(folder / f"{name}.parquet", folder / name, ingest_settings(**options)).dataset
    return found


def neighbour_settings(neighbour_data: Dataset, **values: Any) -> TrainSettings:
    return settings_from(TrainSettings, {"data": str(neighbour_data.folder), "budget_seconds": 0.5} | values, "test")


def similarity_sentences(why: list[str]) -> list[str]:
    return [sentence for sentence in why if sentence.startswith("Neighbouring rows are similar")]


@pytest.mark.usefixtures("few_candidates")
def test_given_test_rows_lead_to_a_choice_by_contiguous_folds(
    neighbour_data: dict[str, Dataset], tmp_path: Path
) -> None:
    chosen, by_shuffled_folds = (
        train(neighbour_settings(neighbour_data["given"], validation=validation, out=str(tmp_path / validation)))
        for validation in ("auto", "rows")
    )
    assert chosen["choice"]["validation"] == "blocks"
    assert "with contiguous folds, because the test rows were given" in similarity_sentences(chosen["choice"]["why"])[0]
    assert "(5 contiguous folds)" in chosen["choice"]["why"][0]
    assert by_shuffled_folds["choice"]["validation"] == "rows"
    assert not similarity_sentences(by_shuffled_folds["choice"]["why"])
    assert chosen["test"]["accuracy"] > by_shuffled_folds["test"]["accuracy"] + 0.05
    best = [result["choice"]["candidates"][0]["score"] for result in (chosen, by_shuffled_folds)]
    assert best[1] > best[0] + 0.05
    assert isinstance(chosen["settings"]["penalty"], float), "the race by blocks chose it"
    assert by_shuffled_folds["settings"]["penalty"] == "auto"
    assert "validation" not in chosen["settings"]
    assert chosen["calibration"]["on"] == "held-out folds of sampled training rows"
    assert chosen["test"]["log_loss"] < by_shuffled_folds["test"]["log_loss"]


@pytest.mark.usefixtures("few_candidates")
def test_similar_neighbours_are_only_reported_where_test_rows_are_drawn(neighbour_data: dict[str, Dataset]) -> None:
    choice = choose_solver(neighbour_settings(neighbour_data["drawn"]), neighbour_data["drawn"])
    assert choice.record["validation"] == "rows"
    assert re.search(r"Expect at least \d+% on data from a new period", similarity_sentences(choice.record["why"])[0])
    assert "--validation blocks" in similarity_sentences(choice.record["why"])[0]
    again = choose_solver(neighbour_settings(neighbour_data["drawn"], validation="rows"), neighbour_data["drawn"])
    assert again.settings == choice.settings


@pytest.mark.usefixtures("few_candidates")
def test_contiguous_folds_of_a_slow_target_are_fifths_of_the_file(tmp_path: Path) -> None:
    walk = np.cumsum(np.random.default_rng(4).normal(size=600))
    for name, target, least, most in (("walk", walk, 0.08, 1.0), ("sorted", np.sort(walk), 0.0, 0.04)):
        pq.write_table(pa.table({"hour": np.arange(600.0), "y": target}), tmp_path / f"{name}.parquet")
        rows = ingest(tmp_path / f"{name}.parquet", tmp_path / name, ingest_settings(holdout=0.2)).dataset
        choice = choose_solver(neighbour_settings(rows, validation="blocks"), rows)
        assert least < 1.0 - choice.record["candidates"][0]["score"] < most


@pytest.mark.usefixtures("few_candidates")
def test_folds_stay_within_the_budget_with_fewer_rounds(
    data: dict[str, Dataset], neighbour_data: dict[str, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("okl.runs.model_sizes.ROUNDS", ((100, 50), (200, 100), (400, 200)))
    budget, found = 0.3, dict[str, Choice]()
    for validation in ("rows", "blocks"):
        settings = settings_for(data["circles"], validation=validation, budget_seconds=budget)
        found[validation] = choose_solver(settings, data["circles"])
    assert found["blocks"].record["rows"] < found["rows"].record["rows"]
    given = neighbour_data["given"]
    found["given"] = choose_solver(neighbour_settings(given, budget_seconds=budget), given)
    assert found["given"].record["validation"] == "blocks"
    assert all(choice.record["nominal_seconds"] < budget for choice in found.values())


@pytest.mark.usefixtures("few_candidates")
def test_dissimilar_neighbours_are_not_reported(neighbour_data: dict[str, Dataset]) -> None:
    choice = choose_solver(neighbour_settings(neighbour_data["unlike"]), neighbour_data["unlike"])
    assert choice.record["validation"] == "rows"
    assert not similarity_sentences(choice.record["why"])


def test_test_rows_are_given_by_a_column_and_drawn_by_a_share(neighbour_data: dict[str, Dataset]) -> None:
    assert [are_test_rows_given(neighbour_data[name]) for name in ("given", "drawn", "unlike")] == [True, False, True]


def test_a_share_given_as_text_draws_test_rows(neighbour_data: dict[str, Dataset], tmp_path: Path) -> None:
    source, drawn = neighbour_data["drawn"].folder.parent / "drawn.parquet", neighbour_data["drawn"]
    as_text = ingest(source, tmp_path / "text", ingest_settings(holdout="0.2", drop=("split",))).dataset
    assert [shard.sha256 for shard in as_text.shards] == [shard.sha256 for shard in drawn.shards]
    assert not are_test_rows_given(as_text)
    column = ingest(source, tmp_path / "column", ingest_settings(holdout="y", target="sign", drop=("split",))).dataset
    assert are_test_rows_given(column)


@pytest.mark.parametrize(
    ("contiguous", "shuffled", "rows", "rates", "differs", "decides"),
    [
        (0.2, 0.2, 1000, True, False, False),
        (0.24, 0.2, 100_000, True, False, False),  # a fifth more is the cost of fewer similar rows, even if significant
        (0.3, 0.2, 1000, True, True, False),
        (0.3, 0.2, 250, True, False, False),  # by chance
        (0.3, 0.2, 250, False, True, False),
        (0.61, 0.2, 1000, True, True, True),
        (0.61, 0.2, 199, True, False, False),
        (0.1, 0.0, 1000, True, True, True),
    ],
)
def test_an_error_larger_by_a_quarter_is_reported_and_three_times_larger_decides(
    contiguous: float, shuffled: float, rows: int, rates: bool, differs: bool, decides: bool
) -> None:
    found = NeighbourSimilarity(contiguous, shuffled, rows, "accuracy" if rates else "squared-error")
    assert (found.differs, found.decides) == (differs, decides)


def test_rows_with_one_class_each_are_learnt(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(LEAST_ROWS, 1))
    pq.write_table(pa.table({"a": inputs[:, 0], "y": [f"id {k}" for k in range(LEAST_ROWS)]}), tmp_path / "ids.parquet")
    ids = ingest(tmp_path / "ids.parquet", tmp_path / "ids", ingest_settings()).dataset
    choice = choose_solver(neighbour_settings(ids, budget_seconds=0.01), ids)
    assert choice.record["validation"] == "rows"
    assert not similarity_sentences(choice.record["why"])
    with pytest.raises(ConfigError, match="No class has two rows"):
        choose_solver(neighbour_settings(ids, budget_seconds=0.01, validation="blocks"), ids)


# Rare classes: the criterion of the choice, class weights, and logistic regression compared with least squares


def rare_rows(curved: bool) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return a class of 4%, defined by a plane or by the distance from the origin."""
    random = np.random.default_rng(9)
    inputs = random.normal(size=(2000, 3))
    signal = np.square(inputs[:, :2]).sum(axis=1) if curved else inputs @ [1.0, -1.0, 0.5]
    noisy = 2.0 * signal + random.logistic(size=len(signal))
    return inputs, (noisy > np.quantile(noisy, 0.96)).astype(int)


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    folder = tmp_path_factory.mktemp("rare")
    return {name: stored(folder / name, *rare_rows(name == "curved"), "binary") for name in ("curved", "plane")}


@pytest.mark.usefixtures("few_candidates")
def test_a_rare_class_is_ranked_by_the_model_that_ranks_it_best(rare: dict[str, Dataset], tmp_path: Path) -> None:
    curved, plane = (train(settings_for(rare[name], out=str(tmp_path / name))) for name in ("curved", "plane"))
    assert (curved["settings"]["solver"], plane["settings"]["solver"]) == ("ridge", "logistic")
    for result in (curved, plane):
        assert result["criterion"] == result["choice"]["criterion"] == "log-loss"
        assert "log loss on" in result["choice"]["why"][0]
        assert result["test"]["roc_auc"] > 0.85
        assert result["test"]["log_loss"] < 0.8 * result["baselines"]["majority"]["test"]["log_loss"]
        summary = text_summary(result)
        assert "is no better than" not in summary
        assert re.search(r"\nJudged by +log loss, because [34](\.\d)?% of the rows are outside", summary)
        assert re.search(r"\n'1' from +rows +precision +recall +lift\n", summary)
    assert curved["test"]["log_loss"] < curved["baselines"]["linear"]["test"]["log_loss"] - 0.02
    tie = plane["baselines"]["linear"]["test"]["excess"]["log_loss"]
    assert abs(tie["mean"]) < 2.0 * tie["standard_error"] + 0.003
    assert plane["calibration"]["on"] == "the logistic loss"
    assert curved["calibration"]["on"] == "leave-one-out scores of sampled training rows"


@pytest.mark.usefixtures("few_candidates")
def test_a_linear_model_gets_the_logistic_loss_where_its_error_is_smaller(tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    inputs = random.exponential(size=(1200, 30)) * (random.random((1200, 30)) < 0.05)  # least squares fit large values
    target = (3.0 * inputs @ random.normal(size=30) + 0.5 * random.logistic(size=1200) > 0.0).astype(int)
    found = stored(tmp_path / "seldom", inputs, target, "binary")
    result = train(settings_for(found, out=str(tmp_path / "run"), budget_seconds=5.0, rescale="standard"))
    assert result["criterion"] == "accuracy"
    assert result["settings"]["solver"] == "logistic"
    first, second = result["choice"]["why"][:2]
    assert re.search(r"Logistic regression, standardised inputs, .*% mistakes on .* \(5 folds\)", first)
    assert re.search("The best model of least squares, linear, .* has .*% on the same folds", second)


def test_few_rows_of_a_class_do_not_make_logistic_regression_a_constant() -> None:
    """The spread of the losses depends on a few rows; by it alone the smallest cost would be as good as any."""
    random = np.random.default_rng(3)
    inputs = random.normal(size=(4000, 100))
    signal = inputs[:, 0] + inputs[:, 1] + 0.5 * random.logistic(size=4000)
    targets = np.where(signal > np.quantile(signal, 0.98), 1.0, -1.0)
    statistics = tuple(ColumnStatistics(4000, 0.0, 1.0, -5.0, 5.0) for _ in range(100))
    schema = Schema(tuple(f"x{k}" for k in range(100)), "y", "binary", (0, 1), feature_statistics=statistics)
    outputs = Outputs("binary", 1, None, "log-loss")
    track = ValidationSample(schema, Rows(inputs, targets), np.arange(4000), outputs, 1)
    assert track.can_fit_logistic(4000) == 4000, "the rarest class has 80 rows"
    found = track.judging("fifths").run_logistic(4000, "standard")
    shares = np.array([0.98, 0.02])
    assert found.error < 0.7 * -float(shares @ np.log(shares))


def test_among_costs_with_equal_mistakes_one_with_a_small_log_loss_is_chosen() -> None:
    """The smallest cost makes no mistakes on separable classes, but its log-odds are near 0."""
    random = np.random.default_rng(4)
    targets = np.where(random.random(600) < 0.5, 1.0, -1.0)
    inputs = random.normal(size=(600, 4)) * 0.1 + targets[:, np.newaxis]
    statistics = tuple(ColumnStatistics(600, 0.0, 1.0, -2.0, 2.0) for _ in range(4))
    schema = Schema(tuple(f"x{k}" for k in range(4)), "y", "binary", (0, 1), feature_statistics=statistics)
    track = ValidationSample(schema, Rows(inputs, targets), np.arange(600), Outputs("binary", 1, None, "accuracy"), 1)
    found = track.judging("fifths").run_logistic(600, "standard")
    assert found.error == 0.0
    weights, offsets = fit_logistic(inputs, (targets > 0.0).astype(np.int64), found.penalty)
    assert log_losses(inputs @ weights[0] + offsets[0], (targets > 0.0).astype(np.int64)).mean() < 0.01


def test_class_weights_count_equally_for_logistic_regression_and_least_squares() -> None:
    """The last class of 5% lies within the first: all its rows, of weight 4, are mistakes."""
    random = np.random.default_rng(5)
    targets = random.permutation(np.repeat([0.0, 1.0, 2.0], [500, 450, 50]))
    inputs = random.normal(size=(1000, 2)) + 10.0 * (targets == 1.0)[:, np.newaxis]
    statistics = tuple(ColumnStatistics(1000, 5.0, 5.0, -4.0, 14.0) for _ in range(2))
    schema = Schema(("x0", "x1"), "y", "multiclass", (0, 1, 2), feature_statistics=statistics)
    outputs = Outputs("multiclass", 3, (1.0, 1.0, 4.0))
    track = ValidationSample(schema, Rows(inputs, targets), np.arange(1000), outputs, 1).judging("fifths")
    logistic = track.run_logistic(1000, "standard")
    squares = track.run(Candidate("standard", "linear"), 1000, 2, in_last_round=False)
    assert logistic.error == pytest.approx(200.0 / 1150.0)
    assert squares.error == pytest.approx(logistic.error)


@pytest.mark.parametrize("criterion", ["log-loss", "auc"])
def test_log_odds_of_weighted_classes_are_scored_as_those_of_classes_without_weights(criterion: Criterion) -> None:
    random = np.random.default_rng(6)
    inputs = random.normal(size=(2000, 3))
    targets = np.where(inputs[:, 0] - 2.0 + random.logistic(size=2000) > 0.0, 1.0, -1.0)
    statistics = tuple(ColumnStatistics(2000, 0.0, 1.0, -4.0, 4.0) for _ in range(3))
    schema = Schema(("x0", "x1", "x2"), "y", "binary", (0, 1), feature_statistics=statistics)

    def result(weights: tuple[float, ...] | None) -> CandidateResult:
        outputs = Outputs("binary", 1, weights, criterion)
        track = ValidationSample(schema, Rows(inputs, targets), np.arange(2000), outputs, 1)
        return track.judging("fifths").run_logistic(2000, "standard")

    assert result((1.0, 10.0)).error == pytest.approx(result(None).error, rel=0.02)


@pytest.mark.usefixtures("few_candidates")
def test_the_choice_predicts_a_weighted_class_as_the_solver_that_it_names(tmp_path: Path) -> None:
    """The sample that chooses has about 18 rows of the class, and the training rows about 150."""
    random = np.random.default_rng(2)
    inputs = random.normal(size=(6000, 40)) * random.exponential(size=(6000, 1))
    logits = inputs[:, :3] * [1.0, 1.0, 1.5] + [2.0, 0.0, -3.0] + random.gumbel(size=(6000, 3))
    found = stored(tmp_path / "rows", inputs, logits.argmax(axis=1), "multiclass")
    weighted: dict[str, Any] = {"class_weights": {"2": 20.0}, "rescale": "standard"}
    of_choice = {"optimise": "log-loss", "metric": "none", "out": str(tmp_path / "chosen")}
    chosen = train(settings_for(found, **of_choice, **weighted))
    assert chosen["settings"]["solver"] == "logistic"
    assert chosen["calibration"]["on"] == "held-out folds of sampled training rows"
    printed = {name: chosen["settings"][name] for name in ("solver", "C", "kernel", "precision")}
    values = {"data": str(found.folder), "out": str(tmp_path / "named")} | printed | weighted
    named = train(settings_from(TrainSettings, values, "test"))
    of_chosen, of_named = (np.array(result["test"]["confusion"], dtype=float) for result in (chosen, named))
    assert np.trace(of_chosen) > 0.97 * np.trace(of_named)
    precision, of_solver = (table[2, 2] / table[:, 2].sum() for table in (of_chosen, of_named))
    assert precision > 0.8 * of_solver > 0.2
    assert of_chosen[2, 2] > 0.9 * of_named[2, 2]
    assert chosen["test"]["log_loss"] < named["test"]["log_loss"] + 0.005


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("optimise", ["average-precision", "balanced-accuracy"])
def test_candidates_are_compared_by_the_requested_criterion(optimise: str, rare: dict[str, Dataset]) -> None:
    choice = choose_solver(settings_for(rare["curved"], optimise=optimise, budget_seconds=0.1), rare["curved"])
    assert choice.record["criterion"] == optimise
    weights = choice.settings.model_dump().get("class_weights", "none")
    assert weights == ("balanced" if optimise == "balanced-accuracy" else "none")
    assert 0.4 < choice.record["candidates"][0]["score"] <= 1.0


@pytest.mark.usefixtures("few_candidates")
def test_class_weights_keep_the_race_and_move_the_threshold(rare: dict[str, Dataset], tmp_path: Path) -> None:
    settings = settings_for(rare["curved"], class_weights="balanced", out=str(tmp_path / "run"), budget_seconds=0.1)
    assert settings.solver == "auto"
    result = train(settings)
    assert result["settings"]["class_weights"] == "balanced"
    assert result["criterion"] == result["choice"]["criterion"] == "balanced-accuracy"
    counts = rare["curved"].schema.class_counts
    assert result["calibration"]["threshold"] == pytest.approx(counts[1] / sum(counts))
    assert result["test"]["balanced_accuracy"] > 0.75
    assert result["test"]["log_loss"] < result["baselines"]["majority"]["test"]["log_loss"]
    mistakes = choose_solver(settings.replaced(optimise="accuracy"), rare["curved"]).record["why"][0]
    assert re.search(r"\d% weighted mistakes on", mistakes)
    regression = stored(tmp_path / "wave", *wave(np.random.default_rng(3)), "regression")
    with pytest.raises(ConfigError, match="is for classification, but this is a regression"):
        choose_solver(settings_for(regression, class_weights="balanced"), regression)


def test_gradient_boosting_is_a_baseline_on_request(rare: dict[str, Dataset], tmp_path: Path) -> None:
    options = {"solver": "ridge", "n_landmarks": 50, "beside": "boosting", "out": str(tmp_path / "run")}
    result = train(settings_from(TrainSettings, {"data": str(rare["curved"].folder)} | options, "test"))
    boosting = result["baselines"]["boosting"]["test"]
    assert boosting["roc_auc"] > 0.85
    assert "gradient boosting" in text_summary(result).splitlines()[0]
    assert "log_loss" in boosting


def rows_with_far_targets() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return inputs, noise-free targets, and targets with eight enormous values among the first 1,600."""
    random = np.random.default_rng(0)
    inputs = random.standard_normal((2000, 6))
    noise_free = 3.0 * np.sin(2.0 * inputs[:, 0]) + inputs[:, 1]
    targets = noise_free + 0.5 * random.standard_normal(2000)
    targets[random.choice(1600, 8, replace=False)] = 10.0 ** random.uniform(5.0, 6.3, 8)
    return inputs, noise_free, targets


@pytest.mark.usefixtures("few_candidates")
def test_a_few_enormous_targets_do_not_spoil_the_others(tmp_path: Path) -> None:
    inputs, noise_free, targets = rows_with_far_targets()
    found = stored(tmp_path / "far", inputs[:1600], targets[:1600], "regression")
    result = train(settings_for(found, out=str(tmp_path / "run"), budget_seconds=2.0))
    assert result["settings"]["huber"] == pytest.approx(1.345)
    first, second, *_ = result["choice"]["why"]
    taken = re.match(r"(.* kernel.*), of \d+ candidates, with Huber's loss as a few targets are far", first)
    assert taken
    assert first in text_summary(result)
    assert re.match(r"By least squares: [\d.]+% of the variance unexplained", second)
    assert "are far from all others, which are within" in text_summary(result)
    predicted = load_model(tmp_path / "run" / "model").predict(inputs[1600:])
    assert np.sqrt(np.mean((predicted - noise_free[1600:]) ** 2)) < 0.5


def test_far_targets_are_few_and_not_those_of_a_skewed_distribution() -> None:
    random = np.random.default_rng(1)
    schema = Schema(("x",), "y", "regression")
    normal = random.standard_normal(3000)
    assert Clip.of_far_targets(schema, normal) is None
    assert Clip.of_far_targets(schema, np.exp(2.5 * normal)) is None, "its logarithm is normal"
    many = np.append(normal, np.full(100, -1e6))
    assert Clip.of_far_targets(schema, many) is None, "more than 1% are far"
    assert Clip.of_far_targets(schema, np.append(np.zeros(3000), 9.0)) is None, "most targets are equal"
    clip = Clip.of_far_targets(schema, np.append(normal, 1e6))
    assert clip is not None
    assert clip.offsets[0] == pytest.approx(0.0, abs=0.1)
    assert clip.threshold == pytest.approx(10.0, rel=0.1)
    statistics = ColumnStatistics(10**6, 0.0, 1e3, -1e6, 5.0)
    outside = Clip.of_far_targets(replace(schema, target_statistics=statistics), normal)
    assert outside is not None, "the sample misses the least target, which is known"
