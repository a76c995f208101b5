"""Settings of a model comparison."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from okl.foundation.settings import Count, ExecutionSettings, IngestSettings, KernelName, Name, Names, Positive
from okl.foundation.types import Optimise, Precision


def _number_or_test(value: object) -> object:
    """Return a share from text, but for the word test."""
    if not isinstance(value, str) or value == "test":
        return value
    try:
        return float(value)
    except ValueError:
        return value


Share = Annotated[float, Field(gt=0, lt=1)]
Holdout = Annotated[Share | Literal["test"] | None, BeforeValidator(_number_or_test)]


class CompareSettings(ExecutionSettings):
    """Everything that decides a comparison, and where its work runs."""

    data: str = Field(
        description="folder of a data set, or a source to ingest first: Parquet, CSV, JSON lines or svmlight"
    )
    ingest: IngestSettings | None = Field(None, description="how a source is ingested into the run's folder")
    models: Names = Field(
        ("all",),
        description=(
            "comma-separated names; all: auto, ridge and the certified models, for regression auto, ridge, fogd and "
            "nogd; auto: the automatic choice of okl train, within 20 s for each part; online: the online solvers; "
            "scs, wolfe and pegasos cannot be compared"
        ),
    )
    optimise: Optimise = Field(
        "auto",
        description="criterion of classes by which parameters are chosen and models compared; auto: log-loss if fewer "
        "than 20% of the rows are outside the most frequent class, accuracy otherwise",
    )
    rescale: Literal["auto", "none", "standard", "minmax", "robust", "robust-minmax"] = Field(
        "auto",
        description="scaling of inputs; auto: that of the data set, or standard if it has none; robust: standard, "
        "robust-minmax: minmax, after squashing columns with heavy tails",
    )
    folds: int = Field(5, ge=2, le=100, description="folds of the stratified cross validation")
    holdout: Holdout = Field(
        None, description=("instead of folds: a share of the training rows, or test: the test rows of the data set")
    )
    grid: int = Field(10, ge=1, le=1000, description="values of each model's parameter, over its valid range")
    halving: bool = Field(True, description="try all values on few rows, keep the better half, and double the rows")
    rows: Count = Field(10_000, description="training rows of the search; a seeded sample if there are more")
    kernel: KernelName = Field(
        "gaussian",
        description=(
            "kernel of online solvers, and of certified models with frequencies (without: linear in the inputs)"
        ),
    )
    bandwidth: Positive | Literal["auto"] = Field(
        "auto",
        description="kernel bandwidth in units of the scaled inputs; auto: the median distance, or the choice of an "
        "online solver",
    )
    frequencies: Count | None = Field(
        None,
        description=(
            "size of the Fourier map of fogd and of certified models; none: certified models are linear in the inputs"
        ),
    )
    map: Literal["independent", "orthogonal", "quasi", "structured", "auto"] = Field(
        "independent", description="how frequencies are drawn; auto: by the number of inputs"
    )
    tolerance: Positive = Field(1e-3, description="relative duality gap of the search; a tenth of it for the winner")
    iterations: int = Field(
        300,
        ge=1,
        description="maximum number of iterations for each value in the search; four times as many for the winner",
    )
    memory: Positive = Field(
        1.0, description="GiB for the rows that the winner is trained on; a sample if all rows need more"
    )
    seed: int = Field(0, ge=0, description="seed of the sample, the folds, the frequencies and the orders")
    precision: Precision = Field("float32", description="precision of inputs and maps; sums are float64")
    out: str | None = Field(None, description="folder of the run; none: a new one in okl's home folder")
    name: Name | None = Field(None, description="name of the winner's model")
