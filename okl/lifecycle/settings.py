"""Settings of a retraining."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from okl.foundation.settings import Count, IngestSettings, Name
from okl.solvers.settings import TrainSettings

Share = float
_BROKEN_OFF = "an interrupted retraining starts again from the stored shards"
NOT_OF_TRAIN = {
    "ingest": "a retraining has its own settings of ingest",
    "rescale": "shards are scaled like the first ones; set scale of ingest (--scale) when the model is created",
    "metric": "the metric stays that of the model that was registered, as the scaling does",
    "beside": "challengers are compared with the champion; okl train compares with baselines",
    "certify": "the gap of a batch solver is always certified, the regret of an online solver never",
    "checkpoint_seconds": _BROKEN_OFF,
    "checkpoint_rounds": _BROKEN_OFF,
    "out": "versions are written to the registry",
    "name": "the name is that of the model in the registry",
}
"""Settings of training that a retraining does not accept, with the reason."""
NOT_OF_INGEST = ("holdout", "split_column")
OF_CHOICE = ("budget_seconds", "validation")
"""Settings of training that matter only where a new model is chosen."""


class ContractSettings(BaseModel):
    """Limits of a shard, in addition to the columns, types and labels of the reference.

    A shard is compared with all shards accepted so far. The limits are wide, so that data that change in time pass and
    broken files do not. A shard violates a limit if the difference is larger than the limit and significant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_rows: Count = Field(50, description="minimum number of rows of a shard")
    max_rows: Count | None = Field(None, description="maximum number of rows of a shard")
    extra_columns: bool = Field(True, description="accept columns that are not in the reference; they are ignored")
    missing_share: Share = Field(
        0.05,
        ge=0,
        le=1,
        description="maximum increase of the share of missing values of a column, and maximum share of rows without a "
        "target",
    )
    unseen_share: Share = Field(
        0.2, ge=0, le=1, description="maximum increase of the share of unknown values of a text column"
    )
    seen_share: Share = Field(0.1, ge=0, le=1, description="maximum share of rows that are in earlier files, too")
    label_distance: Share = Field(0.75, ge=0, le=1, description="maximum total variation distance of the label shares")
    mean_shift: float = Field(5.0, gt=0, description="maximum shift of the mean of a column, in standard deviations")
    range_widening: float = Field(
        1.0, ge=0, description="widening of the range so far on each side, in units of its width"
    )
    range_share: Share = Field(
        0.05, ge=0, le=1, description="maximum share of values of a column outside the widened range"
    )
    constant_columns: bool = Field(False, description="accept columns that become constant")
    late: bool = Field(False, description="accept shards older than the rows already trained on (with a time column)")
    level: float = Field(1e-6, gt=0, lt=1, description="significance level of the tests")


class RetrainSettings(BaseModel):
    """Settings of a retraining."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name = Field(description="name of the model in the registry")
    source: str = Field(description="folder, URL or glob of arriving files; each file is a shard")
    registry: str | None = Field(None, description="folder or URL of the registry; none: OKL_REGISTRY, or okl's home")
    train: TrainSettings = Field(description="the solver and its options; data is ignored")
    ingest: IngestSettings = Field(
        default_factory=IngestSettings, description="how the first shards are read; later ones are read like the first"
    )
    holdout: float = Field(
        0.2, gt=0, lt=1, description="share of the rows of each shard reserved for comparisons, never trained on"
    )
    holdout_shards: Count = Field(
        3, description="number of latest shards, new and earlier ones each, on whose reserved rows models are compared"
    )
    window_shards: Count = Field(10, description="number of latest shards that a batch solver is trained on")
    max_shards: Count | None = Field(None, description="maximum number of new shards in one run; none: all")
    contract: ContractSettings = Field(default_factory=ContractSettings, description="limits of a shard")
    on_bad: Literal["quarantine", "stop"] = Field(
        "quarantine", description="action for a shard that violates the contract"
    )
    contradiction: bool = Field(True, description="quarantine shards whose labels contradict the champion or are noise")
    time_column: str | None = Field(None, description="column with the time of a row")
    window_from: str | None = Field(None, description="use only shards from this time on")
    window_to: str | None = Field(None, description="use only shards before this time")
    release: tuple[str, ...] = Field(
        (), description="first 16 digits of the sha256 of quarantined shards to train on anyway"
    )
    exclude: tuple[str, ...] = Field(
        (),
        description="names, or first 16 digits of the sha256, of accepted shards not to train on any more; a champion "
        "that was trained on one is trained anew without it",
    )
    publish_if: Literal["better", "clearly better", "not worse"] = Field(
        "better",
        description="condition for publishing the challenger; better: on the newest rows, and not significantly worse "
        "on earlier ones, unless significantly better on the newest; without earlier rows, as after okl train, "
        "significantly better; never if it is worse than the majority class or mean",
    )
    margin: float = Field(0.0, ge=0, description="minimum improvement of the error (regression: relative)")
    level: float = Field(
        0.05, gt=0, lt=1, description="significance level of the paired tests of champion and challenger"
    )
    slices: tuple[str, ...] = Field((), description="columns whose values define slices that are compared, too")
    slice_margin: float = Field(0.02, ge=0, description="maximum increase of the error of a slice")
    guard_shards: bool = Field(False, description="treat each compared shard as a slice that may not become worse")
    settle_seconds: float = Field(
        2.0, ge=0, description="minimum age of a file; younger files are left for the next run"
    )
    choose: Literal["auto", "again", "keep"] = Field(
        "auto",
        description="automatic choice of solver, settings, scaling and metric of a model without a given solver; auto: "
        "choose again after drift, where errors have grown, and on four times the rows; again: now; keep: never",
    )
    mlflow: str | None = Field(None, description="tracking URI of MLflow to log comparisons to")
    dry_run: bool = Field(
        False,
        description="do everything except publishing; shards are still accepted or quarantined, not released",
    )

    @field_validator("train")
    @classmethod
    def _select_solver(cls, train: TrainSettings) -> TrainSettings:
        """Refuse settings that a retraining would pass over."""
        values, defaults = train.model_dump(), type(train)(data="", solver=train.solver).model_dump()
        for name, why in NOT_OF_TRAIN.items():
            if (value := values.get(name)) != defaults.get(name):
                given = "" if name == "ingest" else f" = {value!r}"
                raise ValueError(f"{name}{given} is not a setting of a retraining: {why}. Remove it.")
        return train

    @field_validator("ingest")
    @classmethod
    def _reserved_by_share(cls, ingest: IngestSettings) -> IngestSettings:
        for name in NOT_OF_INGEST:
            if (value := getattr(ingest, name)) is not None:
                raise ValueError(
                    f"{name} = {value!r} is not a setting of ingest in a retraining. Use holdout of the retraining, "
                    "the share of reserved rows of each shard."
                )
        return ingest

    @model_validator(mode="before")
    @classmethod
    def _data_is_the_source(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("train"), dict) and "data" not in values["train"]:
            return values | {"train": {"data": str(values.get("source", "")), **values["train"]}}
        return values
