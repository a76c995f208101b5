"""Where the loop of okl.learning stands: a solver's state, and what has been noted on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from okl.curve import ConvergenceCurve, LearningCurve
from okl.drift import DriftWatch
from okl.execution.protocol import Traffic


@dataclass(eq=False)
class Position:
    """Where a loop stands; the loop writes into it.

    state : of the solver, which holds the place in the data; watch : windows of a stream in its own order
    learning, converging : the curve so far, one of them empty
    seconds : of the loop so far, interruptions left out; run_seconds : of the whole run, likewise
    traffic : rounds and bytes of the whole run so far; resumed : how often the run was gone on with
    """

    state: Any
    watch: DriftWatch | None = None
    learning: LearningCurve = field(default_factory=LearningCurve)
    converging: ConvergenceCurve = field(default_factory=ConvergenceCurve)
    seconds: float = 0.0
    run_seconds: float = 0.0
    traffic: Traffic = field(default_factory=Traffic)
    resumed: int = 0
