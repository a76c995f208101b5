"""How far a point is from the optimum over ALL rows, at most: exactly, or at a stated confidence from fresh samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.subgradient.replicates import ReplicateWork
from okl.subgradient.scs import Scs
from okl.subgradient.sharded.rows import SampledRows
from okl.types import FloatArray

REPLICATES = 10
SOLVED_TO = 0.1  # of the gap that is asked for: how far the replicates are solved


@dataclass(frozen=True)
class FullBound:
    """What is proved about a point over all rows.

    gap : the objective is above the optimum by so much, at most
    objective : at the point, over all rows, or the estimate of the replicates; lower_bound : objective less gap
    confidence : of the gap; None: it is exact
    replicates, rows, bytes_read : samples it was made from, of how many rows, and what reading them took
    mean_gap, deviation : of the replicates' own gaps
    """

    gap: float
    objective: float
    confidence: float | None
    replicates: int = 0
    rows: int = 0
    bytes_read: int = 0
    mean_gap: float = 0.0
    deviation: float = 0.0

    @property
    def lower_bound(self) -> float:
        """Of the optimum over all rows."""
        return self.objective - self.gap

    def as_json(self) -> dict[str, Any]:
        """For the result of a run."""
        size = max(abs(self.objective), abs(self.lower_bound))
        return {
            "gap": self.gap,
            "relative_gap": self.gap / size if size else 0.0,
            "objective": self.objective,
            "lower_bound": self.lower_bound,
            "confidence": self.confidence,
            "exact": self.confidence is None,
            "replicates": self.replicates,
            "replicate_rows": self.rows,
            "replicates_mean_gap": self.mean_gap,
            "replicates_deviation": self.deviation,
        }


def exact_bound(objective: float, lower_bound: float) -> FullBound:
    """All rows are in the sample: its gap is the gap."""
    return FullBound(max(0.0, objective - lower_bound), objective, None)


def replicated_bound(
    rows: SampledRows,
    weights: FloatArray,
    method: Scs,
    n_outputs: int,
    share: float,
    confidence: float,
    execution: Execution,
    replicates: int = REPLICATES,
) -> FullBound:
    """Bound the gap of a point over all rows from independent samples S_1 ... S_R that it does not depend on.

        gap_r = f_r(w) - D_r >= 0,   E[f_r(w)] = F(w),   E[D_r] <= E[min f_r] <= min F
        F(w) - min F  <=  mean gap_r + t_{R - 1, confidence} deviation / R^(1/2)

    with probability `confidence`, as far as the mean of R gaps is normal. Both ends are of the same rows, so that the
    losses' own noise cancels.

    Parameters
    ----------
    rows : of all shards, with a design that the point does not depend on: see okl.subgradient.replicates.fresh
    weights : the point, whatever it was learnt by, (n_columns,) or (n_outputs, n_columns)
    method : with lam and loss of the problem, and the gap that each sample is solved to
    share : of all rows in a sample

    Raises
    ------
    ConfigError : fewer than two replicates, or a confidence outside (0, 1)

    Source: Mak, Morton & Wood, Operations Research Letters 24, 1999, section 3: multiple replications, common random
    numbers.
    """
    return bound_by(ReplicateWork(rows, share, weights, method, n_outputs), confidence, execution, replicates)


def bound_by(work: ReplicateWork, confidence: float, execution: Execution, replicates: int) -> FullBound:
    """The bound of so many samples of some work, as in `replicated_bound`; raises as it does."""
    if replicates < 2 or not 0.0 < confidence < 1.0:
        raise ConfigError(
            f"confidence = {confidence:g} from {replicates} replicates, but it takes a confidence in (0, 1) and at "
            "least 2 of them."
        )
    found = list(execution.map(work, range(replicates)))
    gaps = [max(0.0, one.objective - one.lower_bound) for one in found]
    rows_read, bytes_read = sum(one.rows for one in found), sum(one.bytes_read for one in found)
    return bound_of_gaps(gaps, [one.objective for one in found], confidence, rows_read, bytes_read)


def bound_of_gaps(
    gaps: Sequence[float], objectives: Sequence[float], confidence: float, rows: int, bytes_read: int = 0
) -> FullBound:
    """The bound of independent samples' gaps and objectives at one point: mean + t deviation / R^(1/2)."""
    replicates, mean, deviation = len(gaps), float(np.mean(gaps)), float(np.std(gaps, ddof=1))
    most = mean + float(stdtrit(replicates - 1, confidence)) * deviation / math.sqrt(replicates)
    objective = float(np.mean(objectives))
    return FullBound(most, objective, confidence, replicates, rows, bytes_read, mean, deviation)
