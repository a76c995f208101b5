"""A model for every map and kernel, on synthetic columns of very different scales."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from okl.data.dataset import ColumnStatistics, Label, Schema
from okl.data.squash import heavy_tailed
from okl.features.base import FeatureMap
from okl.features.fourier import draw_fourier_map, draw_structured_map
from okl.features.linear import StandardisedLinear
from okl.features.nystrom import fit_nystrom_map
from okl.features.predictors import KernelExpansion, LinearPredictor, LocalExpansion, Predictor
from okl.foundation.types import FloatArray, Precision, Task
from okl.kernels import Gaussian, Kernel, Laplacian, Linear, Matern32, Matern52, Polynomial
from okl.models.file import Model
from tests.features.cells import draw_partition

N_INPUTS = 6
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (Gaussian(2.0), Laplacian(9.0), Matern32(3.0), Matern52(3.0), Polynomial(3, 0.2, 1.0), Linear())
}
MAPS = ("fourier", "structured", "standardised", *(f"nystrom {name}" for name in KERNELS))
EXPANSIONS = tuple(f"expansion {name}" for name in KERNELS)
CELLS = tuple(f"cells {name}" for name in KERNELS)
LABELS: dict[Task, tuple[Label, ...]] = {"binary": (-1, 1), "multiclass": ("a", "b", "ü"), "regression": ()}


def raw_rows(n_rows: int = 400) -> FloatArray:
    """Return raw rows (n_rows, N_INPUTS); the last column is constant."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((n_rows, N_INPUTS)) * np.geomspace(0.01, 300.0, N_INPUTS) + 5.0
    rows[:, -1] = 7.0
    return rows


def schema_of(task: Task, labels: tuple[Label, ...] | None = None, **values: object) -> Schema:
    """Return the schema of the columns of `raw_rows`, standardised."""
    columns = tuple(
        ColumnStatistics(len(one), float(one.mean()), float(one.std()), float(one.min()), float(one.max()))
        for one in raw_rows().T
    )
    given = {
        "labels": LABELS[task] if labels is None else labels,
        "scale": "standard",
        "feature_statistics": columns,
        "scale_target": task == "regression",
        "target_statistics": ColumnStatistics(400, 40.0, 8.0, 10.0, 90.0) if task == "regression" else None,
    }
    return Schema(tuple(f"x{i}" for i in range(N_INPUTS)), "y", task, **(given | values))  # type: ignore[arg-type]


def of_times() -> tuple[Model, FloatArray]:
    """Return a model with a column of seconds since 1970, where float32 numbers are 128 apart, and rows."""
    schema = schema_of("binary")
    time = ColumnStatistics(400, 1.7e9, 3600.0, 1.7e9 - 9000.0, 1.7e9 + 9000.0)
    model = Model(
        replace(schema, feature_statistics=(time, *schema.feature_statistics[1:])), Case("fourier").model().predictor
    )
    rows = raw_rows()
    rows[:, 0] = 1.7e9 + 3600.0 * (rows[:, 0] - 5.0) / 0.01
    return model, rows


@dataclass(frozen=True)
class Case:
    """A model to export: map or kernel, task and precision."""

    kind: str
    task: Task = "binary"
    precision: Precision = "float32"
    metric: tuple[float, ...] = ()
    squashed: bool = False

    def model(self) -> Model:
        """Return the model with random weights."""
        rng = np.random.default_rng(2)
        n_outputs = 3 if self.task == "multiclass" else 1
        squashed = heavy_tailed(schema_of(self.task), raw_rows() ** 3)[:2] if self.squashed else ()
        assert len(squashed) == 2 * self.squashed
        schema = schema_of(self.task, metric=self.metric, squashed=squashed)
        return Model(schema, self._predictor(n_outputs, rng), {}, {"data_sha256": "abc"})

    def _predictor(self, n_outputs: int, rng: np.random.Generator) -> Predictor:
        form, _, kernel = self.kind.partition(" ")
        vectors = rng.standard_normal((40, N_INPUTS)).astype(self.precision)
        if form == "expansion":
            return KernelExpansion(KERNELS[kernel], vectors, self._draw(rng, n_outputs, len(vectors)))
        if form == "cells":
            partitions = tuple(draw_partition(vectors, n_outputs, most_rows, rng) for most_rows in (10, 3, 40))
            return LocalExpansion(KERNELS[kernel], vectors, partitions)
        mapped = self._map(form, kernel, vectors)
        return LinearPredictor(mapped, self._draw(rng, n_outputs, mapped.n_columns), 0.1 * self._draw(rng, n_outputs))

    def _map(self, form: str, kernel: str, vectors: FloatArray) -> FeatureMap:
        if form == "fourier":
            return draw_fourier_map(Gaussian(2.0), N_INPUTS, 50, seed=3, precision=self.precision)
        if form == "structured":
            return draw_structured_map(Gaussian(2.0), N_INPUTS, 21, seed=3, precision=self.precision)
        if form == "standardised":
            return StandardisedLinear.of_columns(vectors.mean(0), vectors.std(0), self.precision)
        return fit_nystrom_map(KERNELS[kernel], vectors, 5 if kernel == "linear" else 25, self.precision)

    def _draw(self, rng: np.random.Generator, *shape: int) -> FloatArray:
        drawn = rng.standard_normal(shape)
        balanced: FloatArray = drawn - drawn.mean(axis=-1, keepdims=True)  # so that scores fall on both sides of 0
        return balanced.astype(self.precision)


CASES = [
    *(Case(kind) for kind in (*MAPS, *EXPANSIONS)),
    *(Case(kind, task) for kind in ("fourier", "nystrom gaussian", "expansion gaussian") for task in LABELS),
    *(Case(kind, metric=(4.0, 1.0, 0.9, 1e-3, 0.09, 0.01)) for kind in ("fourier", "expansion gaussian")),
    *(Case(kind, squashed=True) for kind in ("standardised", "expansion gaussian")),
    Case("fourier", metric=(4.0, 1.0, 0.9, 1e-3, 0.09, 0.01), squashed=True),
    *(Case(kind, "multiclass", "float64") for kind in ("fourier", "structured", "expansion laplacian")),
]
CELL_CASES = [
    *(Case(kind) for kind in CELLS),
    *(Case("cells laplacian", task, "float64") for task in LABELS),
    Case("cells gaussian", "multiclass"),
]
