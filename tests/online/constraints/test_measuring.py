from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from okl.execution.local import LocalExecution
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.online.constraints.columns import read_side, without_features
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.measuring import measure_constraints
from okl.predictors import LinearPredictor
from okl.store.reading import read_rows
from tests.online.constraints.cases import sensitive_data

TEXTS = (
    "abs(covariance(s)) <= 0.001",
    "difference(how=often, how=never) <= 9",
    "mean(s=1) >= -9",
    "covariance(c) <= 9",
)


def test_scores_and_decisions_are_measured_as_defined(tmp_path: Path) -> None:
    data = without_features(sensitive_data(tmp_path), ("s", "c"))
    constraints, _ = parse_constraints(TEXTS)
    weights = np.random.default_rng(3).standard_normal((1, 20)).astype(np.float32)
    predictor = LinearPredictor(draw_fourier_map(Gaussian(1.0), 2, 10, 0), weights)
    with LocalExecution(2) as execution:
        found = measure_constraints(data, data.split("test"), constraints, predictor, "float32", execution)
    groups = [(shard, group) for shard in data.split("test") for group in range(len(shard.row_groups))]
    scores = np.concatenate(
        [predictor.scores(read_rows(data, shard, (group,), "float32").inputs) for shard, group in groups]
    ).astype(np.float64)
    side = [read_side(data, *one, ("s", "how", "c")) for one in groups]
    s, how, c = (np.concatenate([columns[name] for columns in side]) for name in ("s", "how", "c"))
    s, c = s.astype(np.float64), c.astype(np.float64)  # inputs are stored as float32
    named = (scores >= 0).astype(float)
    products = (scores - scores.mean()) * (s - s.mean())
    assert found[0]["value"] == pytest.approx(products.mean(), abs=1e-12)
    assert found[0]["standard_error"] == pytest.approx(products.std() / np.sqrt(len(s)), rel=1e-9)
    assert found[0]["excess"] == pytest.approx(abs(products.mean()) - 0.001, abs=1e-12)
    assert found[0]["positive_rate_difference"] == pytest.approx(named[s == 1].mean() - named[s == 0].mean())
    often, never = how == "often", how == "never"
    assert found[1]["value"] == pytest.approx(scores[often].mean() - scores[never].mean())
    errors = [scores[group].std() / np.sqrt(group.sum()) for group in (often, never)]
    assert found[1]["standard_error"] == pytest.approx(np.hypot(*errors))
    assert found[1]["positive_rate_difference"] == pytest.approx(named[often].mean() - named[never].mean())
    assert found[2]["positive_rate"] == pytest.approx(named[s == 1].mean())
    assert found[3]["decision_covariance"] == pytest.approx(np.cov(named, c, bias=True)[0, 1])
    assert abs(found[0]["positive_rate_difference"]) > 0.01
