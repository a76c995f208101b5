"""What is asked of a benchmark: which sets, which systems, which stage, and where results go."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from okl.configuration import Positive
from okl.reproduction.settings import Words


class BenchSettings(BaseModel):
    """Everything that decides a benchmark."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = Field("", description="folder of NAME.parquet (float columns, y, perhaps split); none: OKL_DATA")
    sets: Words = Field((), description="data sets, commas between; none: all 13 that are in the folder")
    systems: Words = Field(
        (), description="systems of the sweep, commas between, such as okl,LIBLINEAR; none: all installed"
    )
    stage: Literal["all", "sweep", "duels", "page"] = Field(
        "all",
        description="sweep: every configuration once; duels: the fastest near the best again, in turn, on a machine "
        "that does nothing else; page: only write the page",
    )
    again: bool = Field(False, description="measure again what has been measured")
    limit_seconds: Positive = Field(120.0, description="seconds of the processor for a fit and its predictions")
    turns: int = Field(5, ge=1, description="of each configuration in a duel")
    out: str | None = Field(
        None, description="folder of the results, taken up again where it stopped; none: bench in okl's home folder"
    )
