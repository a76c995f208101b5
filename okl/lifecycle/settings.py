"""Settings of a retraining."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from okl.foundation.settings import Count, IngestSettings, TrainSettings

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
Share = float
_OF_A_RACE = "a retraining races nothing: without a solver it is fogd that learns"
_BROKEN_OFF = "one that is broken off begins again with the shards that are there, of which nothing is lost"
NOT_OF_TRAIN = {
    "ingest": "shards are read by the retraining's own ingest",
    "rescale": "shards are scaled as the first of them were read: set scale of ingest (--scale) when a model is begun",
    "budget_seconds": _OF_A_RACE,
    "validation": _OF_A_RACE,
    "certify": "the gap of a batch solver is proved in any case, and the regret of what goes on is not",
    "checkpoint_seconds": _BROKEN_OFF,
    "checkpoint_rounds": _BROKEN_OFF,
    "out": "versions lie in the registry",
    "name": "the name is the model's own",
}
"""Settings of training that a retraining would pass over, and why; data is where shards lie, whatever it says."""
NOT_OF_INGEST = ("holdout", "split_column")


class ContractSettings(BaseModel):
    """Limits of a shard, in addition to the columns, types and labels of the reference.

    The figures that shards are compared with are those of all shards accepted so far. The limits are wide: data that
    change in time pass, files that were made wrongly do not. Each limit on figures is met twice, by the size of a
    difference and by a test that it is none of chance.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_rows: Count = Field(50, description="rows of a shard at least")
    max_rows: Count | None = Field(None, description="rows of a shard at most")
    extra_columns: bool = Field(
        True, description="whether columns that the reference has not may be there (not learnt)"
    )
    missing_share: Share = Field(
        0.05, ge=0, le=1, description="of a column's values that may be missing beyond the share so far, if any may"
    )
    unseen_share: Share = Field(
        0.5, ge=0, le=1, description="of a text column's values that may be none of training, beyond the share so far"
    )
    label_distance: Share = Field(
        0.75, ge=0, le=1, description="half the sum of the differences of label shares, at most"
    )
    mean_shift: float = Field(
        5.0, gt=0, description="of a column's mean, in the larger of its standard deviations, before and now"
    )
    range_widening: float = Field(1.0, ge=0, description="of the range seen so far to either side, in its own width")
    range_share: Share = Field(
        0.05, ge=0, le=1, description="of a column's values that may be beyond the widened range"
    )
    constant_columns: bool = Field(False, description="whether a column may stop changing")
    late: bool = Field(False, description="whether a shard may be older than what was learnt (with a time column)")
    level: float = Field(1e-6, gt=0, lt=1, description="of the tests that a difference is none of chance")


class RetrainSettings(BaseModel):
    """Everything that decides a retraining, beside the shards that are there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="of the model in the registry")
    source: str = Field(description="folder, URL or glob where files arrive; each file is one shard")
    registry: str | None = Field(None, description="folder or URL of the registry; none: OKL_REGISTRY, or okl's home")
    train: TrainSettings = Field(description="the solver and its options; data is not looked at")
    ingest: IngestSettings = Field(
        default_factory=IngestSettings, description="how the first shards are read; later ones are held to the champion"
    )
    holdout: float = Field(0.2, gt=0, lt=1, description="share of the rows of each shard that are never learnt")
    holdout_shards: Count = Field(
        3, description="latest shards whose reserved rows models are judged on: of new ones, and of those before"
    )
    window_shards: Count = Field(10, description="latest shards that a batch solver learns")
    max_shards: Count | None = Field(None, description="new shards learnt at most in one run; none: all that are there")
    contract: ContractSettings = Field(default_factory=ContractSettings, description="what shards are held to")
    on_bad: Literal["quarantine", "stop"] = Field("quarantine", description="what to do with a shard that breaks it")
    contradiction: bool = Field(
        True, description="quarantine shards whose labels contradict the champion, or are noise"
    )
    time_column: str | None = Field(None, description="column that says when a row happened")
    window_from: str | None = Field(None, description="backfill: only shards whose time is at least this")
    window_to: str | None = Field(None, description="backfill: only shards whose time is below this")
    release: tuple[str, ...] = Field((), description="sha256 (first 16 digits) of quarantined shards to learn anyway")
    publish_if: Literal["better", "clearly better", "not worse"] = Field(
        "better", description="what the challenger must be; better: on the newest rows, and not clearly worse before"
    )
    margin: float = Field(0.0, ge=0, description="of the error (of regression: its share), by which better is better")
    level: float = Field(0.05, gt=0, lt=1, description="of the paired tests of champion and challenger")
    slices: tuple[str, ...] = Field((), description="columns by whose values models are compared, too")
    slice_margin: float = Field(0.02, ge=0, description="by which a slice may become worse in error")
    guard_shards: bool = Field(False, description="whether each shard judged on is a slice that may not become worse")
    settle_seconds: float = Field(2.0, ge=0, description="a file changed so recently is left to the next run")
    mlflow: str | None = Field(None, description="tracking URI of MLflow, where runs that judge are logged, too")
    dry_run: bool = Field(False, description="do everything but publish; shards are taken in all the same")

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(
                "a name takes letters, digits, dots, dashes and underscores, and begins with one of the first two"
            )
        return name

    @field_validator("train")
    @classmethod
    def _learnt_on(cls, train: TrainSettings) -> TrainSettings:
        """Without a solver that of shards is fogd, which goes on with each new one; a race would begin anew."""
        for name, why in NOT_OF_TRAIN.items():
            if (value := getattr(train, name)) != TrainSettings.model_fields[name].default:
                told = "" if name == "ingest" else f" = {value!r}"
                raise ValueError(f"{name}{told} is no setting of a retraining: {why}. Leave it out.")
        return train.model_copy(update={"solver": "fogd"}) if train.solver == "auto" else train

    @field_validator("ingest")
    @classmethod
    def _reserved_by_share(cls, ingest: IngestSettings) -> IngestSettings:
        for name in NOT_OF_INGEST:
            if (value := getattr(ingest, name)) is not None:
                raise ValueError(
                    f"{name} = {value!r} is no setting of a retraining's ingest: rows of each shard are reserved by a "
                    "share, the retraining's own holdout. Leave it out."
                )
        return ingest

    @model_validator(mode="before")
    @classmethod
    def _data_is_the_source(cls, values: Any) -> Any:
        """Training needs a place of data, which here is where shards arrive."""
        if isinstance(values, dict) and isinstance(values.get("train"), dict) and "data" not in values["train"]:
            return values | {"train": {"data": str(values.get("source", "")), **values["train"]}}
        return values
