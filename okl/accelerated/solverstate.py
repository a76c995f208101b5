"""Where a model over shards stands, class by class, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from okl.accelerated.fapgstate import FapgState
from okl.accelerated.protocol import Certificate
from okl.accelerated.sharded.problems import Standpoint
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.warm import Warm
from okl.solvers import Outcome
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Solved:
    """One class against the rest, done.

    weights : (n_columns,); bias : chosen; certificate : of the model's own bias; value : of its parameter
    """

    weights: FloatArray
    bias: float
    certificate: Certificate
    outcome: Outcome
    value: float
    fapg: FapgState


@dataclass(frozen=True, eq=False)
class AcceleratedState:
    """Everything that evolves; never written into.

    rows : mapped, cheap; chosen : the map's choices
    solved : weights, bias and record of the classes that are done; current : where the class in work stands, None if
        there is none left
    warm : of each class, where to begin; () for the models' own points
    """

    rows: MappedRows
    chosen: dict[str, Any]
    solved: tuple[Solved, ...]
    current: Standpoint | None
    warm: tuple[Warm, ...] = ()

    @property
    def iterations(self) -> int:
        """Of all classes."""
        here = () if self.current is None else (self.current.fapg,)
        return sum(one.history[-1].iteration for one in (*(solved.fapg for solved in self.solved), *here))
