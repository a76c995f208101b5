"""Samples as a run draws them: a first one, larger ones, and one of shards that have arrived."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.accelerated.sharded.beside import Beside
from okl.accelerated.sharded.rounds import Log
from okl.errors import DataError
from okl.execution.protocol import Execution
from okl.store.dataset import Dataset
from okl.subgradient.growth import Plan
from okl.subgradient.scs import Scs
from okl.subgradient.sharded.beside import OpenSample
from okl.subgradient.sharded.commands import Drawn
from okl.subgradient.sharded.descent import Descent, begin, place
from okl.subgradient.sharded.rows import SampledRows
from okl.subgradient.state import SubgradientState
from okl.types import FloatArray


@dataclass(frozen=True)
class Sampler:
    """Draws samples and takes the first cut of each. method : of the problem; plan : how samples grow."""

    method: Scs
    plan: Plan

    def room(self, rows: int) -> bool:
        """Whether a sample of so many rows can be solved: wherever shards can be read."""
        return True

    def begun(
        self,
        rows: SampledRows,
        chosen: dict[str, Any],
        share: float,
        bytes_read: int,
        execution: Execution,
        weights: FloatArray | None = None,
    ) -> SubgradientState:
        """The first sample, cut once, at 0 or at weights that are given. bytes_read : before that."""
        n_outputs = rows.data.schema.n_outputs
        if weights is None:
            weights = np.zeros(rows.n_columns if n_outputs == 1 else (n_outputs, rows.n_columns))
        drawn, descent, one_class = self.placed(rows, (share,), weights, 0, self.beside(rows), execution)
        sampled = drawn.old_rows + drawn.new_rows
        read = bytes_read + drawn.bytes_read
        return SubgradientState(rows, chosen, (sampled,), descent, None, None, 0, sampled, read, one_class)

    def beside(self, rows: SampledRows) -> tuple[Beside, Log]:
        """What is to stand beside the shards of a run, and where it stands: nowhere yet."""
        work = OpenSample(rows, self.method.loss, rows.data.schema.n_outputs)
        return Beside(secrets.token_hex(8), work), Log()

    def placed(
        self,
        rows: SampledRows,
        shares: tuple[float, ...],
        weights: FloatArray,
        iterations: int,
        placed: tuple[Beside, Log],
        execution: Execution,
    ) -> tuple[Drawn, Descent, int]:
        """The sample of the last share, or one with two classes, cut once; how many had one class."""
        work, log = placed
        one_class, bytes_read, first = 0, 0, None
        while True:
            drawn, log = place(work, log, shares, weights, execution)
            first = first or drawn
            alike = alike_targets(drawn.targets, self.method)
            bytes_read += drawn.bytes_read
            if shares[-1] >= 1.0 or not alike:
                break
            one_class += 1
            shares = (*shares, self.plan.next_share(shares[-1]))
        if one_class:  # of rows and losses that were new when this began
            new_rows = drawn.old_rows + drawn.new_rows - first.old_rows
            new_losses = drawn.old_losses + drawn.new_losses - first.old_losses
            drawn = first._replace(new_rows=new_rows, new_losses=new_losses, bytes_read=bytes_read)
        return drawn, begin(self.method, shares, weights, drawn, iterations, (work, log), execution), one_class

    def grown(self, state: SubgradientState, share: float, execution: Execution) -> SubgradientState:
        """A larger sample, from the point that the last one left."""
        at = placed_descent(state)
        shares = (*at.shares, share)
        drawn, descent, one_class = self.placed(
            state.rows, shares, at.weights, at.iterations, (at.work, at.log), execution
        )
        return replace(
            state,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            proof=None,
            drawn_rows=state.drawn_rows + drawn.new_rows,
            bytes_read=state.bytes_read + drawn.bytes_read,
            one_class=state.one_class + one_class,
        )

    def arrived(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """The same point before a sample of more shards, as large as the one that there was.

        Raises
        ------
        DataError : the data do not begin with the shards that there were, or are scaled otherwise
        """
        check_arrived(state.rows.data, data)
        at = placed_descent(state)
        rows = replace(state.rows, data=data)
        share = min(1.0, at.n_rows / data.rows("train"))
        drawn, descent, one_class = self.placed(rows, (share,), at.weights, at.iterations, self.beside(rows), execution)
        return replace(
            state,
            rows=rows,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            seen=None,
            proof=None,
            drawn_rows=state.drawn_rows + descent.n_rows,
            bytes_read=state.bytes_read + drawn.bytes_read,
            one_class=state.one_class + one_class,
        )


def placed_descent(state: SubgradientState) -> Descent:
    """Where a state stands whose sample lies with the shards."""
    assert isinstance(state.descent, Descent)
    return state.descent


def alike_targets(targets: tuple[float, float], method: Scs) -> bool:
    """Whether the least and the largest target say that all rows are of one class."""
    return targets[0] >= targets[1] and method.loss.task != "regression"


def check_arrived(before: Dataset, data: Dataset) -> None:
    """Raise DataError unless data begin with the shards that there were, scaled alike."""
    old, new = before.split("train"), data.split("train")
    same = new[: len(old)] == old and data.schema.features == before.schema.features
    if not same or any((a != b).any() for a, b in zip(_scaling(before), _scaling(data), strict=True)):
        raise DataError(
            f"{data.folder} does not begin with the shards of {before.folder}, scaled as they were: a run goes on "
            "with the data that it has begun with and shards that come after them. Train afresh."
        )


def _scaling(data: Dataset) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (*data.schema.shift_and_factor, np.array(data.schema.target_shift_and_factor))
