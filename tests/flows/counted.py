"""A small, real run, on which the tests check what the flows do for every run."""

from __future__ import annotations

import time
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from okl.foundation.errors import DataError
from okl.runs.run import Run

STAGES = ("plan", "count", "report")


class CountSettings(BaseModel):
    """What to count, and how it ends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upto: int = Field(1000, ge=1, description="count to this")
    seconds: float = Field(0.0, description="how long counting takes")
    end: Literal["well", "error", "interrupt"] = Field("well", description="how counting ends")


class CountingRun(Run[CountSettings]):
    """A run that counts, with a table and a report."""

    STAGES = STAGES
    name = "counting"
    counted = 0

    def plan(self) -> dict[str, Any]:
        return {"upto": self.settings.upto, "unbounded": float("inf")}

    def count(self) -> dict[str, Any]:
        for number in range(self.settings.upto):
            self.observer.advance(number + 1, self.settings.upto, {"mistake_rate": 1 / (number + 1)})
            time.sleep(self.settings.seconds / self.settings.upto)
        if self.settings.end == "error":
            raise DataError("column 'y' cannot be counted.")
        if self.settings.end == "interrupt":
            raise KeyboardInterrupt
        self.counted = self.settings.upto
        return {"counted": self.counted}

    def report(self) -> dict[str, Any]:
        return {"written": True}

    def result(self) -> dict[str, Any]:
        return {"counted": self.counted}

    def metrics_table(self) -> list[dict[str, Any]]:
        return [{"metric": "count", "value": self.counted}, {"metric": "nothing", "value": float("nan")}]

    def report_markdown(self) -> str:
        return f"# Counted to {self.counted}\n"
