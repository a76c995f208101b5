"""The multiplier of a projection whose entries lie on many shards, by a few rounds of sums.

A round asks every shard for its sums at many candidates at once; `merge_sums` adds them up, exactly, so that neither
the number of shards nor their cut changes a bit of the multiplier. From the sums the search learns between which
candidates the root lies and what bends in between, and proposes the next ones. When nothing bends in between, the root
is that of one line: exact, as in one process.

    search = MultiplierSearch(n_entries, total, guess=last_theta, magnitude=last_magnitude)
    while search.theta is None:
        parts = [multiplier_sums(values, signs, lower, upper, search.question) for each shard]
        search = search.answered(merge_sums(parts))
    write_projection(out, values, signs, lower, upper, search.theta, -search.theta)  # on each shard

For a truncated simplex pair two searches run side by side, of sign 1 and of sign -1, and `write_projection` takes the
multiplier of each.

Source: Ito, Takeda & Toh, JMLR 18(16), 2017, (18) to (22), for y-weighted sums; the exact sums are okl's own use of
Demmel & Nguyen, ARITH 2013.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from okl.accelerated.projections.candidates import Bracket, around, between
from okl.accelerated.projections.checked import check_point, check_values, checked_entries
from okl.accelerated.projections.lines import Lines, ShardSums
from okl.accelerated.projections.multiplier import write_clipped
from okl.compiled.blocks import as_compiled
from okl.compiled.projectionsbends import COLUMNS, Shard, sum_bends
from okl.errors import DataError
from okl.types import FloatArray

Doubles = NDArray[np.float64]


class Question(NamedTuple):
    """What a round asks of every shard: sums at candidates (K,), of the entries of one sign or of both (0)."""

    candidates: Doubles
    cutters: Doubles
    sign: int


def multiplier_sums(
    values: FloatArray, signs: ArrayLike, lower: ArrayLike, upper: ArrayLike, question: Question
) -> ShardSums:
    """Answer a question for one shard, whose entries are as those of `project_box_hyperplane`.

    Raises
    ------
    DataError : shapes, precisions or signs that do not fit
    ConfigError : bounds that enclose no number
    """
    entries, _ = checked_entries(check_values(values), signs, lower, upper)
    lows, highs = (as_compiled(np.atleast_1d(bound), np.float64) for bound in (entries.lower, entries.upper))
    shard = Shard(as_compiled(entries.point, np.float64), entries.signs, lows, highs)
    n_candidates = len(question.candidates)
    bins, extremes = np.empty((2 * n_candidates + 1, COLUMNS)), np.empty((n_candidates + 1, 2))
    magnitude = sum_bends(bins, extremes, shard, question.candidates, question.cutters, question.sign)
    return ShardSums(bins, extremes, magnitude)


def merge_sums(parts: Sequence[ShardSums]) -> ShardSums:
    """The answer of all shards together; the same bits for any cut into shards, in any order."""
    bins, extremes = parts[0].bins.copy(), parts[0].extremes.copy()
    for part in parts[1:]:
        bins += part.bins
        np.minimum(extremes[:, 0], part.extremes[:, 0], out=extremes[:, 0])
        np.maximum(extremes[:, 1], part.extremes[:, 1], out=extremes[:, 1])
    return ShardSums(bins, extremes, max(part.magnitude for part in parts))


def write_projection(
    out: FloatArray,
    values: FloatArray,
    signs: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    plus_theta: float,
    minus_theta: float,
) -> None:
    """Overwrite a shard's out by clip(values - theta, lower, upper), theta by the sign; out may be the values.

    plus_theta, minus_theta : theta and -theta of a hyperplane, or the multipliers of the two searches of a pair
    """
    values = check_point(out, values)
    entries, _ = checked_entries(values, signs, lower, upper)
    write_clipped(out, entries, plus_theta, minus_theta)


@dataclass(frozen=True)
class MultiplierSearch:
    """What is known of a multiplier theta after some rounds; a value, small and picklable.

    Parameters
    ----------
    n_entries : of all shards together, both signs
    total : sum_i y_i a_i for sign 0; the sum of the entries of the sign otherwise
    sign : of the entries that share the multiplier, 0 for both
    guess : the multiplier of the last iteration; 0 for none
    magnitude : of the last search, saves a round; 0 for none
    n_candidates : K, of a round but for the four ends that it keeps, at least 16; a shard sends some 100 K bytes

    Read: theta, None until it is found; rounds, those answered so far; question, of the next round.
    """

    n_entries: int
    total: float = 0.0
    sign: int = 0
    guess: float = 0.0
    magnitude: float = 0.0
    n_candidates: int = 96
    rounds: int = 0
    theta: float | None = None
    candidates: tuple[float, ...] = ()

    @cached_property
    def question(self) -> Question:
        """What to ask of every shard next."""
        candidates = np.array(self.candidates or around(self._start, self.magnitude, self.n_candidates))
        return Question(candidates, _cutters(self.magnitude, self.n_entries), self.sign)

    @property
    def _start(self) -> float:
        return -self.guess if self.sign < 0 else self.guess

    @property
    def _target(self) -> float:
        return -self.total if self.sign < 0 else self.total

    def answered(self, sums: ShardSums) -> MultiplierSearch:
        """The search after a round's merged sums.

        Raises
        ------
        ConfigError : no multiplier reaches the total: the set is empty
        DataError : an entry is not finite
        """
        following = replace(self, rounds=self.rounds + 1)
        if not math.isfinite(sums.magnitude):
            raise DataError(
                "A point to project takes finite numbers, but an entry of a shard is not: the step before it has "
                "diverged, take a shorter one."
            )
        if sums.magnitude > self.magnitude:
            # sums of numbers beyond the cutters are not exact: they are asked for again
            return replace(following, magnitude=_power_above(sums.magnitude))
        lines = Lines(sums, self.question.candidates, self._target)
        lines.check_reach(self.sign)
        cell = lines.root_cell()
        root = lines.root(cell)
        if root is not None:
            return replace(following, theta=-root if self.sign < 0 else root, candidates=())
        least, most = sums.extremes[cell // 2].tolist()
        bracket = Bracket(*lines.ends(cell), least, most, int(sums.bins[cell, COLUMNS - 1]))
        estimate = lines.secant(cell, self._start)
        return replace(following, candidates=between(bracket, estimate, self.n_candidates))


def _power_above(magnitude: float) -> float:
    """A power of two above a number: one that grows a little needs no further round."""
    return math.ldexp(1.0, math.frexp(magnitude)[1] + 1)


def _cutters(magnitude: float, n_entries: int) -> Doubles:
    """1.5 2^e each, such that any sum of four pieces an entry fits into 53 bits of the piece's unit, 2^(e - 52)."""
    rows = math.ceil(math.log2(n_entries)) + 3
    first = math.frexp(magnitude)[1] + rows
    # what a cut leaves is at most half of its unit: the next cutter may be that much smaller
    exponents = [first - k * (53 - rows) for k in range(3)]
    return np.array([math.ldexp(1.5, exponent) for exponent in exponents])
