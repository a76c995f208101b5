"""Service levels of deployments: timeouts, retries and late runs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_RETRY_SECONDS = 600.0  # below the time after which the automations cancel a waiting run


class ServiceSettings(BaseModel):
    """Service levels of a deployment; they never change the result of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage_seconds: float | None = Field(
        21_600.0, gt=0, allow_inf_nan=False, description="time limit of each stage, in seconds; none: no limit"
    )
    retries: int = Field(
        2,
        ge=0,
        le=10,
        description="retries after a transient failure (workers, network, registry, timeout); invalid data or settings "
        "and divergence are not retried",
    )
    retry_seconds: float = Field(
        30.0,
        ge=0,
        le=LONGEST_RETRY_SECONDS,
        description="delay before the first retry; it doubles with each further one",
    )
    late: Literal["once", "skip", "all"] = Field(
        "once",
        description="scheduled runs that were missed while the server or worker was down; once: one run replaces all; "
        "skip: wait for the next scheduled time; all: perform each, one after the other",
    )
    late_seconds: float = Field(
        300.0,
        ge=1,
        allow_inf_nan=False,
        description="with --late skip: delay after the scheduled time beyond which a run is skipped",
    )


class RetrainService(ServiceSettings):
    """Service levels of a retraining deployment."""

    empty_windows: int = Field(
        3,
        ge=1,
        description="consecutive runs without a valid new file, after which an alert is sent (okl.data.missing)",
    )


ATTENDED_SERVICE: dict[str, object] = {"stage_seconds": None, "retries": 0, "late": "all"}
"""Service levels of commands, as plain values: no timeout and no retries, because a person watches the run."""
