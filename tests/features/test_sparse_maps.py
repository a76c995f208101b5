"""Feature maps of sparse rows equal those of the same dense rows, from kernel values to models, also on workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import okl
from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.features.bandwidth import median_distance
from okl.features.base import transform_rows
from okl.features.fourier import draw_fourier_map
from okl.features.landmarks import choose_landmarks
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import map_from_stored, score_rows
from okl.foundation.errors import ConfigError
from okl.kernels import Kernel, kernel_matrix, make_kernel
from okl.models import export as exporting
from okl.runs.checkpoint import DecodedTree, EncodedTree
from okl.runs.memory import plan_memory, workload_of
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings as ingest_settings
from tests.runs.test_sparse import drawn, written
from tests.solver_cases import last_state

KERNELS: list[Kernel] = [
    *(make_kernel(name, {"bandwidth": 1.5}) for name in ("gaussian", "laplacian", "matern32", "matern52")),
    make_kernel("polynomial", {"scale": 0.5, "offset": 1.0, "degree": 3}),
    make_kernel("linear", {}),
]


def rows_of(n: int, seed: int = 0, columns: int = 60) -> Any:
    """Return sparse rows of numbers of both signs, one of them empty."""
    random = np.random.default_rng(seed)
    rows = sparse.random_array((n, columns), density=0.15, format="csr", rng=random)
    rows.data = rows.data - 0.4
    return sparse.vstack([rows[:-1], sparse.csr_array((1, columns))], format="csr")


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernel_values_are_those_of_dense_rows(kernel: Kernel) -> None:
    left, right = rows_of(40), rows_of(30, seed=1)
    expected = kernel.matrix(left.toarray(), right.toarray())
    np.testing.assert_allclose(kernel_matrix(kernel, left, right), expected, rtol=1e-9, atol=1e-9)
    alone = kernel_matrix(kernel, left[[7]], right)[0]
    np.testing.assert_array_equal(kernel_matrix(kernel, left, right.tocsc())[7], alone)
    if kernel.name not in ("polynomial", "linear"):
        np.testing.assert_allclose(np.diag(kernel_matrix(kernel, left, left)), 1.0, rtol=1e-7)


@pytest.mark.parametrize("power", [1, 2])
def test_the_median_distance_is_that_of_dense_rows(power: Any) -> None:
    rows = rows_of(50)
    assert median_distance(rows, power) == pytest.approx(median_distance(rows.toarray(), power), rel=1e-12)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fourier", "uniform", "rpcholesky"])
def test_maps_are_those_of_dense_rows(name: Any, precision: Any) -> None:
    rows, kernel = rows_of(600).astype(precision), KERNELS[0]
    if name == "fourier":
        found: Any = draw_fourier_map(kernel, 60, 50, 3, precision)
        twin: Any = found
    else:
        landmarks = choose_landmarks(kernel, rows, 20, name, 4)
        assert sparse.issparse(landmarks)
        found, twin = (fit_nystrom_map(kernel, some, 20, precision) for some in (landmarks, landmarks.toarray()))
    close = 1e-5 if precision == "float32" else 1e-10
    features = found.transform(rows)
    np.testing.assert_allclose(features, twin.transform(rows.toarray()), rtol=0, atol=100 * close)
    kernel_values = kernel.matrix(rows[:9].toarray(), rows[:9].toarray())
    np.testing.assert_allclose(features[:9] @ features[:9].T, kernel_values, atol=0.4)
    # a row has the same bits in any block and on any number of threads, and after storing
    stored = map_from_stored(found.describe(), {name: array.copy() for name, array in found.arrays().items()})
    encoded = EncodedTree(found, {})
    for again in (found, stored, DecodedTree(encoded.tree, encoded.arrays, {}).value):
        np.testing.assert_array_equal(transform_rows(again, rows, 3), features)
        np.testing.assert_array_equal(again.transform(rows[[5]])[0], features[5])
    weights = np.random.default_rng(0).normal(size=(2, found.n_columns)).astype(precision)
    scores = score_rows(found, weights, rows, 1)
    np.testing.assert_allclose(scores, features @ weights.T, rtol=0, atol=20 * close)
    np.testing.assert_array_equal(scores, score_rows(found, weights, rows, 3))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Return rows of three classes in four shards, with test rows, relevant columns and rare ones."""
    folder = tmp_path_factory.mktemp("rows")
    words = sparse.random(900, 30, density=0.2, format="csr", rng=np.random.default_rng(1))
    targets = (words @ np.random.default_rng(0).normal(size=(30, 3))).argmax(axis=1)
    inputs = sparse.hstack([words, 0.02 * drawn(900, 5000, 3)[0]], format="csr")
    options = {"task": "multiclass", "rows_per_shard": 240, "holdout": 0.2, "svmlight_index": "0"}
    return ingest(written(folder / "rows.svm", inputs, targets), folder / "data", ingest_settings(**options)).dataset


def bits(data: Dataset, execution: Execution, **options: Any) -> bytes:
    solver = make_solver(TrainSettings.model_validate({"data": "x"} | options), data)
    weights = solver.predictor(last_state(solver, data, execution)).arrays()["weights"]
    assert np.isfinite(weights).all()
    assert np.abs(weights).max() > 0.0
    return bytes(weights.tobytes())


SOLVERS: list[dict[str, Any]] = [
    {"solver": "fogd", "mode": "stream", "step_size": 0.5, "frequencies": 20, "map": "auto"},
    {"solver": "nogd", "mode": "sum", "kernel": "laplacian", "rounds": 4},
    {"solver": "c-svm", "map": "nystrom", "frequencies": 20, "tol": 1e-2},
    {"solver": "mm-mpm", "frequencies": 10, "tol": 1e-2},
    {"solver": "ridge", "n_landmarks": 60, "kernel": "matern32"},
    {"solver": "scs", "frequencies": 10, "gap": 0.05, "lam": 1e-2, "bias": "regularised"},
]


@pytest.mark.parametrize("options", SOLVERS, ids=lambda options: options["solver"])
def test_threads_and_workers_give_the_same_bits(data: Dataset, two_workers: Execution, options: dict[str, Any]) -> None:
    with open_execution(0, threads=1) as alone, open_execution(0, threads=3) as here:
        assert len({bits(data, execution, **options) for execution in (alone, here, two_workers)}) == 1


@pytest.mark.parametrize("options", [{"solver": "nogd", "passes": 3}, {"solver": "ridge", "n_landmarks": 200}])
def test_models_are_scored_exported_and_explained(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    result = okl.train(str(data.folder), out=str(tmp_path / "run"), threads=1, **options)
    assert result["test"]["accuracy"] > 1.15 * result["baselines"]["majority"]["test"]["accuracy"]
    folder = str(tmp_path / "run" / "model")
    rows, _ = drawn(30, data.schema.n_features, 3, seed=4)
    scores = okl.load(folder).scores(rows)
    assert len(np.unique(scores)) > 60
    for form in ("onnx", "skops"):
        assert okl.export(folder, tmp_path / f"model.{form}", form)["largest_difference"] < 1e-5
    monkeypatch.setattr(exporting, "MOST_MAP_NUMBERS", 10_000)
    with pytest.raises(ConfigError, match=r"feature map has .* numbers for 5,0"):
        okl.export(folder, tmp_path / "again.onnx")
    shown = okl.explain(folder)
    assert "weights" not in shown
    assert "a kernel of sparse rows has no weight for each input" in shown["no_importance"]
    assert okl.evaluate(folder, str(data.folder))["metrics"]["accuracy"] == pytest.approx(result["test"]["accuracy"])


def test_frequencies_that_do_not_fit_are_refused(data: Dataset) -> None:
    given = {"data": "x", "solver": "fogd", "frequencies": 40_000}
    with pytest.raises(ConfigError, match=r"needs \S+ MiB .*block \S+, .*use fewer frequencies or landmarks"):
        plan_memory(TrainSettings.model_validate(given), workload_of(data), 0, 2**31, 2**28)
    plan_memory(TrainSettings.model_validate(given | {"frequencies": 400}), workload_of(data), 0, 2**31, 2**28)
