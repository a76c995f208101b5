"""Bounds on the distance from the optimum over all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from okl.data.dataset import Dataset, Shard
from okl.data.executor import Execution, Rows
from okl.data.reading import bytes_of_runs, read_runs
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.stored import stored
from okl.foundation.types import FloatArray, Precision
from okl.solvers.subgradient.drawing import SampleDesign, SampledRows
from okl.solvers.subgradient.method import Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows

# Replicates: lower bounds from fresh samples.

_MOST_DRAWS = 8  # until a sample has a row: each is twice as large


class Replicate(NamedTuple):
    """One sample: the point's objective there, a lower bound of any, rows drawn and bytes read of files."""

    objective: float
    lower_bound: float
    rows: int
    bytes_read: int


@dataclass(frozen=True, eq=False)
class ReplicateWork:
    """Work for `execution.map`: draws the sample of an index, and brackets its optimum.

    Both ends are unbiased for rows drawn each with the same probability p: losses are added up and divided by p times
    the number of all rows, whatever number of rows came. They go with other weights of the norm, which `lam` takes up.

    Parameters
    ----------
    rows : of all shards, drawn by designs that follow from its own and the index; share : p
    weights : the point, (n_columns,) or (n_outputs, n_columns)
    method : how a sample is solved, and how far; n_outputs : scores a row
    """

    rows: SampledRows
    share: float
    weights: FloatArray
    method: Scs
    n_outputs: int

    def __call__(self, index: int) -> Replicate:
        """Return the sample of an index."""
        design, share = self.rows.design.another(index), self.share
        for _ in range(_MOST_DRAWS):
            sample, bytes_read = draw_rows(replace(self.rows, design=design), share)
            if len(sample.targets):
                return self.bracket(sample, len(sample.targets) / (share * self._all_rows), bytes_read)
            share = min(1.0, 2.0 * share)
        raise DataError(
            f"{self.rows.data.folder}: repeated samples held no row. Check that the data set has training rows."
        )

    def bracket(self, sample: Rows, total: float, bytes_read: int) -> Replicate:
        """Bracket the optimum of a sample, and evaluate the point; total : sum of the row weights, about 1."""
        space = ExplicitRows(sample.inputs, self.n_outputs)
        method = replace(self.method, lam=self.method.lam / total)
        start = space.vector(np.asarray(self.weights, dtype=np.float64))
        solved = solve_sample(space, sample.targets, method, start)
        objective = solved.history[0].objective
        return Replicate(total * objective, total * solved.lower_bound, space.n_rows, bytes_read)

    @property
    def _all_rows(self) -> int:
        return self.rows.data.rows("train")


def draw_rows(rows: SampledRows, share: float) -> tuple[Rows, int]:
    """Return the mapped rows of a sample of all shards, in order, and the bytes read."""
    parts: list[Rows] = []
    bytes_read = 0
    for shard in rows.data.split("train"):
        drawn_rows, read = draw_of_shard(rows, shard, share)
        parts += drawn_rows
        bytes_read += read
    return joined(parts, rows.n_columns), bytes_read


def joined(parts: Sequence[Rows], n_columns: int) -> Rows:
    """Concatenate the rows of all parts, in order."""
    if not parts:
        return Rows(np.empty((0, n_columns)), np.empty(0))
    inputs = np.concatenate([part.inputs for part in parts])
    return Rows(inputs, np.concatenate([part.targets for part in parts]))


def draw_inputs(data: Dataset, design: SampleDesign, n_rows: int, precision: Precision) -> tuple[FloatArray, int]:
    """Return unmapped inputs of about n_rows rows, from which a map is chosen, and the bytes read."""
    share = min(1.0, n_rows / max(1, data.rows("train")))
    parts, bytes_read = [np.empty((0, data.schema.n_features), dtype=precision)], 0
    while share <= 1.0 and not sum(map(len, parts)):
        for shard in data.split("train"):
            runs = design.runs(data, shard, share)
            parts.append(read_runs(data, shard, runs, precision).inputs)
            bytes_read += bytes_of_runs(data, shard, runs, footer=False)  # who draws the first sample counts it
        share = min(1.0, 2.0 * share) if share < 1.0 else 2.0
    return np.concatenate(parts), bytes_read


def draw_of_shard(rows: SampledRows, shard: Shard, share: float, beyond: float = 0.0) -> tuple[list[Rows], int]:
    """Return the mapped rows of a shard that only the sample of this share has, and the bytes read."""
    segments = rows.segments(shard, share, beyond)
    # not through the process cache: these rows are not read again
    read = rows.bytes_of(shard, segments, beyond == 0.0)
    return [rows.load(shard, segment.runs) for segment in segments], read


def fresh(rows: SampledRows, *seed: int) -> SampledRows:
    """Return the rows with an independent sampling design."""
    return replace(rows, design=rows.design.another(*seed))


# Bounds over all rows: exact, or at a confidence level.

REPLICATES = 10
SOLVED_TO = 0.1  # share of the requested gap to which the replicates are solved


@stored("full-data-bound")
@dataclass(frozen=True)
class FullBound:
    """Bound on a point's gap over all rows.

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
        """Return the lower bound of the optimum over all rows."""
        return self.objective - self.gap

    def as_json(self) -> dict[str, Any]:
        """Return the certificate for the result of a run."""
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
    """Return the exact bound of a sample that holds all rows."""
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
    rows : of all shards, with a design that the point does not depend on: see okl.solvers.subgradient.certificate.fresh
    weights : the point, whatever it was learned by, (n_columns,) or (n_outputs, n_columns)
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
    """Compute the bound of `replicated_bound` from any replicate work; the same errors."""
    if replicates < 2 or not 0.0 < confidence < 1.0:
        raise ConfigError(
            f"confidence = {confidence:g} and replicates = {replicates}, but confidence must be in (0, 1) and "
            "replicates at least 2."
        )
    replicates_found = list(execution.map(work, range(replicates)))
    gaps = [max(0.0, replicate.objective - replicate.lower_bound) for replicate in replicates_found]
    rows_read, bytes_read = (
        sum(replicate.rows for replicate in replicates_found),
        sum(replicate.bytes_read for replicate in replicates_found),
    )
    return bound_of_gaps(
        gaps, [replicate.objective for replicate in replicates_found], confidence, rows_read, bytes_read
    )


def bound_of_gaps(
    gaps: Sequence[float], objectives: Sequence[float], confidence: float, rows: int, bytes_read: int = 0
) -> FullBound:
    """Return the bound of independent samples' gaps and objectives at one point: mean + t deviation / R^(1/2)."""
    replicates, mean, deviation = len(gaps), float(np.mean(gaps)), float(np.std(gaps, ddof=1))
    most = mean + float(stdtrit(replicates - 1, confidence)) * deviation / math.sqrt(replicates)
    objective = float(np.mean(objectives))
    return FullBound(most, objective, confidence, replicates, rows, bytes_read, mean, deviation)
