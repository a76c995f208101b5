"""Random samples of the rows of shards, rules for their sizes, and bounds from fresh samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from okl.data.dataset import Dataset, Shard
from okl.data.execution import Execution, Rows
from okl.data.reading import LastGroup, RowRuns, bytes_of_runs, is_uncompressed, read_runs
from okl.data.sparse import n_rows as rows_in
from okl.data.sparse import stacked
from okl.distributed.cache import resident
from okl.features.base import FeatureMap
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.telemetry import MAP, Span
from okl.foundation.types import FloatArray, Integers, Precision
from okl.solvers.subgradient.scs import Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows

# Sample designs: seeded, without replacement.
#
# A sample is named by its share of all rows. Samples of one design are nested: a larger one holds all rows of a
# smaller one, so that what was read stays of use. What a shard gives follows from the seed and the shard alone;
# shards that arrive later change nothing in the others.

RUN_ROWS = 64
FINE_RUNS = 8192
LEAST_SHARDS, LEAST_GROUPS = 8, 16
SPREAD = 4.0
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_SHARDS = 0x5AD  # in a seed with indices of shards


@stored("sampling-design")
@dataclass(frozen=True)
class SampleDesign:
    """Distribution of the rows of a sample over the shards of a data set.

    A file must be opened to be read from: SPREAD times the share of the shards is touched, LEAST_SHARDS of them at
    least, and as much more of the runs of each is taken. In compressed shards the same goes for row groups; in
    uncompressed ones runs are drawn from all row groups. How many of k there are is floor(share k + u), with u uniform
    on [0, 1): the probability of each row is the share itself, and a sum over the sample divided by the share is an
    unbiased one over all rows. Numbers u of neighbouring shards are spread evenly, so that the size of the whole sample
    hardly varies.

    seed : of this design: other seeds draw independent samples
    run_rows : rows that are drawn together, less at the end of a row group
    n_shards, n_groups : shards and row groups of the data set when it was designed
    in_a_row : whether its shards had the indices 0 to n_shards - 1: then so many are touched, not more or less by
        chance, and samples of one share are as large as each other
    Source: the estimator is Horvitz and Thompson's (JASA 47, 1952); the sample one of clusters in up to three stages
    (Cochran, Sampling Techniques, 1977, chapters 9A and 10).
    """

    seed: tuple[int, ...]
    run_rows: int
    n_shards: int
    n_groups: int
    in_a_row: bool = False

    @classmethod
    def of(cls, data: Dataset, *seed: int) -> SampleDesign:
        """Return single rows for a small data set, runs of RUN_ROWS for a large one: at least FINE_RUNS runs in all."""
        shards = data.split("train")
        rows = sum(shard.rows for shard in shards)
        groups = sum(len(shard.row_groups) for shard in shards)
        in_a_row = [shard.index for shard in shards] == list(range(len(shards)))
        return cls(seed, min(RUN_ROWS, max(1, rows // FINE_RUNS)), len(shards), groups, in_a_row)

    def another(self, *seed: int) -> SampleDesign:
        """Return an independent design, with numbers appended to the seed."""
        return replace(self, seed=(*self.seed, *seed))

    def runs(self, data: Dataset, shard: Shard, share: float, beyond: float = 0.0) -> RowRuns:
        """Return the runs of a shard that the sample of `share` has and that of `beyond` has not, neighbours joined."""
        if not self._touches(shard, share):
            nothing = np.empty(0, dtype=np.int64)
            return RowRuns(nothing, nothing, nothing)
        groups, firsts, rows = self._cut(shard)
        singly = is_uncompressed(data, shard)
        taken = self._taken(shard, groups, share, singly)
        if beyond > 0.0:
            taken &= ~self._taken(shard, groups, beyond, singly)
        return _joined(RowRuns(groups[taken], firsts[taken], rows[taken]))

    def _touches(self, shard: Shard, share: float) -> bool:
        random = np.random.default_rng((*self.seed, _SHARDS))
        offset, part = random.random(), _touched(share, self.n_shards, LEAST_SHARDS)
        if self.in_a_row and shard.index < self.n_shards:
            return bool(random.permutation(self.n_shards)[shard.index] < _number(part, self.n_shards, offset))
        return bool((offset + _GOLDEN * shard.index) % 1.0 < part)

    def _cut(self, shard: Shard) -> tuple[Integers, Integers, Integers]:
        """Return group, first row and row count of every run of a shard."""
        sizes = np.array(shard.row_groups, dtype=np.int64)
        counts = -(-sizes // self.run_rows)
        groups = np.repeat(np.arange(len(sizes)), counts)
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        firsts = places * self.run_rows
        return groups, firsts, np.minimum(self.run_rows, sizes[groups] - firsts)

    def _taken(self, shard: Shard, groups: Integers, share: float, singly: bool) -> NDArray[np.bool_]:
        if not self._touches(shard, share):
            return np.zeros(len(groups), dtype=np.bool_)
        share = min(1.0, share / _touched(share, self.n_shards, LEAST_SHARDS))
        random = np.random.default_rng((*self.seed, shard.index))
        start = np.random.default_rng(self.seed).random(2)
        if singly:
            ranks = random.permutation(len(groups))
            return ranks < _number(share, len(groups), start[0] + _GOLDEN * shard.index)
        n_groups = len(shard.row_groups)
        touched = _touched(share, self.n_groups, LEAST_GROUPS)
        group_ranks = random.permutation(n_groups)
        chosen = group_ranks < _number(touched, n_groups, start[0] + _GOLDEN * shard.index)
        taken = np.zeros(len(groups), dtype=np.bool_)
        for group in range(n_groups):
            members = np.flatnonzero(groups == group)
            ranks = random.permutation(len(members))
            offset = start[1] + _GOLDEN * (shard.index + group_ranks[group])
            if chosen[group]:
                taken[members] = ranks < _number(min(1.0, share / touched), len(members), offset)
        return taken


def _touched(share: float, of: int, least: int) -> float:
    """Return the share of shards or groups to open for a share of their rows."""
    return min(1.0, max(least / of, SPREAD * share))


def _number(share: float, of: int, offset: float) -> int:
    """Return how many of the items to draw: floor(share * count + u), u the fraction of the offset."""
    return min(of, math.floor(share * of + offset % 1.0))


def _joined(runs: RowRuns) -> RowRuns:
    """Join runs that follow each other within a row group."""
    if len(runs.groups) < 2:
        return runs
    ends = runs.firsts + runs.rows
    follows = (runs.groups[1:] == runs.groups[:-1]) & (runs.firsts[1:] == ends[:-1])
    begins = np.flatnonzero(np.concatenate([[True], ~follows]))
    rows = np.add.reduceat(runs.rows, begins)
    return RowRuns(runs.groups[begins], runs.firsts[begins], rows)


def cut_runs(runs: RowRuns, most: int) -> RowRuns:
    """Split runs to at most the given number of rows."""
    pieces = -(-runs.rows // most)
    if (pieces == 1).all():
        return runs
    places = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    groups, firsts = np.repeat(runs.groups, pieces), np.repeat(runs.firsts, pieces) + places * most
    ends = np.repeat(runs.firsts + runs.rows, pieces)
    return RowRuns(groups, firsts, np.minimum(most, ends - firsts))


# Sample sizes.

FACTOR = 4.0
FIRST_SAMPLE = 1000
LARGEST_PART = 0.5  # of all rows; a larger sample is all of them
_STATISTICAL = (
    0.02  # over lam n: a sampled optimum is further than that from the optimum of all rows, seen on real data
)
_LOOSEST = 0.1
_SOLVED = 0.25  # share of the requested gap that solving the sample may take
_MARGIN = 0.75  # share of the requested gap that a bound is expected to take if it is tried
_DEARER = 0.25  # by how much the bound is further from its mean with each attempt: less risk is left for it
_MOST_OF_SAMPLE = 2.0  # rows of a replicate over those of the sample
_FALL = 0.5  # of the scale, from one sample to the next, at most


@stored("sample-growth")
@dataclass(frozen=True)
class GapEstimate:
    """Estimates of a point's gap from fresh samples.

    n_rows : of the point's sample; scale : excess, and optimism of a sample's bound, are about scale / rows
    """

    n_rows: int
    scale: float

    @classmethod
    def of(cls, mean_gap: float, n_rows: int, replicate_rows: float, solved: float) -> GapEstimate:
        return cls(n_rows, max(0.0, mean_gap - solved) / (1.0 / n_rows + 1.0 / replicate_rows))


@dataclass(frozen=True)
class SamplePlan:
    """Rules of a run. gap : requested; lam : of the problem; first_sample : rows"""

    gap: float
    lam: float
    first_sample: int

    def next_share(self, share: float) -> float:
        """Return the share of the next sample: four times as large, or all rows."""
        return 1.0 if FACTOR * share > LARGEST_PART else FACTOR * share

    def tolerance(self, share: float, n_rows: int) -> float:
        """Return the gap to solve a sample to, from its size; for all rows, the target gap."""
        if share >= 1.0:
            return self.gap
        return max(_SOLVED * self.gap, min(_LOOSEST, _STATISTICAL / (self.lam * n_rows)))

    def replicate_rows(self, estimate: GapEstimate, n_rows: int, solved: float, attempts: int = 0) -> int | None:
        """Return the rows of each fresh sample for which the bound should reach the gap; None if none does.

        n_rows, solved : rows and gap of the sample; attempts : that failed before, each of which makes the next one ask
        for more confidence

        The bound is the excess of the point, the optimism of the replicates, and how far the sample was solved.
        """
        remaining = _MARGIN * self.gap / (1.0 + _DEARER * attempts) - estimate.scale / n_rows - solved
        if remaining <= 0.0 or estimate.scale > _MOST_OF_SAMPLE * n_rows * remaining:
            return None
        return max(self.first_sample, round(estimate.scale / remaining))

    def needs_estimate(self, estimate: GapEstimate | None, n_rows: int, solved: float) -> bool:
        """Return whether fresh samples should estimate the gap: not if it cannot be small yet, or was estimated."""
        if estimate is None:
            return True
        likely = GapEstimate(n_rows, _FALL * estimate.scale)
        return estimate.n_rows != n_rows and self.replicate_rows(likely, n_rows, solved) is not None


# Mapped rows of a sample.

SEGMENT = 4096  # rows mapped and summed in one go: fixed, so that bits depend on nothing else


@stored("sampled-rows")
@dataclass(frozen=True, eq=False)
class SampledRows:
    """z(x) of the sampled rows of a data set, shard by shard; cheap to send.

    data : whose rows are drawn; feature_map : z, whose precision the mapped rows have; design : how they are drawn
    constant : whether a last column of ones is appended, for a bias that is regularised like a weight
    tag : names data and map in the process cache (see okl.distributed.cache), whose bound is the memory budget
    """

    data: Dataset
    feature_map: FeatureMap
    design: SampleDesign
    constant: bool
    tag: str

    @property
    def n_columns(self) -> int:
        return self.feature_map.n_columns + int(self.constant)

    def another(self, *seed: int) -> SampledRows:
        """Return the same rows, to be drawn independently."""
        return replace(self, design=self.design.another(*seed))

    def segments(self, shard: Shard, share: float, beyond: float) -> list[Segment]:
        """Return the rows of a sample that were not in a smaller one, as pieces of at most SEGMENT rows."""
        runs = cut_runs(self.design.runs(self.data, shard, share, beyond), SEGMENT)
        ends, segments, begin = np.cumsum(runs.rows), [], 0
        while begin < len(runs.groups):
            before = int(ends[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(ends, before + SEGMENT, side="right")))
            # index: by it, too, runs are drawn, and two shards may have the same bytes
            key = (self.tag, self.design, shard.index, shard.sha256, share, beyond, begin)
            segments.append(Segment(runs.part(slice(begin, end)), int(ends[end - 1]) - before, key))
            begin = end
        return segments

    def blocks(self, shard: Shard, segments: list[Segment]) -> Iterator[tuple[slice, Rows]]:
        """Return segments of mapped rows with their targets, and their place among all of them."""
        last, first = LastGroup(), 0
        for segment in segments:
            block = resident(segment.key, lambda: self.load(shard, segment.runs, last))  # noqa: B023  (called at once)
            yield slice(first, first + segment.rows), block
            first += segment.rows

    def load(self, shard: Shard, runs: RowRuns, last: LastGroup | None = None) -> Rows:
        """Read runs of a shard, and map them."""
        rows = read_runs(self.data, shard, runs, self.feature_map.precision, last)
        return Rows(self.mapped(rows.inputs), rows.targets.copy())

    def mapped(self, inputs: FloatArray) -> FloatArray:
        """Return z of inputs, with the constant."""
        with Span(MAP):
            features = self.feature_map.transform(inputs)
        if not self.constant:
            return features
        return np.concatenate([features, np.ones((len(features), 1), dtype=features.dtype)], axis=1)

    def bytes_of(self, shard: Shard, segments: list[Segment], footer: bool) -> int:
        """Return bytes of the file that reading segments once takes. footer : whether nothing of it was read before."""
        if not segments:
            return 0
        runs = [segment.runs for segment in segments]
        joined = RowRuns(*(np.concatenate(column) for column in zip(*runs, strict=True)))
        return bytes_of_runs(self.data, shard, joined, footer)


@dataclass(frozen=True, eq=False)
class Segment:
    """Runs of a shard that are read, mapped and held together. key : in the process cache."""

    runs: RowRuns
    rows: int
    key: tuple[object, ...]


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
        rows, share = self.rows.another(index), self.share
        for _ in range(_MOST_DRAWS):
            sample, bytes_read = draw_rows(rows, share)
            if len(sample.targets):
                all_rows = rows.data.rows("train")
                return self.bracket(sample, len(sample.targets) / (share * all_rows), bytes_read)
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


def draw_rows(rows: SampledRows, share: float) -> tuple[Rows, int]:
    """Return the mapped rows of a sample of all shards, in order, and the bytes read."""
    drawn = [draw_of_shard(rows, shard, share) for shard in rows.data.split("train")]
    return joined([part for part, _ in drawn], rows.n_columns), sum(read for _, read in drawn)


def joined(parts: Sequence[Rows], n_columns: int) -> Rows:
    """Concatenate the rows of all parts that have some, in order."""
    parts = [part for part in parts if len(part.targets)]
    if not parts:
        return Rows(np.empty((0, n_columns)), np.empty(0))
    inputs = np.concatenate([part.inputs for part in parts])
    return Rows(inputs, np.concatenate([part.targets for part in parts]))


def draw_inputs(data: Dataset, design: SampleDesign, n_rows: int, precision: Precision) -> tuple[FloatArray, int]:
    """Return unmapped inputs of about n_rows rows, from which a map is chosen, and the bytes read."""
    share = min(1.0, n_rows / max(1, data.rows("train")))
    parts: list[Any] = []
    bytes_read = 0
    while share <= 1.0 and not sum(map(rows_in, parts)):
        for shard in data.split("train"):
            runs = design.runs(data, shard, share)
            parts.append(read_runs(data, shard, runs, precision).inputs)
            bytes_read += bytes_of_runs(data, shard, runs, footer=False)  # who draws the first sample counts it
        share = min(1.0, 2.0 * share) if share < 1.0 else 2.0
    return stacked(parts), bytes_read


def draw_of_shard(rows: SampledRows, shard: Shard, share: float, beyond: float = 0.0) -> tuple[Rows, int]:
    """Return the mapped rows of a shard that only the sample of this share has, and the bytes read."""
    segments = rows.segments(shard, share, beyond)
    # not through the process cache: these rows are not read again
    parts = [rows.load(shard, segment.runs) for segment in segments]
    return joined(parts, rows.n_columns), rows.bytes_of(shard, segments, beyond == 0.0)


# Bounds over all rows: exact, or at a confidence level.

REPLICATES = 10
SOLVED_TO = 0.1  # share of the requested gap to which the replicates are solved
LOOKS, LOOK_SHARE = 3, 0.125  # fresh samples, and rows of each over those of the sample, to see what a point is worth


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
    work: ReplicateWork, confidence: float, execution: Execution, replicates: int = REPLICATES
) -> FullBound:
    """Bound the gap of a point over all rows from independent samples S_1 ... S_R that it does not depend on.

        gap_r = f_r(w) - D_r >= 0,   E[f_r(w)] = F(w),   E[D_r] <= E[min f_r] <= min F
        F(w) - min F  <=  mean gap_r + t_{R - 1, confidence} deviation / R^(1/2)

    with probability `confidence`, as far as the mean of R gaps is normal. Both ends are of the same rows, so that the
    losses' own noise cancels.

    work : the point, and rows of all shards by a design that it does not depend on: see SampledRows.another
    Raises ConfigError : fewer than two replicates, or a confidence outside (0, 1)

    Source: Mak, Morton & Wood, Operations Research Letters 24, 1999, section 3: multiple replications, common random
    numbers.
    """
    if replicates < 2 or not 0.0 < confidence < 1.0:
        raise ConfigError(
            f"confidence = {confidence:g} and replicates = {replicates}, but confidence must be in (0, 1) and "
            "replicates at least 2."
        )
    found = list(execution.map(work, range(replicates)))
    gaps = [max(0.0, replicate.objective - replicate.lower_bound) for replicate in found]
    objectives = [replicate.objective for replicate in found]
    rows_read, bytes_read = sum(replicate.rows for replicate in found), sum(replicate.bytes_read for replicate in found)
    return bound_of_gaps(gaps, objectives, confidence, rows_read, bytes_read)


def bound_of_gaps(
    gaps: Sequence[float], objectives: Sequence[float], confidence: float, rows: int, bytes_read: int = 0
) -> FullBound:
    """Return the bound of independent samples' gaps and objectives at one point: mean + t deviation / R^(1/2)."""
    replicates, mean, deviation = len(gaps), float(np.mean(gaps)), float(np.std(gaps, ddof=1))
    most = mean + float(stdtrit(replicates - 1, confidence)) * deviation / math.sqrt(replicates)
    objective = float(np.mean(objectives))
    return FullBound(most, objective, confidence, replicates, rows, bytes_read, mean, deviation)
