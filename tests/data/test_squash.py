"""Laws of columns with heavy tails: which are squashed, how they are read, and what a model stores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import okl
from okl.data.dataset import Dataset, Schema
from okl.data.ingest.run import ingest
from okl.data.reading import sample_rows
from okl.data.squash import HEAVY, heavy_tailed, squash, with_squashed
from okl.foundation.errors import ModelError
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.types import Precision
from okl.models.file import load_model

ROWS = 3000
NAMES = ("normal", "incomes", "mostly zero", "yes or no", "constant", "rare")


def columns(seed: int = 0, n_rows: int = ROWS) -> NDArray[np.float64]:
    """Return columns in the order of NAMES; incomes and the mostly zero column have heavy tails."""
    draw = np.random.default_rng(seed)
    return np.column_stack([
        draw.normal(size=n_rows),
        np.exp(10.0 + 2.5 * draw.normal(size=n_rows)),
        np.exp(draw.normal(size=n_rows)) * (draw.random(n_rows) < 0.3),
        draw.random(n_rows) < 0.5,
        np.full(n_rows, 7.0),
        draw.random(n_rows) < 0.01,
    ]).astype(np.float32)  # fmt: skip


def table(seed: int = 0, n_rows: int = ROWS) -> pa.Table:
    """Return a table whose target depends on the logarithm of incomes and on whether another column is above 0."""
    x = columns(seed, n_rows).astype(np.float64)
    signal = np.sin(0.8 * (np.log(x[:, 1]) - 10.0)) + (x[:, 2] > 0) * x[:, 0]
    return pa.table(dict(zip(NAMES, x.T, strict=True)) | {"y": (signal > 0).astype(np.int64)})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("heavy")
    pq.write_table(table(), folder / "rows.parquet")
    ingest_settings = settings_from(IngestSettings, {"target": "y", "holdout": 0.2, "rows_per_shard": 700}, "test")
    return ingest(folder / "rows.parquet", folder / "set", ingest_settings).dataset


def test_only_number_columns_with_heavy_tails_are_squashed(data: Dataset) -> None:
    squashed = with_squashed(data, seed=0).schema.squashed
    assert [column.name for column in squashed] == ["incomes", "mostly zero"]
    values = columns()[:, 1].astype(np.float64)
    assert np.mean(((values - values.mean()) / values.std()) ** 4) > HEAVY
    assert squashed[0].center == pytest.approx(np.median(values), rel=0.1)
    low, high = np.percentile(values, [25, 75])
    assert squashed[0].width == pytest.approx((high - low) / 1.349, rel=0.1)
    assert squashed[1].center == 0.0 < squashed[1].width  # more than half of the values are equal
    assert with_squashed(data, seed=0).schema.squashed == squashed


def test_squashed_values_are_bounded_and_keep_their_order() -> None:
    values = np.sort(columns()[:, 1].astype(np.float64))
    squashed = squash(values, float(np.median(values)), float(values.std()) / 100.0)
    assert (np.diff(squashed) >= 0.0).all()
    assert np.abs(squashed).max() < 3.0 < np.abs(values).max()
    np.testing.assert_allclose(squash(np.array([1.001, 0.999]), 1.0, 1.0), [0.001, -0.001], rtol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["robust", "robust-minmax"])
def test_rows_are_squashed_and_then_scaled(data: Dataset, scaling: Any, precision: Precision) -> None:
    schema = with_squashed(data, seed=0).schema.scaled_as(scaling)
    assert schema.scaling == scaling
    read = sample_rows(replace(data, schema=schema), "train", 10**6, 0, precision).inputs
    raw = sample_rows(data, "train", 10**6, 0, "float64").inputs
    for index, column in ((1, schema.squashed[0]), (2, schema.squashed[1])):
        expected = squash(raw[:, index], column.center, column.width)
        shift, factor = schema.shift_and_factor[0][index], schema.shift_and_factor[1][index]
        error = 1e-5 if precision == "float32" else 1e-12
        np.testing.assert_allclose(read[:, index], (expected - shift) * factor, atol=error)
        if scaling == "robust":
            assert abs(float(read[:, index].mean())) < 0.02
            assert float(read[:, index].std()) == pytest.approx(1.0, abs=0.02)
        else:
            assert -1e-6 < read[:, index].min() < 0.01 < 0.99 < read[:, index].max() <= 1.000001
    plain = sample_rows(replace(data, schema=data.schema.scaled_as(schema.scale)), "train", 10**6, 0, precision).inputs
    np.testing.assert_array_equal(read[:, [0, 3, 4, 5]], plain[:, [0, 3, 4, 5]])
    assert replace(data, schema=schema).read_sha256 != replace(data, schema=replace(schema, squashed=())).read_sha256


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("trained")
    pq.write_table(table(), folder / "rows.parquet")
    return {
        rescale: okl.train(
            folder / "rows.parquet", out=folder / rescale, target="y", holdout=0.2, rescale=rescale, solver="ridge",
            n_landmarks=200, kernel="gaussian",
        )
        for rescale in ("standard", "robust")
    }  # fmt: skip


def test_squashed_columns_improve_a_kernel_model(trained: Any) -> None:
    assert trained["robust"]["test"]["accuracy"] > trained["standard"]["test"]["accuracy"] + 0.05


def test_a_model_squashes_new_rows_like_its_training_rows(trained: Any, tmp_path: Path) -> None:
    model = load_model(trained["robust"]["model"])
    new = table(seed=1, n_rows=500)
    rows = np.column_stack([new[name].to_numpy() for name in NAMES])
    np.testing.assert_array_equal(model.predict(new), model.predict(rows))
    extreme_rows = rows.copy()
    extreme_rows[:, 1:3] = 3e38
    assert np.isfinite(model.scores(extreme_rows)).all()
    assert [column.name for column in model.schema.squashed] == ["incomes", "mostly zero"]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"name": "z"}, "a squashed column is not a feature"), ({"width": 0.0}, "a width that is not positive")],
)
def test_a_damaged_schema_is_refused(change: Any, message: str, trained: Any, tmp_path: Path) -> None:
    model = load_model(trained["robust"]["model"])
    broken = replace(model.schema.squashed[0], **change)
    schema: Schema = replace(model.schema, squashed=(broken, *model.schema.squashed[1:]))
    replace(model, schema=schema).save(tmp_path / "broken")
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path / "broken")


def test_the_automatic_choice_squashes_heavy_tails() -> None:
    learner = okl.KernelClassifier(budget_seconds=2.0, random_state=0).fit(table().drop(["y"]), table()["y"])
    assert learner.settings_.rescale in ("robust", "robust-minmax")
    assert any("heavy tails squashed" in sentence for sentence in learner.choice_["why"])
    assert learner.score(table(seed=1).drop(["y"]), table(seed=1)["y"]) > 0.9


def test_no_rows_and_no_columns_have_no_heavy_tails(data: Dataset) -> None:
    assert heavy_tailed(data.schema, np.empty((0, len(NAMES)))) == ()
    assert heavy_tailed(replace(data.schema, features=(), feature_statistics=()), np.empty((5, 0))) == ()
