"""How the work of each solver grows; every solver of the command line has its law here, or cannot be planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from okl.accelerated.catalogue import MODEL_NAMES, is_model
from okl.configuration import TrainSettings
from okl.online.budget.strategies import STRATEGIES
from okl.online.budget.strategy import BudgetStrategy

ITERATIONS = 500
"""Of a method whose end is a gap, unless it is said how many: no one knows them beforehand."""


@dataclass(frozen=True)
class Law:
    """What a run's length and the size of its state go by.

    unit : "pass", rows are gone over as often as is said; "iteration", until a gap is reached, all rows in each;
        "sample", the same on a sample that grows as it must; "moment", all rows once, and then the caller alone
    state : "fixed", from the beginning; "budget", it fills up to the budget; "supports", it grows with the rows
    vectors : of float64 that stand beside the rows; 0: none
    """

    unit: Literal["pass", "iteration", "sample", "moment"]
    state: Literal["fixed", "budget", "supports"] = "fixed"
    vectors: int = 0

    def iterations(self, settings: TrainSettings, given: int | None) -> int:
        """To plan for, of each class: as given, or those of a usual run, within what the settings allow."""
        if settings.solver == "ridge":
            return 1  # it is solved directly
        return min(settings.max_iterations, given or ITERATIONS)


def _of_strategy(name: str) -> Law:
    return Law("pass", "budget" if issubclass(STRATEGIES[name], BudgetStrategy) else "supports")


LAWS: dict[str, Law] = (
    {"fogd": Law("pass"), "nogd": Law("pass", "budget"), "pegasos": Law("pass")}
    | {name: _of_strategy(name) for name in STRATEGIES}
    | {name: Law("iteration", vectors=9) for name in MODEL_NAMES}
    | dict.fromkeys(("mm-fda", "mm-mpm", "ridge"), Law("moment"))
    | {"scs": Law("sample", vectors=4), "wolfe": Law("iteration", vectors=4)}
)
"""By the solver's name. Vectors: those of `DualVectors`, `PrimalVectors` and `SampleVectors`, and their temporaries."""


def law_of(solver: str) -> Law:
    """The law of a solver; that of the models for one of an extension."""
    return LAWS["c-svm"] if solver not in LAWS and is_model(solver) else LAWS[solver]
