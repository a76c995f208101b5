"""How a source becomes a data set."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from okl.types import Task


class IngestSettings(BaseModel):
    """How a source becomes a data set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: str = Field("y", description="name of the column to predict")
    task: Task | Literal["auto"] = Field(
        "auto", description="binary, multiclass or regression; auto looks at the target"
    )
    split_column: str | None = Field(
        None, description="text column that holds train or test for each row; none: a text column named split, if any"
    )
    holdout: float | str | None = Field(
        None,
        description="test rows: a share (0..1) by a seeded hash of the row number, or a 0/1 column",
    )
    keys: tuple[str, ...] = Field((), description="columns carried along, never learnt")
    drop: tuple[str, ...] = Field((), description="columns left out")
    scale: Literal["none", "standard", "minmax"] = Field("none", description="scaling of inputs, applied on reading")
    scale_target: bool = Field(False, description="scale a regression target the same way")
    rows_per_shard: int = Field(131072, ge=1, description="rows in a part file")
    rows_per_group: int = Field(16384, ge=1, description="rows in a Parquet row group: the unit of reading")
    missing: Literal["error", "drop", "zero", "mean"] = Field(
        "error",
        description="numbers that a row misses: error, drop the row, read 0, or read the training mean beside an input "
        "that says so; in text a missing value is one more category",
    )
    categories: tuple[str, ...] = Field(
        (), description="columns whose values are names, though they are numbers: one input each, as of a text column"
    )
    max_categories: int = Field(
        64, ge=1, description="most frequent values of a text column that get an input each; the others share one"
    )
    dates: Literal["error", "parts", "drop"] = Field(
        "error", description="date and time columns: parts are years, and places in the year, the week and the day"
    )
    svmlight_index: Literal["auto", "0", "1"] = Field(
        "auto", description="index of the first column of svmlight text; auto: 0 if it occurs, else 1"
    )
    hash_columns: int | None = Field(
        None, ge=1, description="svmlight text with very many columns: fold them into so many, signed, by a hash"
    )
    compression: Literal["zstd", "none"] = Field("zstd", description="of part files; none is read fastest")
    compression_level: int = Field(3, ge=1, le=22, description="of zstd: 19 takes 15 times longer for 17% fewer bytes")
    seed: int = Field(0, ge=0, description="decides which rows a holdout share takes")

    @field_validator("svmlight_index", mode="before")
    @classmethod
    def _as_word(cls, index: Any) -> Any:
        """A number, as TOML and Python give it, as the word that a command line gives."""
        return str(index) if index in (0, 1) else index
