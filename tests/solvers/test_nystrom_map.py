"""Nystrom maps for solvers that have Fourier maps by default (`--map nystrom`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import okl
from okl.data.execution import Execution
from okl.data.reading import sample_rows
from okl.distributed import open_execution
from okl.foundation.errors import ConfigError
from tests.features.test_sparse_maps import bits
from tests.rows import curved, train_settings, write

ROWS = 240


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("rows"), curved(ROWS).drop_columns(["split"]))


def trained(source: Path, out: Path, **options: Any) -> Any:
    given: dict[str, Any] = {"map": "nystrom", "frequencies": 20, "seed": 2}
    given["ingest"] = {"holdout": 0.2, "scale": "standard"}
    return okl.train(source, out=out, target="y", **given | options)


def test_with_all_rows_as_landmarks_the_model_is_the_kernel_machine_of_libsvm(source: Path, tmp_path: Path) -> None:
    options = {"solver": "c-svm", "C": 1.0, "bandwidth": 1.5, "tol": 1e-8, "precision": "float64"}
    result = trained(source, tmp_path / "run", frequencies=ROWS, **options)
    rows = sample_rows(okl.open_dataset(tmp_path / "run" / "data"), "train", ROWS, 0, "float64")
    machine = SVC(C=1.0, kernel="rbf", gamma=1 / (2 * 1.5**2), tol=1e-8).fit(rows.inputs, rows.targets)
    scores = result.model.predictor.base.scores(rows.inputs)
    np.testing.assert_allclose(scores, machine.decision_function(rows.inputs), atol=2e-3)


@pytest.mark.parametrize(
    ("solver", "more"),
    [
        ("logistic", {}),
        ("dwd", {}),
        ("scs", {"kernel": "polynomial", "degree": 2}),
        ("wolfe", {}),
        ("pegasos", {}),
    ],
)
def test_solvers_learn_in_a_nystrom_map_to_the_same_bits_and_export_it(
    solver: str, more: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    first = trained(source, tmp_path / "first", solver=solver, threads=1, **more)
    again = trained(source, tmp_path / "again", solver=solver, threads=3, **more)
    assert first["weights_sha256"] == again["weights_sha256"]
    assert first["test"]["accuracy"] > 0.8
    assert okl.explain(tmp_path / "first" / "model")["what"]["map"]["kind"] == "nystrom"
    assert okl.export(tmp_path / "first" / "model", tmp_path / "model.onnx")["largest_difference"] < 1e-5


def test_workers_give_the_same_bits(source: Path, tmp_path: Path, two_workers: Execution) -> None:
    data = okl.ingest(source, tmp_path / "data", target="y", holdout=0.2, scale="standard", rows_per_shard=60)
    with open_execution(0, threads=2) as here:
        found = [bits(data, where, solver="c-svm", map="nystrom", frequencies=20) for where in (here, two_workers)]
    assert found[0] == found[1]


def test_an_online_learner_names_the_one_with_a_nystrom_map(tmp_path: Path) -> None:
    settings = train_settings(tmp_path, tmp_path / "out", solver="fogd", map="nystrom")
    with pytest.raises(ConfigError, match=r"map = 'nystrom' is set, but fogd does not support it\. .* use nogd"):
        settings.check_options()
