"""Settings of a reproduction."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from okl.foundation.settings import Count, Names
from okl.foundation.types import Precision


class ReproduceSettings(BaseModel):
    """Settings that decide a reproduction and where it runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str = Field(
        description="table or figure of a paper: lu2016-table3, lu2016-table5, -table7, -table9, -figure3 or -figure4, "
        "ito2017-table2 to -table11, ito2017-figure5 to -figure12, zhang2024-table1, -growth, -figure1 or -figure2, "
        "yi2021-table1, -olp or -oqp"
    )
    data: str = Field(
        "", description="folder of NAME.parquet (inputs, y, split) with orders of rows in perms/; not used by yi2021"
    )
    datasets: Names = Field(
        (),
        description="comma-separated data sets; none: all of the table; lu2016's tables take any NAME.parquet",
    )
    algorithms: Names = Field((), description="comma-separated algorithms; none: all of the table")
    repeats: int | None = Field(
        None, ge=1, description="number of orders of the rows, or of seeds of the folds; none: as in the paper, or 5"
    )
    orders: Literal["authors", "seeded"] = Field(
        "authors",
        description="orders of the rows; authors: those of the authors, if perms/ has them; seeded: drawn from seeds",
    )
    choice: Literal["stated", "searched"] = Field(
        "stated",
        description="parameters of the algorithms; stated: those that the paper states, if any; searched: chosen among "
        "the candidates of the paper",
    )
    precision: Precision = Field("float32", description="precision of inputs, maps and weights")
    workers: int = Field(0, ge=0, description="Dask worker processes to start; 0: threads of this process")
    threads: Count | Literal["auto"] = Field(
        "auto", description="items computed at the same time; auto: one per core, at most 4"
    )
    out: str | None = Field(
        None,
        description="folder of the run; an interrupted run continues there; none: a new folder in okl's home folder",
    )
