"""Small models to register, and writers of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from okl.data.dataset import ColumnStatistics, Schema
from okl.features.fourier import draw_fourier_map
from okl.features.predictors import LinearPredictor
from okl.kernels import Gaussian
from okl.models.file import Model, save_model
from okl.models.registry import RegisteredModel, Version
from okl.models.registry_log import Lineage

COLUMN = ColumnStatistics(count=10, mean=2.0, standard_deviation=4.0, minimum=-1.0, maximum=9.0)
SCHEMA = Schema(
    features=("a", "b", "c"), target="y", task="binary", labels=("no", "yes"), stored_labels=(0.0, 1.0),
    class_counts=(6, 4), feature_statistics=(COLUMN, COLUMN, COLUMN),
)  # fmt: skip
MAP = draw_fourier_map(Gaussian(1.5), 3, 16, seed=4)


def model_numbered(number: float) -> Model:
    """Return a model whose weights and configuration contain only this number."""
    weights = np.full((1, 32), number, dtype=np.float32)
    return Model(SCHEMA, LinearPredictor(MAP, weights), {"number": number}, {"data_sha256": "abc"})


def number_in(model: Model) -> float:
    """Return the number of a complete model; raise if its weights and its description disagree."""
    assert isinstance(model.predictor, LinearPredictor)
    (number,) = set(model.predictor.weights.ravel().tolist())
    assert model.configuration["number"] == number
    return float(number)


def writer(number: float) -> Callable[[Path], None]:
    """Return a function that writes the files of a version."""

    def write(folder: Path) -> None:
        save_model(model_numbered(number), folder / "model")
        (folder / "report.html").write_text(f"<p>{number}</p>")
        (folder / "state").mkdir()
        (folder / "state" / "arrays.bin").write_bytes(bytes([int(number) % 256]) * 100)

    return write


def lineage(number: float, parent: int | None = None, **more: Any) -> Lineage:
    """Return the lineage of a version that learnt one shard with that number."""
    shard = {"sha256": f"{int(number):064x}", "name": f"day-{number}.parquet", "rows": 100}
    return Lineage(parent=parent, shards=(shard,), settings={"solver": "fogd", "number": number}, **more)


def publish(model: RegisteredModel, number: float, parent: int | None = None, **options: Any) -> Version:
    """Publish a version that must be new."""
    version, new = model.publish(writer(number), lineage(number, parent), **options)
    assert new
    return version
