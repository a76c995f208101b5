"""Online gradient descent on sparse rows: against a naive twin, in parts, in all modes, and as a solver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import okl
from okl.certificates.hindsight import MemoryRows, solve_in_ball
from okl.data.dataset import Dataset
from okl.data.execution import Execution, Rows
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.features.base import transform_rows
from okl.features.linear import SparseInputs
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.losses import make_loss
from okl.solvers.factory import make_solver
from okl.solvers.online.linear import LinearLearner, SparseLearner, SparseWeights, average_shard_weights
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings as ingest_settings
from tests.runs.test_sparse import all_rows, drawn, written
from tests.solver_cases import last_state

N_COLUMNS = 40
LOSSES = [
    ("hinge", 1, None),
    ("logistic", 1, (0.5, 2.0)),
    ("multiclass-hinge", 3, (1.0, 2.0, 0.5)),
    ("thresholded-half-squared", 1, None),
]


def rows_of(n: int, loss: str, precision: str, seed: int = 0) -> Rows:
    random = np.random.default_rng(seed)
    inputs = sparse.random_array((n, N_COLUMNS), density=0.15, format="csr", rng=random).astype(precision)
    scores = inputs @ random.normal(size=(N_COLUMNS, 3))
    targets = {"multiclass-hinge": scores.argmax(axis=1).astype(float), "thresholded-half-squared": scores[:, 0]}
    return Rows(inputs, targets.get(loss, np.where(scores[:, 0] >= 0.0, 1.0, -1.0)))


def learner_of(loss: str, outputs: int, weights: Any, precision: Any = "float32", step: float = 0.3) -> SparseLearner:
    feature_map = SparseInputs(N_COLUMNS, precision, 0.5)
    return SparseLearner(feature_map, make_loss(loss, 0.01), step, outputs, weights)


def twin(learner: SparseLearner, rows: Rows) -> tuple[Any, Any, int]:
    """Return weights, their average and mistakes, row by row on dense rows in double precision."""
    inputs: Any = rows.inputs
    dense = np.column_stack([inputs.toarray(), np.full(len(rows.targets), 0.5)]).astype(np.float64)
    w, sampled, mistakes = np.zeros((learner.n_outputs, N_COLUMNS + 1)), 0, 0
    total = np.zeros_like(w)
    classes = learner.class_weights or (1.0,) * 3
    for number, (x, y) in enumerate(zip(dense, rows.targets, strict=True), 1):
        f = w @ x
        if learner.n_outputs > 1:
            true, others = int(y), np.delete(np.arange(learner.n_outputs), int(y))
            wrong = others[np.argmax(f[others])]
            mistakes += int(np.argmax(f) != true)
            if f[true] - f[wrong] < 1.0:
                w[true] += learner.step_size * classes[true] * x
                w[wrong] -= learner.step_size * classes[true] * x
        else:
            label = int(y > 0) if learner.task == "binary" else 0
            mistakes += int((f[0] >= 0) != (y > 0))
            slope = learner.loss.derivative(f, np.array(y))[0]
            longest = 1.0 / (x @ x) if learner.task == "regression" else np.inf
            w[0] -= min(learner.step_size * classes[label], longest) * slope * x
        if number % 16 == 0:
            total, sampled = total + number // 16 * w, sampled + number // 16
    return w, total / sampled, mistakes


def test_a_row_too_long_for_the_step_is_fitted_and_not_overshot() -> None:
    learner = learner_of("thresholded-half-squared", 1, None, "float64")
    rows = rows_of(200, "thresholded-half-squared", "float64")
    inputs: Any = sparse.diags_array(np.where(np.arange(200) % 20 == 19, 1e3, 1.0)) @ rows.inputs
    state = learner.start()
    for number in range(200):
        state = learner.learn(state, Rows(inputs[[number]], rows.targets[[number]]))
        if number % 20 == 19:
            fitted = state.last[0] @ np.append(inputs[[number]].toarray()[0], 0.5)
            np.testing.assert_allclose(fitted, rows.targets[number], rtol=1e-9)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("loss", "outputs", "weights"), LOSSES)
def test_steps_and_averages_are_those_of_the_twin(loss: str, outputs: int, weights: Any, precision: str) -> None:
    n_rows = 80 if precision == "float32" else 600  # where rounding decides a margin, later rows differ
    rows, learner = rows_of(n_rows, loss, precision), learner_of(loss, outputs, weights, precision)
    learned = learner.learn(learner.start(), rows)
    last, average, mistakes = twin(learner, rows)
    close: dict[str, Any] = {"rtol": 1e-3, "atol": 1e-4} if precision == "float32" else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(learned.last, last, **close)
    np.testing.assert_allclose(learned.averaged, average, **close)
    np.testing.assert_allclose(learned.summed / learned.n_sampled, average, **close)
    assert learned.progress.rows == n_rows
    assert not np.allclose(last, average, rtol=0.05)
    if learner.task != "regression":
        assert learned.progress.mistakes == mistakes > 0


@pytest.mark.parametrize(("loss", "outputs", "weights"), LOSSES)
def test_gradients_are_differences_of_steps(loss: str, outputs: int, weights: Any) -> None:
    """The sum of the subgradients is that of one step from the same weights for each row alone."""
    # a step so short that no row of a regression is overshot
    rows, learner = rows_of(90, loss, "float64"), learner_of(loss, outputs, weights, "float64", step=0.01)
    start = learner.learn(learner.start(), rows_of(64, loss, "float64", seed=3))
    found = learner.gradient(start.last, rows)
    expected = np.zeros_like(start.last)
    for row in range(90):
        one = learner.learn(start, Rows(rows.inputs[[row]], rows.targets[[row]]))
        expected += (start.last - one.last) / learner.step_size
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-9, atol=1e-12)
    assert 0 < found.progress.updates <= found.progress.rows == 90


@pytest.mark.parametrize("cuts", [(256,), (17, 300), (1, 2, 3)])
def test_rows_learned_in_parts_give_the_same_bits(cuts: Sequence[int]) -> None:
    rows, learner = rows_of(500, "hinge", "float32"), learner_of("hinge", 1, None)
    whole, parts = learner.learn(learner.start(), rows), learner.start()
    for first, last in zip((0, *cuts), (*cuts, 500), strict=True):
        parts = learner.learn(parts, Rows(rows.inputs[first:last], rows.targets[first:last]))
    assert isinstance(whole, SparseWeights)
    for name in ("last", "total"):
        assert getattr(whole, name).tobytes() == getattr(parts, name).tobytes()
    assert whole.progress == parts.progress


def test_learning_continues_from_averaged_weights() -> None:
    learner, rows = learner_of("hinge", 1, None, "float64"), rows_of(320, "hinge", "float64")
    fork = learner.shard_start(learner.start())
    parts = [learner.learn(fork, Rows(rows.inputs[k::2], rows.targets[k::2])) for k in range(2)]
    base = average_shard_weights(learner.start(), parts)
    after = learner.learn(base, rows)
    again = learner.learn(base, Rows(rows.inputs[:160], rows.targets[:160]))
    expected = again.summed.copy()
    weights = again
    for row in range(160, 320):
        weights = learner.learn(weights, Rows(rows.inputs[[row]], rows.targets[[row]]))
        if weights.progress.rows % 16 == 0:
            expected += weights.progress.rows // 16 * weights.last
    np.testing.assert_allclose(after.summed, expected, rtol=1e-9, atol=1e-9)


def test_wrong_rows_and_steps_are_refused() -> None:
    learner, rows = learner_of("hinge", 1, None), rows_of(60, "hinge", "float32")
    with pytest.raises(DataError, match="Two classes are -1 and \\+1"):
        learner.learn(learner.start(), Rows(rows.inputs, rows.targets + 1.0))
    with pytest.raises(DataError):
        learner.learn(learner.start(), Rows(rows.inputs[:, :30], rows.targets))
    diverging = learner_of("hinge", 1, None, step=1e39)
    with pytest.raises(DivergedError, match="the weights are no longer finite"):
        diverging.learn(diverging.start(), rows)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Return rows of three classes in five shards, with test rows."""
    folder = tmp_path_factory.mktemp("rows")
    inputs, targets = drawn(1500, 5000, 3)
    inputs = sparse.hstack([inputs[:, :60] * 3, inputs], format="csr")  # some columns occur often
    options = {"task": "multiclass", "rows_per_shard": 300, "holdout": 0.2, "svmlight_index": "0"}
    return ingest(written(folder / "rows.svm", inputs, targets), folder / "data", ingest_settings(**options)).dataset


def bits(data: Dataset, execution: Execution, **options: Any) -> bytes:
    given = {"data": "x", "solver": "fogd", "kernel": "linear", "step_size": 0.5} | options
    solver = make_solver(TrainSettings.model_validate(given), data)
    weights = solver.predictor(last_state(solver, data, execution)).arrays()["weights"]
    assert np.isfinite(weights).all()
    return bytes(weights.tobytes())


@pytest.mark.parametrize(
    "options",
    [{"passes": 2}, {"order": "stored"}, {"mode": "mix", "rounds": 3}, {"mode": "sum", "rounds": 5},
     {"mode": "sum", "rounds": 310, "step_rule": "plain"}],
)  # fmt: skip
def test_threads_and_workers_give_the_same_bits(data: Dataset, two_workers: Execution, options: dict[str, Any]) -> None:
    if options.get("rounds", 0) > 300:  # more rounds than a shard has rows; two shards are enough
        data = replace(data, shards=data.split("train")[:2])
    with open_execution(0, threads=1) as alone, open_execution(0, threads=3) as here:
        found = {bits(data, execution, **options) for execution in (alone, here, two_workers)}
    assert len(found) == 1


def test_it_is_trained_scored_exported_and_explained(data: Dataset, tmp_path: Path) -> None:
    result = okl.train(str(data.folder), solver="fogd", kernel="linear", passes=5, out=str(tmp_path / "run"))
    assert result["test"]["accuracy"] > 1.2 * result["baselines"]["majority"]["test"]["accuracy"]
    model = okl.load(str(tmp_path / "run" / "model"))
    rows, _ = drawn(30, model.schema.n_features, 3, seed=4)
    shown = okl.explain(str(tmp_path / "run" / "model"))
    assert max(index for pairs in shown["weights"].values() for index in (int(name[1:]) for name, _ in pairs)) < 5060
    assert okl.export(str(tmp_path / "run" / "model"), tmp_path / "model.onnx")["largest_difference"] < 1e-5
    assert model.scores(rows).shape == (30, 3)


@pytest.mark.parametrize(
    "options",
    [{"track": True}, {"radius": 2.0}, {"constraints": ["norm <= 10"]}, {"frequencies": 50}],
)
def test_options_of_dense_rows_are_refused(data: Dataset, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"but rows are sparse, which fogd takes without\. Remove it\."):
        okl.train(str(data.folder), solver="fogd", kernel="linear", **options)
    if "track" in options:
        with pytest.raises(ConfigError, match=r"but rows are sparse, which nogd takes without\. Remove it\."):
            okl.train(str(data.folder), solver="nogd", **options)


@pytest.mark.parametrize("options", [{"solver": "fogd", "frequencies": 60}, {"solver": "nogd", "kernel": "polynomial"}])
def test_the_regret_of_sparse_rows_in_a_map_is_that_of_dense_ones(
    data: Dataset, options: dict[str, Any], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"radius": 2.0, "certify": True, "order": "stored", "mode": "stream"}
    result = okl.train(str(data.folder), out=str(tmp_path / "run"), **options, **given)
    proof, predictor = result["certificate"], okl.load(str(tmp_path / "run" / "model")).predictor.base  # type: ignore[attr-defined]
    assert isinstance(predictor, LinearPredictor)
    feature_map, step, (inputs, targets) = predictor.feature_map, result["chosen"]["step_size"], all_rows(data)
    learner = LinearLearner(feature_map, make_loss("multiclass-hinge"), step, 3, radius=2.0, decaying=True)
    dense, targets = inputs.toarray(), targets.astype(np.float64)
    assert learner.learn(learner.start(), Rows(dense, targets)).progress.surrogate == pytest.approx(
        proof["loss"], rel=1e-4
    )
    held = MemoryRows(transform_rows(feature_map, dense), targets, learner, True, 1)
    best = solve_in_ball(held.between(0, len(targets)), "hinge", 2.0).certificate
    assert best.dual <= proof["comparator"]["objective"]
    assert proof["comparator"]["dual_objective"] <= best.primal
    assert 0.0 < proof["regret"] <= proof["regret_at_most"] <= proof["bound"]
    assert proof["regret_at_most"] <= proof["kernel_bound"]["bound"] <= proof["loss"]
