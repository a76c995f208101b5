from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.data.reading import read_rows
from okl.distributed.in_process import LocalExecution
from okl.features.fourier import draw_fourier_map
from okl.features.predictors import LinearPredictor
from okl.foundation.errors import ConfigError, DataError
from okl.kernels import Gaussian
from okl.models.file import load_model
from okl.solvers.online.constraints import (
    Constraint,
    ConstraintGroup,
    Covariance,
    GroupMean,
    LinearLimits,
    MeanDifference,
    NormBound,
    check_columns,
    estimate_rows,
    measure_constraints,
    members,
    numbers,
    parse_constraint,
    parse_constraints,
    read_side,
    values_of,
    without_features,
)
from okl.solvers.settings import TrainSettings
from tests.data.sources import settings
from tests.naive.constrained import step
from tests.rows import train
from tests.solvers.online.constraints_cases import sensitive_data

DIFFERENCE = MeanDifference(ConstraintGroup("f71", "1"), ConstraintGroup("job title", "night shift"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(covariance(f71)) <= 0.01", Constraint(Covariance("f71"), -0.01, 0.01)),
        ("covariance('a (b)')>=-1e-3", Constraint(Covariance("a (b)"), low=-1e-3)),
        ("mean(sex=Male) <= .2", Constraint(GroupMean(ConstraintGroup("sex", "Male")), high=0.2)),
        ('-1 <= difference(f71=1, "job title"="night shift") <= 2', Constraint(DIFFERENCE, -1.0, 2.0)),
        (" norm<=10 ", NormBound(10.0)),
    ],
)
def test_text_parses_to_its_constraint_and_back(text: str, expected: Constraint | NormBound) -> None:
    assert parse_constraint(text) == expected
    assert parse_constraint(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is not a quantity"),
        ("covariance(f71)", "'<=' or '>=' is expected"),
        ("covariance(f71) <= ten", "'ten' is not a finite number"),
        ("abs(covariance(f71)) <= -1", "cannot be at most -1"),
        ("rate(f71=1) <= 0.1", "is not a quantity"),
        ("mean(f71) <= 0.1", "expected '=' at ')'"),
        ("abs(mean(f71=1)) >= 0.1", "expected '<=' at '>='"),
        ("norm <= 0", "norm = 0.0"),
        ("mean(f71=1) <= 0.1 0.2", "unexpected '0.2' at the end"),
        ('mean("f71=1) <= 1', "cannot be read"),
        ("3 <= mean(f71=1) <= 1", "not below it"),
        ("covariance(mean area) <= 1", "expected ')' at 'area'. Expected "),
        ("covariance(mean area) <= 1", "names with spaces are in quotes."),
    ],
)
def test_a_syntax_error_names_its_position(text: str, part: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_constraint(text)
    assert part in str(error.value)


def test_the_smallest_norm_bound_applies_and_duplicate_constraints_are_removed() -> None:
    constraints, radius = parse_constraints(["norm <= 10", "mean(a=1) <= 1", "norm <= 3"])
    assert (len(constraints), radius) == (1, 3.0)
    assert parse_constraints(["mean(a=1) <= 1"])[1] is None
    with pytest.raises(ConfigError, match="twice"):
        parse_constraints(["mean(a=1) <= 1", "mean(a=1)<=1.0"])


def test_a_constraint_has_a_limit() -> None:
    with pytest.raises(ConfigError, match="expected a lower limit"):
        Constraint(Covariance("a"))
    with pytest.raises(ConfigError, match="expected a lower limit"):
        Constraint(Covariance("a"), low=math.nan)


NAMES = ("mean(a=1) >= 0.5", "mean(a=1) <= 0.2", "covariance(b) <= 0")


def limits(low: list[float], high: list[float], radius: float = 10.0, rows: int = 3) -> LinearLimits:
    matrix = np.random.default_rng(4).standard_normal((rows, 12))
    matrix[1] = matrix[0]
    return LinearLimits(matrix, np.array(low), np.array(high), NAMES[:rows], radius)


@pytest.mark.parametrize("radius", [2.0, 20.0])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_nearest_weights_are_those_of_a_cone_solver(n_outputs: int, radius: float) -> None:
    kept = limits([0.1, -np.inf, -np.inf], [np.inf, 0.3, 0.0], radius)
    kept = replace(kept, n_outputs=n_outputs, shift=np.array([0.05, 0.05, 0.0]))
    point = np.random.default_rng(1).standard_normal((n_outputs, 12))
    nearest = kept.nearest(point)
    assert nearest.shape == point.shape
    rows = np.asarray(np.kron(np.eye(n_outputs), kept.rows), dtype=np.float64)
    free = np.full(3 * n_outputs, 1e4)
    low, high = kept.low - kept.shift + kept.margins, kept.high - kept.shift - kept.margins
    sides = (np.tile(low, n_outputs), np.tile(high, n_outputs))
    expected = step(point.ravel(), rows, *sides, free, free, radius)
    np.testing.assert_allclose(nearest.ravel(), expected, atol=1e-4)
    assert not kept.excess(nearest).any()
    assert kept.excess(point).any()
    np.testing.assert_allclose(kept.nearest(nearest), nearest, atol=1e-9)


def test_limits_in_conflict_are_named_and_no_others() -> None:
    with pytest.raises(ConfigError) as error:
        limits([0.5, -np.inf, -np.inf], [np.inf, 0.2, 0.0])
    assert NAMES[0] in str(error.value)
    assert NAMES[1] in str(error.value)
    assert NAMES[2] not in str(error.value)


def test_a_limit_beyond_the_ball_is_named() -> None:
    with pytest.raises(ConfigError, match=r"norm up to 0\.01 satisfy"):
        limits([0.5, -np.inf, -np.inf], [np.inf, 2.0, 0.0], radius=0.01)


def test_equality_has_no_room_for_a_margin() -> None:
    matrix = np.random.default_rng(2).standard_normal((1, 6))
    kept = LinearLimits(matrix, np.zeros(1), np.zeros(1), NAMES[:1], 1.0, margin=0.1)
    assert kept.margins[0] == 0.0
    assert abs(kept.values(kept.nearest(np.ones(6)))[0]) < 1e-9


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


ROW_TEXTS = ("abs(covariance(s)) <= 0.01", "difference(how=often, how=never) <= 0", "mean(s=0) >= -1", "norm <= 5")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return sensitive_data(tmp_path_factory.mktemp("constraints"))


def test_rows_are_the_quantities_of_all_training_rows(data: Dataset) -> None:
    constraints, _ = parse_constraints(ROW_TEXTS)
    projected = without_features(data, ("s",))
    assert projected.schema.features == ("a", "b", "c")
    feature_map = draw_fourier_map(Gaussian(1.0), 3, 20, 0)
    with LocalExecution(2) as execution:
        rows, sums = estimate_rows(projected, constraints, feature_map, execution)
    assert len(data.split("train")) > 3
    groups = [(shard, group) for shard in projected.split("train") for group in range(len(shard.row_groups))]
    inputs = np.concatenate([read_rows(projected, *one[:1], one[1:], "float32").inputs for one in groups])
    side = [read_side(projected, *one, ("s", "how")) for one in groups]
    s, how = (np.concatenate([columns[name] for columns in side]) for name in ("s", "how"))
    weights = np.random.default_rng(0).standard_normal(40)
    scores = feature_map.transform(inputs).astype(np.float64) @ weights
    expected = [
        np.cov(scores, s, bias=True)[0, 1],
        scores[how == "often"].mean() - scores[how == "never"].mean(),
        scores[s == 0].mean(),
    ]
    np.testing.assert_allclose(rows @ weights, expected, atol=1e-10)
    assert sums.counts[0] == projected.rows("train")
    assert abs(expected[0]) > 1e-3


def test_a_missing_column_is_named_with_similar_columns(data: Dataset) -> None:
    constraints, _ = parse_constraints(["covariance(hwo) <= 1"])
    with pytest.raises(DataError, match="Did you mean 'how'"):
        check_columns(data.schema, constraints, "data")


@pytest.mark.parametrize(
    ("text", "part"),
    [("mean(how=daily) <= 1", "no training rows; column 'how' holds never, often, seldom"),
     ("mean(s=2) <= 1", "column 's' holds 0, 1")],
)  # fmt: skip
def test_group_without_rows_is_refused(data: Dataset, text: str, part: str) -> None:
    constraints, _ = parse_constraints([text])
    with LocalExecution(1) as execution, pytest.raises(ConfigError, match=part):
        estimate_rows(data, constraints, draw_fourier_map(Gaussian(1.0), 4, 5, 0), execution)


def test_covariance_refuses_text(data: Dataset) -> None:
    constraints, _ = parse_constraints(["covariance(how) <= 1"])
    with LocalExecution(1) as execution, pytest.raises(DataError, match="holds text"):
        estimate_rows(data, constraints, draw_fourier_map(Gaussian(1.0), 4, 5, 0), execution)


def test_at_least_one_input_must_remain(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="no input is left"):
        without_features(data, ("a", "b", "c", "s"))
    assert without_features(data, ("how",)) is data
    assert replace(data).schema.keys == ("how",)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (pa.array([20240103, 20240104, 20240105]), "20240103", [1, 0, 0]),
        (pa.array([20240103.5, 20240104.0, None]), "20240103.5", [1, 0, 0]),
        (pa.array([0.1, 0.2, float("nan")], pa.float32()), "0.1", [1, 0, 0]),
        (pa.array([0.1, 0.2, 0.1]), "0.1", [1, 0, 1]),
        (pa.array([True, None, False]), "true", [1, 0, 0]),
        (pa.array(["07", None, "7", "17", "seven"]), "7", [1, 0, 1, 0, 0]),
        (pa.array(["07", None, "x"]), "x", [0, 0, 1]),
    ],
)
def test_a_group_has_the_rows_of_its_value_and_no_others(column: pa.Array, value: str, expected: list[int]) -> None:
    columns = {"day": values_of(pa.chunked_array([column]), "day")}
    np.testing.assert_array_equal(members(ConstraintGroup("day", value), columns), expected)


def test_values_that_cannot_be_distinguished_are_refused() -> None:
    with pytest.raises(DataError, match=r"'day'.* has whole numbers beyond 2\^53"):
        values_of(pa.chunked_array([pa.array([2**53 + 1])]), "day")
    rounded = {"day": values_of(pa.chunked_array([pa.array([20240104.0], pa.float32())]), "day")}
    with pytest.raises(DataError, match=r"day=20240103: column 'day' is stored as float32.* --key day"):
        members(ConstraintGroup("day", "20240103"), rounded)


def test_a_covariance_takes_numbers_that_are_written_with_zeros() -> None:
    quantity = Covariance("hour")
    columns = {"hour": values_of(pa.chunked_array([pa.array(["07", "10", "7"])]), "hour")}
    np.testing.assert_array_equal(numbers(quantity, columns, "data"), [7.0, 10.0, 7.0])
    columns = {"hour": values_of(pa.chunked_array([pa.array(["07", None])]), "hour")}
    with pytest.raises(DataError, match="has missing values"):
        numbers(quantity, columns, "data")


@pytest.mark.parametrize("beside", ["text", "date", "missing"])
def test_a_model_of_a_table_with_encoded_columns_opens_again(tmp_path: Path, beside: str) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=400), "s": rng.integers(0, 2, 400).astype(float)})
    table["y"] = np.where(table["a"] + 0.3 * table["s"] + rng.normal(size=400) > 0, "yes", "no")
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 20, 400), "D")
    values: dict[str, Any] = {"text": rng.choice(["u", "v"], 400), "date": days, "missing": rng.normal(size=400)}
    table["b"] = values[beside]
    if beside == "missing":
        table.loc[::9, ["b", "s"]] = None  # also in the constrained column; its indicator is no input of the model
    table.to_parquet(tmp_path / "rows.parquet")
    ingested = settings(target="y", missing="mean", dates="parts", holdout=0.2)
    data = ingest(tmp_path / "rows.parquet", tmp_path / "data", ingested).dataset
    limit = {"constraints": ("abs(covariance(s)) <= 0.01",), "radius": 10.0, "solver": "fogd", "frequencies": 20}
    trained = train(
        TrainSettings.model_validate(
            {"data": str(data.folder), "out": str(tmp_path / "run"), "rescale": "standard"} | limit
        )
    )
    model = load_model(tmp_path / "run" / "model")
    assert {encoding.column for encoding in model.schema.encodings} == {"a", "b"}
    assert not any(name.startswith("s") for name in model.schema.features)
    scored = model.scores(pa.Table.from_pandas(table.drop(columns=["s", "y"])))
    assert scored.shape == (400,)
    assert trained["test"]["accuracy"] > 0.6
