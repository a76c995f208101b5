"""What a learner of the tables is made for, and what is known of how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from okl.execution.protocol import Rows
from okl.kernels import Gaussian
from okl.losses import DEFAULT_LOSS, Loss, make_loss
from okl.online.protocol import RowLearner
from okl.reproduction.lu2016.cases import Sizes
from okl.types import Precision, Task

Setting = Mapping[str, float]
BANDWIDTH = 8.0
EPSILON = 0.1
NOTHING: Setting = {}


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner is made for: the rows to come, the sizes of the table, a seed for all that it draws."""

    task: Task
    rows: Rows
    sizes: Sizes
    seed: int
    precision: Precision

    @property
    def n_inputs(self) -> int:
        """Columns of the inputs."""
        return int(self.rows.inputs.shape[1])

    @property
    def n_outputs(self) -> int:
        """Scores a row."""
        return int(self.rows.targets.max()) + 1 if self.task == "multiclass" else 1

    @property
    def loss(self) -> Loss:
        """The paper's loss for the task."""
        return make_loss(DEFAULT_LOSS[self.task], EPSILON)

    def kernel(self, setting: Setting) -> Gaussian:
        """The Gaussian kernel of the paper, at its bandwidth of 8 unless the setting has another."""
        return Gaussian(float(setting.get("bandwidth", BANDWIDTH)))


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of the tables.

    make : a learner for a problem and a setting
    stated : one setting for all sets of a task; candidates : what else the paper would choose from, by task
    cost : kernel values or features that a row takes, from the sizes and the rows: only for the order of work
    """

    make: Callable[[Problem, Setting], RowLearner[Any]]
    stated: Mapping[Task, Setting] = field(default_factory=dict)
    candidates: Mapping[Task, tuple[Setting, ...]] = field(default_factory=dict)
    cost: Callable[[Sizes, int], float] = lambda sizes, rows: float(sizes.budget)

    def settings(self, task: Task, searched: bool) -> tuple[Setting, ...]:
        """Settings to choose from: the stated one alone, unless there is none or candidates are asked for."""
        candidates = self.candidates.get(task, ())
        if candidates and (searched or task not in self.stated):
            return candidates
        return (self.stated.get(task, NOTHING),)
