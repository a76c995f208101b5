"""Settings of kernel least squares."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from okl.data.dataset import Schema
from okl.distributed.in_process import default_threads
from okl.features.predictors import kept_bytes
from okl.foundation.settings import Count, InRange, KernelName, Positive
from okl.foundation.types import Criterion, Precision
from okl.metrics.criterion import criterion_of
from okl.solvers.options import (
    Choices,
    ClassWeightOptions,
    IterationOptions,
    KernelOptions,
    MemoryModel,
    PolynomialOptions,
    Run,
    number_of,
)
from okl.solvers.ridge.cells import CELL_ROWS, PARTITIONS, TASK_BYTES, TASKS_AT_ONCE, LocalSolver
from okl.solvers.ridge.falkon import ITERATIONS, FalkonSolver
from okl.solvers.ridge.falkon import N_LANDMARKS as FALKON_LANDMARKS
from okl.solvers.ridge.gram import MOST_STRETCHES
from okl.solvers.ridge.solver import N_LANDMARKS, STRETCHES_AT_ONCE, RidgeSolver


class LandmarkSettings(KernelOptions, IterationOptions, ClassWeightOptions):
    """Options of kernel least squares on landmarks. LANDMARKS : their number by default"""

    LANDMARKS: ClassVar[int]

    n_landmarks: Count | Literal["auto"] = Field(
        "auto", description="number of landmarks; auto: 1,000, or 8,192 with falkon, or all rows if there are fewer"
    )
    landmarks: Literal["uniform", "kmeans", "rpcholesky"] = Field(
        "uniform", description="choice of landmarks from a sample before training"
    )
    penalty: InRange | Literal["auto"] = Field(
        "auto",
        description="weight of the squared norm, added to the mean squared error; auto: the value with the smallest "
        "leave-one-out error on sampled training rows",
    )

    def n_columns(self, n_inputs: int) -> int:
        return self.LANDMARKS if self.n_landmarks == "auto" else self.n_landmarks

    def common(self, seed: int, precision: Precision, criterion: Criterion) -> dict[str, Any]:
        """Return what both solvers take, by the names of their fields."""
        return {
            "kernel": self.kernel,
            "bandwidth": number_of(self.bandwidth),
            "n_landmarks": None if self.n_landmarks == "auto" else self.n_landmarks,
            "landmarks": self.landmarks,
            "penalty": number_of(self.penalty),
            "seed": seed,
            "precision": precision,
            "criterion": criterion,
        }


class RidgeSettings(LandmarkSettings, KernelOptions, IterationOptions, PolynomialOptions, ClassWeightOptions):
    """Exact kernel least squares on landmarks."""

    SOLVER: ClassVar[str] = "ridge"
    SUMMARY: ClassVar[str] = "exact kernel least squares on landmarks"
    PRECISION: ClassVar[Precision] = "float64"  # weights may be large and cancel, so that float32 sums are inaccurate
    MEMORY: ClassVar[MemoryModel] = MemoryModel("moment", answers=STRETCHES_AT_ONCE)
    LANDMARKS: ClassVar[int] = N_LANDMARKS

    huber: Positive | None = Field(
        None,
        description="regression with outliers: threshold of the Huber loss, in robust standard deviations of the "
        "residuals, such as 1.345; none: squared loss",
    )
    fit_intercept: bool = Field(True, description="fit a bias")

    @field_validator("landmarks", mode="before")
    @classmethod
    def _of_older_settings(cls, landmarks: Any) -> Any:
        """Return uniform for its name in older versions."""
        return "uniform" if landmarks == "supports" else landmarks

    def build(self, run: Run, schema: Schema, rows: int | None) -> RidgeSolver:
        criterion = criterion_of(run.judged_by(schema.task), schema.task, schema.class_counts, schema.target)
        return self.solver(run.seed, run.precision, self.weights_of_classes(schema), criterion)

    def solver(
        self,
        seed: int,
        precision: Precision,
        class_weights: tuple[float, ...] | None = None,
        criterion: Criterion = "accuracy",
    ) -> RidgeSolver:
        """Make the solver, with one weight for each class and the criterion that chooses the penalty."""
        return RidgeSolver(
            **self.common(seed, precision, criterion),
            degree=self.degree,
            offset=self.offset,
            class_weights=class_weights,
            huber=self.huber,
            fit_intercept=self.fit_intercept,
        )

    def n_columns(self, n_inputs: int) -> int:
        return n_inputs if self.kernel == "linear" else super().n_columns(n_inputs)

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        columns = self.n_columns(n_inputs)
        return float(8 * columns * (min(columns, rows) + n_outputs))


class FalkonSettings(LandmarkSettings):
    """Kernel least squares on very many landmarks, by iterations."""

    SOLVER: ClassVar[str] = "falkon"
    NOT_TAKEN: ClassVar[Choices] = {"kernel": ("polynomial", "linear")}
    SUMMARY: ClassVar[str] = "kernel least squares on very many landmarks, by preconditioned conjugate gradients"
    MEMORY: ClassVar[MemoryModel] = MemoryModel("kernel", answers=MOST_STRETCHES)
    LANDMARKS: ClassVar[int] = FALKON_LANDMARKS

    kernel: KernelName = Field("laplacian", description="k(x, x'): gaussian, laplacian, matern32 or matern52")
    iterations: Count = Field(
        ITERATIONS,
        description="iterations at most; they end when the error of held-out rows no longer falls beyond chance",
    )

    def build(self, run: Run, schema: Schema, rows: int | None) -> FalkonSolver:
        criterion = criterion_of(run.judged_by(schema.task), schema.task, schema.class_counts, schema.target)
        return FalkonSolver(
            **self.common(run.seed, run.precision, criterion),
            iterations=self.iterations,
            class_weights=self.weights_of_classes(schema),
        )

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        return float(8 * self.n_columns(n_inputs) * (n_outputs + 1))


class LocalSettings(KernelOptions, IterationOptions, ClassWeightOptions):
    """Kernel least squares in cells of neighbouring rows."""

    SOLVER: ClassVar[str] = "local"
    NOT_TAKEN: ClassVar[Choices] = {"kernel": ("polynomial", "linear")}
    SUMMARY: ClassVar[str] = "kernel least squares in cells of neighbouring rows, averaged over partitions"
    PRECISION: ClassVar[Precision] = "float64"  # coefficients are large and cancel
    MEMORY: ClassVar[MemoryModel] = MemoryModel("moment", "supports", answers=TASKS_AT_ONCE)

    kernel: KernelName = Field("laplacian", description="k(x, x'): gaussian, laplacian, matern32 or matern52")
    bandwidth: Positive | Literal["auto"] = Field(
        "auto",
        description="kernel bandwidth in units of the scaled inputs; auto: the value with the smallest leave-one-out "
        "error in sampled cells",
    )
    cell_rows: Count = Field(
        CELL_ROWS, le=20_000, description="rows of a cell, within which rows are compared; at most 20,000"
    )
    partitions: Count = Field(
        PARTITIONS,
        description="partitions into cells, whose scores are averaged; they end when another one does not reduce the "
        "leave-one-out error beyond chance",
    )
    penalty: InRange | Literal["auto"] = Field(
        "auto",
        description="weight of the squared norm, added to a cell's sum of squared errors over the rows of a full cell; "
        "auto: the value with the smallest leave-one-out error in sampled cells",
    )

    def build(self, run: Run, schema: Schema, rows: int | None) -> LocalSolver:
        return LocalSolver(
            kernel=self.kernel,
            bandwidth=number_of(self.bandwidth),
            cell_rows=self.cell_rows,
            partitions=self.partitions,
            penalty=number_of(self.penalty),
            class_weights=self.weights_of_classes(schema),
            seed=run.seed,
            precision=run.precision,
            criterion=criterion_of(run.judged_by(schema.task), schema.task, schema.class_counts, schema.target),
        )

    def n_columns(self, n_inputs: int) -> int:
        return 2 * self.cell_rows

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        of_row = n_inputs * item + self.partitions * (8 + n_outputs * item)
        return float(rows * of_row / (2 * TASKS_AT_ONCE))  # all together hold the model once

    def model_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        """Return the bytes of supports and coefficients, twice while they are saved, and of rows read or kept."""
        supports = rows * n_inputs * item
        kept = kept_bytes(self.partitions * supports)
        read = 3 * default_threads() * min(TASK_BYTES, supports // 4)
        return float(2 * (supports + self.partitions * rows * (8 + n_outputs * item)) + max(kept, read))
