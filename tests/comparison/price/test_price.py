"""What a constraint costs: a path of bounds from a data set to a table, the same wherever it is worked on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.executor import Execution
from okl.distributed.local import LocalExecution
from okl.features.fourier import draw_fourier_map
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.settings import settings_from
from okl.kernels import Gaussian
from okl.runs.compare import Asked, bounds_between
from okl.runs.compare_run import compare
from okl.runs.compare_settings import CompareSettings
from okl.runs.price import Priced, PriceItem, PriceWork, SideSample
from okl.solvers.online.constraints import Constraint, ConstraintGroup, Covariance, MeanDifference, without_features
from tests.solvers.online.constraints_cases import sensitive_data

SMALL = {"folds": 2, "rows": 500, "frequencies": 15, "bandwidth": 1.0, "radius": 8.0, "threads": 2}
COVARIANCE = "abs(covariance(s)) <= 0.01"
BOTH = (
    Constraint(Covariance("s"), -0.01, 0.01),
    Constraint(MeanDifference(ConstraintGroup("how", "often"), ConstraintGroup("how", "never")), high=2.0),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return sensitive_data(tmp_path_factory.mktemp("price"))


def settings(data: Dataset, out: Path, **values: Any) -> CompareSettings:
    given = {"data": str(data.folder), "out": str(out), "constraints": (COVARIANCE,), **SMALL, **values}
    return settings_from(CompareSettings, given, "test")


@pytest.fixture(scope="module")
def result(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return compare(settings(data, tmp_path_factory.mktemp("run") / "run", constraint_path="0.05, 0.005"))


def test_each_bound_is_kept_in_every_fold_and_the_end_has_none(result: dict[str, Any]) -> None:
    tight, loose, free = result["path"]
    assert [row["bound"] for row in result["path"]] == [0.005, 0.05, None]
    for row in (tight, loose):
        values = row["limits"][0]["train"]["values"]
        assert len(values) == 2
        assert max(map(abs, values)) <= row["bound"]
        assert row["met"]
        assert row["price"] == pytest.approx(free["mean"] - row["mean"])
        assert 0.0 <= row["p_value"] <= 1.0
    assert free["train"]["value"] == result["without"] > 0.06, "there is something to bound"
    assert free["met"] is None
    assert not free["limits"][0]["kept"]
    assert free["mean"] > result["majority"] + 0.1
    assert free["mean"] > tight["mean"]
    assert free["test"]["decisions"] > tight["test"]["decisions"] > 0.0
    assert all(row["test"]["standard_error"] > 0.0 for row in result["path"])


def test_the_best_weights_stand_beside_with_their_proof(result: dict[str, Any]) -> None:
    for row in result["path"]:
        assert row["best"]["relative_gap"] <= 0.01
        assert row["best"]["mean"] > result["majority"]
        assert row["best"]["spread"] == pytest.approx(np.std(row["best"]["accuracies"], ddof=1))


def test_the_folder_holds_result_and_report(result: dict[str, Any]) -> None:
    folder = Path(result["run"])
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "result.json"]
    assert json.loads((folder / "result.json").read_text()) == result
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "What each bound costs" in page
    assert "without abs(covariance(s))" in page


def made_sample(data: Dataset, holdout: Any = None) -> SideSample:
    feature_map = draw_fourier_map(Gaussian(1.0), 3, 15, 0)
    apart = without_features(data, ("s",))
    return SideSample(apart, 400, 0, "float32", 2, holdout, feature_map, ("s", "how"))


def timeless(priced: Priced) -> Priced:
    best = priced.best and replace(priced.best, seconds=0.0)
    return replace(priced, trial=replace(priced.trial, seconds=0.0), best=best)


def test_what_comes_of_a_bound_does_not_depend_on_who_learns(data: Dataset, two_workers: Execution) -> None:
    asked = Asked(BOTH, 8.0)
    items = [PriceItem(asked, part, bound) for bound in (None, 0.01) for part in range(2)]
    work = PriceWork(made_sample(data))
    with LocalExecution(1) as alone, LocalExecution(2) as threads:
        here = [timeless(priced) for priced in alone.map(work, items)]
        assert here == [timeless(priced) for priced in threads.map(work, items)]
    assert here == [timeless(priced) for priced in two_workers.map(work, items)]
    assert [one.train[1]["excess"] for one in here] == [0.0] * 4, "other constraints are kept at the end, too"
    assert here[0].train[0]["excess"] > 0.0


@pytest.mark.parametrize("holdout", [None, 0.3, "test"])
def test_columns_stand_beside_their_rows(data: Dataset, holdout: Any) -> None:
    learnt = SideSample(data, 400, 0, "float32", 2, holdout, None, ("s", "how"))
    part, sides = learnt.part(0), learnt.sides(0)
    place = data.schema.features.index("s")
    for inputs, columns in zip((part.inputs, part.test_inputs), sides, strict=True):
        np.testing.assert_array_equal(inputs[:, place], columns["s"])
        np.testing.assert_array_equal(columns["s"] > 0, columns["how"] == "often")
        assert 0.2 < columns["s"].mean() < 0.8
    np.testing.assert_array_equal(made_sample(data, holdout).sides(0)[1]["s"], sides[1]["s"])


def test_a_path_of_its_own_goes_from_the_bound_to_what_comes_without(data: Dataset, tmp_path: Path) -> None:
    asked = {"grid": 3, "certify": False, "holdout": 0.4}
    found = compare(settings(data, tmp_path / "run", **asked))
    bounds = [row["bound"] for row in found["path"][:-1]]
    assert bounds == list(bounds_between(0.01, found["without"], 3))
    assert bounds[0] == 0.01
    assert len(bounds) == 3
    assert max(bounds) < found["without"]
    assert found["path"][0]["best"] is None
    assert found["path"][0]["spread"] is None
    assert "McNemar" in found["test_name"]


def test_bounds_are_equal_multiples_of_each_other() -> None:
    bounds = bounds_between(0.003, 0.3, 4)
    assert bounds[0] == 0.003
    np.testing.assert_allclose(np.diff(np.log(bounds)), np.log(100.0) / 4, atol=1e-3)


@pytest.mark.parametrize(
    ("values", "kind", "sentence"),
    [
        ({"constraints": ("abs(covariance(z)) <= 0.1",)}, DataError, "'z'"),
        ({"constraints": ("abs(difference(s=1, s=7)) <= 0.1",)}, ConfigError, "group s=7 has no training rows"),
        ({"constraints": (COVARIANCE, "mean(s=1) >= 50")}, ConfigError, r"keep to 'mean\(s=1\) >= 50'"),
        ({"constraints": ("mean(s=1) >= 0",)}, ConfigError, r"none of them is abs\(QUANTITY\)"),
        ({"constraints": ("abs(covariance(s)) < 1",)}, ConfigError, "constraint 'abs"),
        ({"constraints": (COVARIANCE, "abs(mean(s=1)) <= 1")}, ConfigError, "the bounds 0.01, 1.0"),
        ({"constraints": ("abs(covariance(s)) <= 0",)}, ConfigError, "equal factors, but that is 0"),
        ({"constraint_path": ","}, ConfigError, "constraint_path = ','"),
        ({"constraint_path": "0.1,much"}, ConfigError, "constraint_path = '0.1,much'"),
        ({"constraint_path": "0,0.1"}, ConfigError, "greater than 0"),
        ({"radius": None}, ConfigError, "--radius 10"),
        ({"models": "c-svm"}, ConfigError, "it is fogd that learns"),
        ({"memory": 2.0}, ConfigError, "memory = 2.0 was given"),
        ({"constraints": ()}, ConfigError, "radius = 8.0 was given, but no constraint"),
        ({"kernel": "polynomial"}, ConfigError, "polynomial"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    values: dict[str, Any], kind: type[Exception], sentence: str, data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=sentence):
        compare(settings(data, tmp_path / "run", **values))
    assert list(tmp_path.iterdir()) == []


def test_several_classes_and_regressions_are_refused(learnable: dict[str, Dataset], tmp_path: Path) -> None:
    for task in ("multiclass", "regression"):
        asked = {"constraints": ("abs(covariance(x0)) <= 0.1",)}
        with pytest.raises(ConfigError, match=f"makes this a {task} task"):
            compare(settings(learnable[task], tmp_path / "run", **asked))
