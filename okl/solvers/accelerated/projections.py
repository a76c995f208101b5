"""Projections onto the sets of the dual problems and proximal operators of the primal problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import local
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from okl.compiled import projections as compiled
from okl.compiled.jit import as_compiled
from okl.compiled.threads import run_threads
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray
from okl.foundation.validation import check_choice, check_positive

# Arrays that a search uses again from call to call: touching fresh pages costs more than the search itself.

_MOST_BYTES = 2**26  # an array; what is larger is returned to the system


class _Workspace(local):
    """Arrays of this thread by name, grown as need be."""

    def __init__(self) -> None:
        self._doubles: dict[str, Doubles] = {}

    def doubles(self, name: str, size: int) -> Doubles:
        """Return an uninitialised array (size,), reused for every request of the same name."""
        doubles = self._doubles.get(name)
        if doubles is None or len(doubles) < size:
            doubles = np.empty(size)
            if doubles.nbytes <= _MOST_BYTES:
                self._doubles[name] = doubles
        return doubles[:size]


workspace = _Workspace()


# What a projection is given, checked and in the form that compiled code reads.

_ROUNDING = 1e-12  # of the sums: at nu_max the bounds of a class sum to 1/2 but for rounding


class Sums(NamedTuple):
    """Least and largest sums of the entries of either sign within their boxes, and their numbers."""

    plus: tuple[float, float]
    minus: tuple[float, float]
    n_plus: int
    n_minus: int


def check_point(out: FloatArray, point: FloatArray) -> FloatArray:
    """Return the point as compiled code reads it, or raise DataError unless it is a vector of floats that out takes."""
    point = np.asarray(point)
    if point.ndim != 1 or len(point) == 0 or point.dtype not in (np.float32, np.float64):
        raise DataError(
            f"A point to project must be a non-empty float32 or float64 vector, but has shape {point.shape} "
            f"and dtype {point.dtype}."
        )
    if out.shape != point.shape or out.dtype != point.dtype or not (out.flags.c_contiguous and out.flags.writeable):
        raise DataError(
            f"out must be contiguous and writable, with shape {point.shape} and dtype {point.dtype}, but has "
            f"shape {out.shape}, dtype {out.dtype}, contiguous: {out.flags.c_contiguous}, writable: "
            f"{out.flags.writeable}."
        )
    return as_compiled(point, point.dtype)


_NO_POINT = np.empty(0)


def checked_entries(signs: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[compiled.ProjectionEntries, Sums]:
    """Return entries in the format of compiled code, without a point, and the range of their sums.

    Only arrays of another type are copied; bounds that are all equal become one number.

    Raises DataError : signs are not -1 and +1, or the number of bounds is another one
    Raises ConfigError : a lower bound is above its upper bound or infinite, an upper one -infinite, or one is NaN
    """
    labels = _as_signs(np.asarray(signs))
    size = len(labels)
    n_plus, n_minus = int(np.count_nonzero(labels == 1)), int(np.count_nonzero(labels == -1))
    if n_plus + n_minus != size:
        bad = int(np.flatnonzero((labels != 1) & (labels != -1))[0])
        raise DataError(f"Signs must be -1 or +1, but the sign of entry {bad} is {np.asarray(signs)[bad]}.")
    lower, upper = _joined(lower, size), _joined(upper, size)
    is_one = np.ndim(lower) == np.ndim(upper) == 0
    lows, highs = (_as_bounds(b, name, 1 if is_one else size) for b, name in ((lower, "lower"), (upper, "upper")))
    wrong = np.flatnonzero(~((lows <= highs) & (lows < math.inf) & (highs > -math.inf)))
    if len(wrong):
        bad = wrong[0]
        whose = "" if is_one else f" of entry {bad}"
        raise ConfigError(
            f"lower = {lows[bad]:g} and upper = {highs[bad]:g}{whose} enclose no number. Give lower <= upper, without "
            "NaN, where only lower may be -inf and only upper inf."
        )
    if is_one:
        low, high = float(lows[0]), float(highs[0])
        plus, minus = ((count * low, count * high) if count else (0.0, 0.0) for count in (n_plus, n_minus))
        return compiled.ProjectionEntries(_NO_POINT, labels, low, high), Sums(plus, minus, n_plus, n_minus)
    plus, minus = ((float(lows[labels == k].sum()), float(highs[labels == k].sum())) for k in (1, -1))
    return compiled.ProjectionEntries(_NO_POINT, labels, lows, highs), Sums(plus, minus, n_plus, n_minus)


def check_signed_total(total: float, sums: Sums) -> None:
    """Raise ConfigError unless entries, each times its sign, can sum to the total, but for rounding."""
    least, most = sums.plus[0] - sums.minus[1], sums.plus[1] - sums.minus[0]
    # the sums of the two signs may all but cancel: what rounding does to their difference goes by them
    size = min(abs(sums.plus[0]) + abs(sums.minus[1]), abs(sums.plus[1]) + abs(sums.minus[0]))
    check_total(total, least, most, "the sum of signs times entries is", "total", size)


def check_total(total: float, least: float, most: float, whose: str, name: str, size: float | None = None) -> None:
    """Raise ConfigError, naming the bound in the way, unless entries can sum to the total, but for rounding.

    size : of the terms of the sums, where these are differences; None: of the sums themselves
    """
    if not math.isfinite(total):
        raise ConfigError(f"{name} = {total!r}; expected a finite number.")
    slack = _ROUNDING * (abs(total) + (min(abs(least), abs(most)) if size is None else size))
    if total < least - slack:
        raise ConfigError(
            f"{name} = {total:g} cannot be reached: {whose} at least {least:g}, from lower bounds of entries "
            f"of sign +1 and upper bounds of those of sign -1. Loosen these bounds or raise {name}."
        )
    if total > most + slack:
        raise ConfigError(
            f"{name} = {total:g} cannot be reached: {whose} at most {most:g}, from upper bounds of entries of "
            f"sign +1 and lower bounds of those of sign -1. Loosen these bounds or reduce {name}."
        )


def _as_signs(signs: NDArray[np.generic]) -> NDArray[np.int8]:
    if signs.dtype != np.int8:
        signs = (signs == 1).astype(np.int8) - (signs == -1).astype(np.int8)
    return as_compiled(signs, np.int8)


def _as_bounds(bound: ArrayLike, name: str, size: int) -> Doubles:
    values = np.asarray(bound, dtype=np.float64)
    if values.ndim and values.shape != (size,):
        raise DataError(
            f"{name} has shape {values.shape}, but the point has {size} entries. Give one number, or one for "
            "each entry."
        )
    return as_compiled(values if values.ndim else np.full(size, values), np.float64)


def soft_threshold(out: FloatArray, point: FloatArray, threshold: ArrayLike) -> None:
    """Overwrite out by sign(point) max(0, |point| - threshold).

    argmin_a sum_i threshold_i |a_i| + 1/2 ||a - point||^2

    out, point : (n,), float32 or float64, of one precision; out may be the point itself
    threshold : a number or (n,), at least 0. For a step of length 1/L it is 1/L times the weight of the norm: the paper
        prints L
    Raises ConfigError : a threshold is negative or NaN
    Raises DataError : shapes or precisions that do not fit

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, section 2.2 and appendix D, with 1/L.
    """
    point = check_point(out, point)
    thresholds = np.asarray(threshold, dtype=np.float64)
    if thresholds.ndim and thresholds.shape != point.shape:
        raise DataError(
            f"threshold has shape {thresholds.shape}, but the point has {len(point)} entries. Give one "
            "number, or one for each entry."
        )
    if not np.all(thresholds >= 0):
        raise ConfigError(f"threshold = {thresholds.min():g}; expected numbers of at least 0.")
    compiled.shrink(out, point, as_compiled(thresholds, np.float64) if thresholds.ndim else float(thresholds))


# Projection onto a ball, the dual set of MM-FDA and MM-MPM.


def project_ball(out: FloatArray, point: FloatArray, radius: float) -> float:
    """Overwrite out (n,) by the nearest point of the ball ||a||_2 <= radius: min(1, radius / ||point||) point.

    out, point : (n,), float32 or float64, of one precision; out may be the point itself; radius : above 0, finite
    Returns the factor, 1 where the point lies in the ball.
    Raises ConfigError : the radius is not above 0
    Raises DataError : shapes or precisions that do not fit, or a point that is not finite

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, section 4.1.4.
    """
    check_positive("radius", radius)
    point = check_point(out, point)
    largest = float(np.max(np.abs(point), initial=0.0))
    if not math.isfinite(largest):
        raise _not_finite(point)
    # in units of the largest entry: its square neither overflows nor vanishes
    units = math.sqrt(float(np.sum(np.square(point / largest, dtype=np.float64)))) if largest else 1.0
    factor = 1.0 if largest <= radius / units else radius / largest / units
    np.multiply(point, factor, out=out, casting="same_kind")
    return factor


def _not_finite(point: FloatArray) -> DataError:
    bad = np.flatnonzero(~np.isfinite(point))
    where = f"entry {bad[0]} is {point[bad[0]]}" if len(bad) else "the sum of its entries overflows"
    return DataError(
        f"A point to project must be finite, but {where}. The step before the projection diverged: reduce its length."
    )


# The window in which a multiplier lies, from a sample of the entries.

_DEVIATIONS = 3.0  # of the sample's sum: the window misses once in some 300 projections, and costs a pass then
_LEAST_SAMPLE = 64


@stored("projection-group")
class HyperplaneGroup(NamedTuple):
    """Entries that share a multiplier t: sum of clip(y_i a_i - t, low_i, high_i) over them = total.

    low_i and high_i are l_i and u_i for y_i = 1, -u_i and -l_i for y_i = -1.
    """

    sign: int  # of its entries, 0 for both
    size: int
    total: float
    guess: float  # of the multiplier


class Interval(NamedTuple):
    """An interval of multipliers; may reach to infinity."""

    start: float
    stop: float


_LINE = Interval(-math.inf, math.inf)


@lru_cache(maxsize=8)
def _sample_indices(size: int) -> NDArray[np.int32]:
    """Return one random entry from each of size^(2/3) chunks, which sorted and periodic data cannot harm."""
    # the sample costs its size, the window about size over its square root: their sum is least near this power
    n_stretches = int(size ** (2 / 3))
    edges = np.arange(n_stretches + 1) * size // n_stretches
    places = np.random.default_rng(size).random(n_stretches)
    return (edges[:-1] + places * np.diff(edges)).astype(np.int32)


class OtherEntries(NamedTuple):
    """A multiplier near the root, and the exact sum of the terms there, less the total."""

    t: float
    excess: float


class _Sample:
    """Random entries of a group in their one form, n of each. reads : of terms by searches for roots so far"""

    def __init__(self, entries: compiled.ProjectionEntries, sign: int) -> None:
        indices = _sample_indices(entries.point.shape[0])
        chosen = indices if sign == 0 else indices[entries.signs[indices] == sign]
        positive, a = entries.signs[chosen] > 0, entries.point[chosen].astype(np.float64)
        lower, upper = (
            bound[chosen] if isinstance(bound, np.ndarray) else np.full(len(chosen), bound)
            for bound in (entries.lower, entries.upper)
        )
        self.v, self.reads = np.where(positive, a, -a), 0
        self.low, self.high = np.where(positive, lower, -upper), np.where(positive, upper, -lower)
        self.lows, self.highs = float(self.low.sum()), float(self.high.sum())
        same_width = not (isinstance(entries.lower, np.ndarray) or isinstance(entries.upper, np.ndarray))
        self._bends = self._sorted(same_width) if len(chosen) and math.isfinite(self.highs - self.lows) else None

    def _sorted(self, same_width: bool) -> compiled.Breakpoints:
        """Sort all kinks; each root then takes two binary searches."""
        leaves = np.sort(self.v - self.high)
        arrives = leaves + (self.high[0] - self.low[0]) if same_width else np.sort(self.v - self.low)
        left, arrived = (np.concatenate([[0.0], np.cumsum(places)]) for places in (leaves, arrives))
        return compiled.Breakpoints(leaves, arrives, left, arrived, self.highs)

    def root(self, total: float, guess: float) -> float:
        if self._bends is not None:
            return float(compiled.root_of_breakpoints(self._bends, total))
        v, low, high = self.v.copy(), self.low.copy(), self.high.copy()
        t, _, _, visits = compiled.find_root(v, low, high, len(v), 0.0, 0, total, -math.inf, math.inf, guess)
        self.reads += visits
        return t

    def terms(self, t: float) -> Doubles:
        """Return the terms at a multiplier."""
        return np.clip(self.v - t, self.low, self.high)


def sampled_interval(
    entries: compiled.ProjectionEntries, group: HyperplaneGroup, others: OtherEntries | None = None
) -> tuple[Interval, float, int]:
    """Return an interval that probably contains the multiplier, an estimate of it, and the number of terms read.

    others : where the last interval ended without the root. What the sample is wrong by there, as it may miss an entry
        that outweighs all others, is taken off; what remains to be guessed is the change from there to the root
    """
    sample = _Sample(entries, group.sign)
    n = len(sample.v)
    if n < _LEAST_SAMPLE:
        return _LINE, group.guess, n
    total = group.total * n / group.size
    if others and math.isfinite(others.excess):
        total = float(sample.terms(others.t).sum()) - others.excess * n / group.size
    guess = sample.root(total, group.guess)
    terms = sample.terms(guess)
    if others:
        terms -= sample.terms(others.t)
    deviation = _DEVIATIONS * math.sqrt(n) * float(np.std(terms))
    many = isinstance(entries.upper, np.ndarray)
    width = float(np.median(sample.high - sample.low)) if many else float(sample.high[0] - sample.low[0])
    if math.isfinite(width):
        # where all terms are constant the deviation has no information: a few may be anywhere in their box
        deviation += _DEVIATIONS * width
    # where the sample's sum is within a deviation of the total
    start = sample.root(total + deviation, guess) if total + deviation < sample.highs else -math.inf
    stop = sample.root(total - deviation, guess) if total - deviation > sample.lows else math.inf
    return Interval(start, stop), guess, sample.reads + n


# The multiplier of a hyperplane over a box, in two passes over the data: one to narrow down, one to write.
#
# A sample gives a window for the multiplier, with an error that depends on ranks only, so that no
# distribution of the entries is hard. A pass sums what does not bend inside the window and gathers the few per cent
# that do; Newton's method finds the root among these, exactly; a pass writes the projection. If the root is outside
# the window, which the sums show, they also show by how much the sample was wrong, and the first pass is repeated
# over a corrected window; if that misses, too, over all that is left.
#
# Source: the root of Ito, Takeda & Toh, JMLR 18(16), 2017, Lemma 2, for y-weighted sums; narrowing down by a sample
# as in Floyd & Rivest, CACM 18(3), 1975.

_LEAST_ENTRIES = 16384  # fewer fit into the first cache levels: Newton's method takes all of them
_ATTEMPTS = 3  # a sampled interval, another that knows by how much the first was wrong, all that is left
_BLOCKS_PER_THREAD = 24  # 400,000 entries: for less, starting a thread takes longer than it saves


@dataclass
class _Search:
    """Search for the multiplier of a group.

    guess : at the multiplier; the multiplier once it is found
    bracket : holds the multiplier; interval : the part of it to search
    beside : the end of the last interval on the side of the multiplier
    """

    group: HyperplaneGroup
    guess: float
    bracket: Interval = _LINE
    interval: Interval = _LINE
    beside: OtherEntries | None = None
    found: bool = False

    def narrow(self, entries: compiled.ProjectionEntries, last: bool) -> int:
        """Choose the next interval; return the number of terms read."""
        self.interval, read = self.bracket, 0
        if not last and entries.point.shape[0] > _LEAST_ENTRIES:
            sampled, self.guess, read = sampled_interval(entries, self.group, self.beside)
            start, stop = max(self.bracket.start, sampled.start), min(self.bracket.stop, sampled.stop)
            self.interval = Interval(start, stop) if start < stop else self.bracket
        return read

    def seek(self, gathered: compiled.BlockSums) -> int:
        """Run Newton's method on the gathered entries; return the number of terms read."""
        group, (start, stop) = self.group, self.interval
        size = int(gathered.counts.sum())
        v, low, high = (workspace.doubles(name, size) for name in ("v", "low", "high"))
        size = compiled.join(v, low, high, gathered, group.sign)
        plus, minus, plus_falling, minus_falling = gathered.sums.sum(axis=0).tolist()
        constant = (plus if group.sign >= 0 else 0.0) + (minus if group.sign <= 0 else 0.0)
        falling = (plus_falling if group.sign >= 0 else 0.0) + (minus_falling if group.sign <= 0 else 0.0)
        root, where, excess, visits = compiled.find_root(
            v, low, high, size, constant, int(falling), group.total, start, stop, self.guess
        )
        if where == compiled.FOUND:
            # nothing bends inside this interval: another pass for the other group gathers none of this one
            self.interval, self.guess, self.found = Interval(root, root), root, True
        else:
            self.bracket = (
                Interval(stop, self.bracket.stop) if where == compiled.ABOVE else Interval(self.bracket.start, start)
            )
            self.beside = OtherEntries(root, excess)
        return visits + size


def find_multipliers(
    entries: compiled.ProjectionEntries, groups: tuple[HyperplaneGroup, ...], n_threads: int = 1
) -> tuple[tuple[float, ...], float]:
    """Find the multiplier of each group: of one group of both signs, or of one of sign +1 and one of sign -1.

    Also return entries read and written over the number of entries. Where rounding alone keeps a sum from its total,
    the multiplier is the one that comes nearest.

    Raises DataError : an entry is NaN, or infinite where its box is
    """
    size, visits = entries.point.shape[0], 0
    searches = [_Search(group, group.guess) for group in groups]
    # three times at most: the last intervals reach to infinity
    for attempt in range(_ATTEMPTS):
        visits += sum(search.narrow(entries, attempt == _ATTEMPTS - 1) for search in searches if not search.found)
        plus, minus = searches[0].interval, searches[-1].interval
        gathered = _gather(entries, compiled.Windows(plus.start, plus.stop, minus.start, minus.stop), n_threads)
        visits += size + sum(search.seek(gathered) for search in searches if not search.found)
        if all(search.found for search in searches):
            break
    roots = tuple(search.guess for search in searches)
    if not all(math.isfinite(root) for root in roots):
        raise _not_finite(entries.point)
    return roots, (visits + size) / size  # written once


def write_clipped(
    out: FloatArray, entries: compiled.ProjectionEntries, plus: float, minus: float, n_threads: int = 1
) -> None:
    """Overwrite out (m,), which may be the point, by clip(a_i - t, l_i, u_i), t = plus or minus by the sign."""
    _over_blocks(len(out), n_threads, lambda first, last: compiled.clip_blocks(out, entries, plus, minus, first, last))


def _over_blocks(size: int, n_threads: int, work: Callable[[int, int], None]) -> None:
    """Call work on ranges of blocks, one for each thread."""
    n_blocks = -(-size // compiled.BLOCK)
    n_threads = max(1, min(n_threads, n_blocks // _BLOCKS_PER_THREAD))
    edges = [n_blocks * thread // n_threads for thread in range(n_threads + 1)]
    run_threads(n_threads, lambda thread: work(edges[thread], edges[thread + 1]))


def _gather(entries: compiled.ProjectionEntries, windows: compiled.Windows, n_threads: int) -> compiled.BlockSums:
    """Run one pass over all entries."""
    size = entries.point.shape[0]
    n_blocks = -(-size // compiled.BLOCK)
    v, low, high = (workspace.doubles(f"gathered {name}", n_blocks * compiled.BLOCK) for name in ("v", "low", "high"))
    gathered = compiled.BlockSums(np.empty((n_blocks, 4)), np.empty((n_blocks, 2), dtype=np.int64), v, low, high)

    def work(first: int, last: int) -> None:
        flags, indices = np.empty(compiled.BLOCK, dtype=np.uint8), np.empty(compiled.BLOCK + 1, dtype=np.int32)
        compiled.sum_blocks(gathered, flags, indices, entries, windows, first, last)

    _over_blocks(size, n_threads, work)
    return gathered


# Boxes cut by hyperplanes, checked once for many projections, as a method projects onto one set in every iteration.


class Projected(NamedTuple):
    """The multipliers of the two classes, and entries read and written over the number of entries.

    With one hyperplane the multiplier of -1 is minus that of +1.
    """

    plus_theta: float
    minus_theta: float
    passes: float


@stored("prepared-projection")
@dataclass(frozen=True, eq=False)
class PreparedSet:
    """A box cut by one hyperplane, or by one for the entries of each sign.

    a_i = clip(point_i - theta, lower_i, upper_i), theta by the sign; with one hyperplane that of -1 is minus that of +1

    entries : signs and bounds as compiled code reads them; the point is that of each projection
    groups : entries that share a multiplier: all, or those of sign +1 and those of sign -1
    """

    entries: compiled.ProjectionEntries
    groups: tuple[HyperplaneGroup, ...]

    def project(
        self, out: FloatArray, point: FloatArray, guesses: tuple[float, float] = (0.0, 0.0), n_threads: int = 1
    ) -> Projected:
        """Overwrite out (m,), which may be the point (m,), by the nearest point of the set; or raise DataError."""
        point = check_point(out, point)
        if len(self.entries.signs) != len(point):
            raise DataError(
                f"Signs have shape {self.entries.signs.shape}, but the point has {len(point)} entries. Give one sign "
                "for each entry."
            )
        multiplier = self.multipliers(point, guesses, n_threads)
        write_clipped(out, self.entries._replace(point=point), multiplier.plus_theta, multiplier.minus_theta, n_threads)
        return multiplier

    def multipliers(
        self, point: FloatArray, guesses: tuple[float, float] = (0.0, 0.0), n_threads: int = 1
    ) -> Projected:
        """Return the multipliers of a point in the format of compiled code; passes include the writing pass.

        guesses : from where a few steps of Newton's method are tried first, unless both are 0
        """
        entries = self.entries._replace(point=point)
        if any(guesses):
            improved = self._improved(entries, guesses)
            if improved is not None:
                return improved
        signed = (guesses[0], -guesses[1])
        groups = tuple(group._replace(guess=guess) for group, guess in zip(self.groups, signed, strict=False))
        values, passes = find_multipliers(entries, groups, n_threads)
        return Projected(values[0], -values[-1], passes)

    def _improved(self, entries: compiled.ProjectionEntries, guesses: tuple[float, float]) -> Projected | None:
        first, last = self.groups[0], self.groups[-1]
        if len(self.groups) == 1:
            theta, passes, multiplier = compiled.improve_multiplier(entries, first.total, guesses[0])
            return Projected(theta, -theta, passes + 1.0) if multiplier else None
        plus, minus, passes, multiplier = compiled.improve_multipliers(entries, first.total, -last.total, *guesses)
        return Projected(plus, minus, passes + 1.0) if multiplier else None


def hyperplane_set(signs: ArrayLike, lower: ArrayLike, upper: ArrayLike, total: float) -> PreparedSet:
    """Prepare the box lower_i <= a_i <= upper_i on the hyperplane sum_i y_i a_i = total.

    argmin ||a - point||^2 over the set is a_i = clip(point_i - theta y_i, lower_i, upper_i), with one multiplier theta.

    signs : y (m,), -1 or +1; those that come as int8 need no copy
    lower, upper : numbers or (m,), those that come as float64 need no copy; may be infinite on their own side
    Raises ConfigError : the set is empty
    Raises DataError : shapes or signs that do not fit

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, (18) and (20), without the change of variable, which an infinite
    bound breaks.
    """
    entries, sums = checked_entries(signs, lower, upper)
    check_signed_total(total, sums)
    return PreparedSet(entries, (HyperplaneGroup(0, len(entries.signs), total, 0.0),))


def pair_set(
    signs: ArrayLike, lower: ArrayLike, upper: ArrayLike, plus_total: float, minus_total: float
) -> PreparedSet:
    """Prepare the set of `project_capped_simplex_pair`, with the same errors."""
    entries, sums = checked_entries(signs, lower, upper)
    check_total(plus_total, *sums.plus, "entries with sign +1 sum to", "plus_total")
    check_total(minus_total, *sums.minus, "entries with sign -1 sum to", "minus_total")
    groups = (HyperplaneGroup(1, sums.n_plus, plus_total, 0.0), HyperplaneGroup(-1, sums.n_minus, -minus_total, 0.0))
    return PreparedSet(entries, groups)


def _joined(bound: ArrayLike, size: int) -> ArrayLike:
    """Return a single number if all bounds are equal, otherwise the bounds."""
    values = np.asarray(bound)
    return float(values[0]) if values.shape == (size,) and size and (values == values[0]).all() else values


# Projections onto boxes cut by hyperplanes: the dual sets of C-SVM, l2-SVM, logistic regression, DWD and nu-SVM.


def project_capped_simplex_pair(
    out: FloatArray,
    point: FloatArray,
    signs: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    plus_total: float = 0.5,
    minus_total: float = 0.5,
    thetas: tuple[float, float] = (0.0, 0.0),
    n_threads: int = 1,
) -> Projected:
    """Overwrite out by the nearest point of a box whose entries of each sign have a given sum.

    argmin ||a - point||^2 subject to sum_(y_i = 1) a_i = plus_total, sum_(y_i = -1) a_i = minus_total,
    lower_i <= a_i <= upper_i; a_i = clip(point_i - theta, lower_i, upper_i) with the theta of its class

    plus_total, minus_total : sums over the signs +1 and -1; both 1/2 for nu-SVM
    thetas : guesses at the two multipliers
    out, point : (m,), float32 or float64, of one precision; out may be the point itself
    signs, lower, upper : as of `hyperplane_set`; n_threads : any number gives the same bits
    Raises ConfigError : the set is empty; for nu-SVM that means nu above nu_max = 2 min(m_plus, m_minus) / m
    Raises DataError : shapes, precisions or signs that do not fit, or a point with NaN
    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, (21) and (22).
    """
    return pair_set(signs, lower, upper, plus_total, minus_total).project(out, point, thetas, n_threads)


# The paper's searches for the multiplier, and the one it compares with: the same projections, other ways.
#
# They take two numbers as bounds, and reach y-weighted sums by the paper's change of variable, b_i = -a_i + lower +
# upper where y_i = -1, which takes finite bounds.

Rival = Literal["bisection", "refined-bisection", "breakpoints"]
RIVALS: tuple[Rival, ...] = ("bisection", "refined-bisection", "breakpoints")


def project_box_hyperplane_by(
    rival: Rival, out: FloatArray, point: FloatArray, signs: ArrayLike, lower: float, upper: float, total: float = 0.0
) -> Projected:
    """Overwrite out by the nearest point of a box on a hyperplane, as `hyperplane_set` does, by another search.

    rival : "bisection" (Algorithm 2), "refined-bisection" (Algorithm 5) or "breakpoints" (Kiwiel's)
    out, point : (m,); signs, total : as of `hyperplane_set`; bounds are finite where there is a sign of -1
    Returns Projected with the multiplier and the number of iterations, each of which goes over what is left of the
        data.
    Raises ConfigError : the set is empty, or a bound is infinite where the change of variable needs it
    Raises DataError : shapes, precisions or signs that do not fit

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, Algorithms 2 and 5, section 4.1.2; Kiwiel, Mathematical Programming
    112, 2008, Algorithm 3.1.
    """
    check_choice("rival", rival, RIVALS)
    point = check_point(out, point)
    entries, sums = checked_entries(signs, float(lower), float(upper))
    check_signed_total(total, sums)
    moved, target = point, total
    if sums.n_minus:
        if not math.isfinite(lower + upper):
            raise ConfigError(
                f"lower = {lower:g} and upper = {upper:g}, but {rival} requires finite bounds where a sign is -1. "
                "Use hyperplane_set."
            )
        moved = np.where(entries.signs > 0, point.astype(np.float64), lower + upper - point.astype(np.float64))
        target = total + (lower + upper) * sums.n_minus
    active = workspace.doubles("kept", len(point))
    active[:] = moved
    bounds = (float(lower), float(upper), target)
    if rival == "breakpoints":
        root, iterations = compiled.search_breakpoints(active, workspace.doubles("bends", 2 * len(point)), *bounds)
    else:
        least, most = float(active.min()), float(active.max())
        root, iterations = compiled.bisect(active, least, most, *bounds, rival == "refined-bisection")
    write_clipped(out, entries._replace(point=point), root, -root)
    return Projected(root, -root, iterations)
