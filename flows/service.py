"""What is promised of a run that nobody watches: how long it takes at most, what is tried again, what if it is late."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_RETRY_SECONDS = 600.0  # below the time after which the automations give up a run that waits


class ServiceSettings(BaseModel):
    """Service levels of a deployment; they never change what a run computes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    stage_seconds: float | None = Field(
        21_600.0, gt=0, allow_inf_nan=False, description="a stage that takes longer fails; none: it may take for ever"
    )
    retries: int = Field(
        2,
        ge=0,
        le=10,
        description="further attempts after what may pass (workers, network, registry, a time-out); bad data, wrong "
        "settings and a learner that diverged are not tried again",
    )
    retry_seconds: float = Field(
        30.0,
        ge=0,
        le=LONGEST_RETRY_SECONDS,
        description="wait before the first of them; twice as long before each next",
    )
    late: Literal["once", "skip", "all"] = Field(
        "once",
        description="firings of the schedule that were missed while server or worker was down; once: one run for all "
        "of them; skip: none, the next firing will do; all: each of them, one after the other",
    )
    late_seconds: float = Field(
        300.0, ge=1, allow_inf_nan=False, description="skip: a run that begins so long after it was due is late"
    )


class RetrainService(ServiceSettings):
    """Service levels of a retraining."""

    empty_windows: int = Field(
        3, ge=1, description="runs in a row that find no new file, after which somebody is told (okl.data.missing)"
    )


UNATTENDED = ServiceSettings()
UNATTENDED_RETRAINING = RetrainService()
ATTENDED: dict[str, object] = {"stage_seconds": None, "retries": 0, "late": "all"}
"""Of a command, as plain values: whoever typed it watches, and decides."""
