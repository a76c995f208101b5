from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from okl.configuration import IngestSettings
from okl.errors import ConfigError, DataError
from okl.execution.local import LocalExecution
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.online.constraints.columns import (
    check_columns,
    members,
    numbers,
    read_side,
    sample_side,
    values_of,
    without_features,
)
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.quantities import Covariance, Group
from okl.online.constraints.rows import estimate_rows
from okl.retraining.union import union
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.store.reading import read_rows
from tests.online.constraints.cases import sensitive_data

TEXTS = ("abs(covariance(s)) <= 0.01", "difference(how=often, how=never) <= 0", "mean(s=0) >= -1", "norm <= 5")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return sensitive_data(tmp_path_factory.mktemp("constraints"))


def test_rows_are_the_quantities_of_all_training_rows(data: Dataset) -> None:
    constraints, _ = parse_constraints(TEXTS)
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


def test_column_that_is_not_there_is_told_with_its_neighbours(data: Dataset) -> None:
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


def test_covariance_takes_no_text(data: Dataset) -> None:
    constraints, _ = parse_constraints(["covariance(how) <= 1"])
    with LocalExecution(1) as execution, pytest.raises(DataError, match="holds text"):
        estimate_rows(data, constraints, draw_fourier_map(Gaussian(1.0), 4, 5, 0), execution)


def test_some_input_is_left_to_learn_from(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="none is left"):
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
    np.testing.assert_array_equal(members(Group("day", value), columns), expected)


def test_values_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(DataError, match=r"'day'.* holds whole numbers beyond 2\^53"):
        values_of(pa.chunked_array([pa.array([2**53 + 1])]), "day")
    rounded = {"day": values_of(pa.chunked_array([pa.array([20240104.0], pa.float32())]), "day")}
    with pytest.raises(DataError, match=r"day=20240103: column 'day' is stored as float32.* --key day"):
        members(Group("day", "20240103"), rounded)


def test_a_covariance_takes_numbers_that_are_written_with_zeros() -> None:
    quantity = Covariance("hour")
    columns = {"hour": values_of(pa.chunked_array([pa.array(["07", "10", "7"])]), "hour")}
    np.testing.assert_array_equal(numbers(quantity, columns, "data"), [7.0, 10.0, 7.0])
    columns = {"hour": values_of(pa.chunked_array([pa.array(["07", None])]), "hour")}
    with pytest.raises(DataError, match="misses a value"):
        numbers(quantity, columns, "data")


def test_a_sample_of_shards_that_write_a_key_otherwise_has_one_group(tmp_path: Path) -> None:
    parts: list[Dataset] = []
    for zero in ("", "0"):
        file = tmp_path / f"written{zero}.csv"
        file.write_text("x,y,hour\n" + "".join(f"{i}.5,{i % 2},{zero}{i % 5 + 1}\n" for i in range(40)))
        reference = parts[0].schema if parts else None
        settings = IngestSettings(target="y", keys=("hour",), scale="none", holdout=None)
        parts.append(ingest(file, tmp_path / f"data{zero}", settings, reference=reference).dataset)
    columns = sample_side(union(tmp_path, parts), "train", 1000, 0, ("hour",))
    assert len(columns["hour"]) == 80
    assert members(Group("hour", "3"), columns).sum() == 16
