"""Settings of a reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from okl.foundation.settings import Count
from okl.foundation.types import Precision

if TYPE_CHECKING:
    pass


def _words(value: object) -> object:
    """A list of words from one text, commas between them."""
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class ReproduceSettings(BaseModel):
    """Everything that decides a reproduction, and where its work runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str = Field(
        description="such as lu2016-table5: lu2016-table3, -table5, -table7, -table9, -figure3 or -figure4, "
        "ito2017-table2 to -table11, ito2017-figure11 or -figure12, zhang2024-table1, -figure1 or -figure2, "
        "yi2021-olp or -oqp"
    )
    data: str = Field(
        "",
        description="folder of NAME.parquet (inputs, y, split), orders of rows in perms/; none: yi2021 draws its own",
    )
    datasets: Words = Field((), description="data sets, commas between; none: all that the table has")
    algorithms: Words = Field((), description="algorithms, commas between; none: all that the table has")
    repeats: int | None = Field(
        None, ge=1, description="orders of the rows, or seeds of the folds; none: as many as the paper, or 5"
    )
    orders: Literal["authors", "seeded"] = Field(
        "authors", description="authors: their own orders of a set that has them in perms/; seeded: ours for all"
    )
    choice: Literal["stated", "searched"] = Field(
        "stated",
        description="stated: one setting an algorithm where there is one; searched: the paper's candidates for all",
    )
    precision: Precision = Field("float32", description="of inputs, maps and weights")
    workers: int = Field(0, ge=0, description="Dask worker processes to start; 0: threads of this process")
    threads: Count | Literal["auto"] = Field("auto", description="items at once; auto: this process's cores, at most 4")
    out: str | None = Field(
        None, description="folder of the run, taken up again where it stopped; none: a new one in okl's home folder"
    )
