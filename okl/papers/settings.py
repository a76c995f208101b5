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
        description="such as lu2016-table5: lu2016-table3, -table5, -table7, -table9, -figure3 or -figure4, "
        "ito2017-table2 to -table11, ito2017-figure11 or -figure12, zhang2024-table1, -figure1 or -figure2, "
        "yi2021-olp or -oqp"
    )
    data: str = Field(
        "", description="folder of NAME.parquet (inputs, y, split) with orders of rows in perms/; not used by yi2021"
    )
    datasets: Names = Field((), description="data sets, comma-separated; default: all of the table")
    algorithms: Names = Field((), description="algorithms, comma-separated; default: all of the table")
    repeats: int | None = Field(
        None, ge=1, description="orders of the rows, or seeds of the folds; default: as in the paper, or 5"
    )
    orders: Literal["authors", "seeded"] = Field(
        "authors", description="authors: the authors' orders of a data set that has them in perms/; seeded: our own"
    )
    choice: Literal["stated", "searched"] = Field(
        "stated",
        description="stated: one setting per algorithm where there is one; searched: the paper's candidates for all",
    )
    precision: Precision = Field("float32", description="of inputs, maps and weights")
    workers: int = Field(0, ge=0, description="Dask worker processes to start; 0: threads of this process")
    threads: Count | Literal["auto"] = Field("auto", description="items at once; auto: this process's cores, at most 4")
    out: str | None = Field(
        None,
        description="folder of the run; an interrupted run continues there; default: a new one in okl's home folder",
    )
