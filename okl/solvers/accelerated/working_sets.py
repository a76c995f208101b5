"""Working sets for exact kernels: c-svm, nu-svm and l2-svm, with the same certificate as the accelerated method.

A round takes the dual entries that violate the optimality conditions most, and minimises the dual problem over them by
pairs, which needs their kernel values alone; then it updates all slopes by their kernel rows. Rows are kept within the
memory budget of the kernel, and computed again where they are not; the kernel matrix is never needed at once.

Source: Joachims, Making large-scale SVM learning practical, 1998; Fan, Chen & Lin, JMLR 6, 2005, for the pairs; Wen,
Shi, Li, He & Chen, JMLR 19(21), 2018, for large working sets, half of which stays from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from okl.compiled.descent import descend_pairs
from okl.foundation.class_tags import stored
from okl.foundation.types import Doubles, FloatArray, IntArray
from okl.solvers.accelerated import certified_steps
from okl.solvers.accelerated import problem as parts
from okl.solvers.accelerated.base import CompositeProblem, Iterate, Solution, check_start
from okl.solvers.accelerated.dual import DualProblem
from okl.solvers.accelerated.operators import KernelRows, TiledKernel


@dataclass(frozen=True, eq=False)
class _Entries:
    """Numbers of the dual entries, (m,) each: 1/2 ||A a||^2 + sum_i curvature_i a_i^2 / 2 + linear_i a_i over a box.

    normals : -1 or +1; groups : of entries whose sum, times their normals, is fixed; n_groups : 0 for none
    """

    lower: FloatArray
    upper: FloatArray
    normals: FloatArray
    groups: IntArray
    n_groups: int
    curvatures: FloatArray
    linear: FloatArray

    def of(self, some: IntArray) -> _Entries:
        """Return the numbers of some entries."""
        arrays = (self.lower[some], self.upper[some], self.normals[some], self.groups[some])
        return _Entries(*arrays, self.n_groups, self.curvatures[some], self.linear[some])

    @property
    def unsigned(self) -> _Entries:
        """Return the numbers of the entries times their normals."""
        ends = np.sort(np.stack([self.normals * self.lower, self.normals * self.upper]), axis=0)
        return replace(self, lower=ends[0], upper=ends[1], normals=np.ones(len(self.normals)))

    def rooms(self, point: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which entries, times their normals, may rise, and which may fall."""
        rises, falls = point < self.upper, point > self.lower
        forward = self.normals > 0.0
        return np.where(forward, rises, falls), np.where(forward, falls, rises)


def _entries_of(problem: DualProblem) -> _Entries:
    region: Any = problem.region
    m, separable = problem.n_points, problem.separable
    lower, upper = (parts.filled(bound, m) for bound in (region.lower, region.upper))
    if isinstance(separable, parts.Quadratic):
        curvatures, linear = separable.curvatures, -parts.filled(separable.targets, m)
    else:
        assert isinstance(separable, parts.LinearTerm), "the problem was checked"
        curvatures, linear = np.zeros(m), np.full(m, separable.slope)
    normals, groups, n_groups = np.ones(m), np.zeros(m, dtype=np.int64), 0
    if isinstance(region, parts.BoxHyperplane):
        normals, n_groups = np.array(region.signs, dtype=np.float64), 1
    elif isinstance(region, parts.SimplexPair):
        groups, n_groups = (region.signs < 0.0).astype(np.int64), 2
    return _Entries(lower, upper, normals, groups, n_groups, curvatures, linear)


def is_supported(problem: CompositeProblem) -> bool:
    """Return whether working sets solve a problem: an exact kernel, and dual entries in a box."""
    return (
        type(problem) is DualProblem
        and isinstance(problem.rows, TiledKernel)
        and problem.rows.tiles.kernel.rule is not None
        and isinstance(problem.outer, parts.HalfSquare)
        and isinstance(problem.region, parts.BoxRegion | parts.BoxHyperplane | parts.SimplexPair)
        and isinstance(problem.separable, parts.LinearTerm | parts.Quadratic)
    )


@dataclass(frozen=True, eq=False)
class KernelProblem:
    """A problem with kernel rows, which problems of one kernel share, and the first point in its set."""

    problem: DualProblem
    entries: _Entries
    rows: KernelRows
    start: FloatArray

    @property
    def signs(self) -> FloatArray:
        return self.problem.rows.signs

    def apply(self, point: FloatArray) -> Doubles:
        image = np.zeros(len(point))
        support = np.flatnonzero(point)
        self.rows.add(image, support, self.signs[support] * point[support])
        image *= self.signs
        return image


@stored("working-set-state")
@dataclass(frozen=True, eq=False)
class WorkingSetState(certified_steps.CertifiedState):
    """current : the point and its image; working : entries of the last round.

    Residuals of records are violations of the optimality conditions, reads are by the kernel rows that rounds took.
    """

    current: Iterate
    working: IntArray
    best: Iterate


# entries of a working set: at least, at most, and for each entry inside its bounds; the worst of all are a share
_SIZE, _MOST, _OF_INSIDE, _NEW = 256, 2048, 1.5, 0.5
_SHARE, _OF_ROUND = 0.3, 0.1  # of the violation: left until the next check; left by a round
_ROUNDS_A_CHECK, _STEPS = 100, 2  # at most; pairs between two Newton steps, for each entry of a working set
_MOST_SOLVES, _MOST_BOUNDS, _ADDED = 40, 8, 1e-10  # of a round; entries that reach bounds in one; of the diagonal
_SHORT = 0.1  # of a Newton step


@dataclass(frozen=True)
class WorkingSets(certified_steps.CertifiedSteps):
    """Rounds of steps along pairs in working sets; max_iterations counts rounds."""

    max_iterations: int = 20_000

    STEPS: ClassVar[str] = "rounds of working sets"
    REASON: ClassVar[str] = "the kernel values are rounded"

    def opened(self, problem: DualProblem, point: FloatArray | None = None) -> KernelProblem:
        """Return what the other methods take. Raises DataError (the point has another length, or is not finite)."""
        rows: Any = problem.rows
        entries = _entries_of(problem)
        first = _first_point(problem, entries)
        if point is not None:
            check_start(point, len(first))
            problem.region.prox(first, np.array(point, dtype=np.float64), 1.0)
        return KernelProblem(problem, entries, rows.tiles.row_cache, first)

    def start(self, problem: KernelProblem, point: FloatArray | None = None) -> WorkingSetState:
        first = Iterate(problem.start, problem.apply(problem.start))
        return _checked(problem, first, np.empty(0, dtype=np.int64), None, 0, int(np.count_nonzero(problem.start)))

    def advance(self, state: WorkingSetState, problem: KernelProblem) -> WorkingSetState:
        entries, signs = problem.entries, problem.signs
        point, image, working = state.current.point.copy(), state.current.image.copy(), state.working
        enough = _SHARE * state.history[-1].residual
        done, n_rows, room = 0, 0, np.empty(0)
        most = min(_ROUNDS_A_CHECK, max(1, self.max_iterations - state.history[-1].iteration))
        while done < most:
            slopes = image + entries.curvatures * point + entries.linear
            left = _violation(entries, point, slopes)
            if done and left <= enough:
                break
            working = _working_set(entries, point, slopes, working)
            # entries times their normals, group by group: sums of groups have no signs
            order = working[np.argsort(entries.groups[working], kind="stable")]
            normals, n = entries.normals[order], len(order)
            room = room if len(room) >= n * n else np.empty(n * n)
            products = room[: n * n].reshape(n, n)
            problem.rows.block(products, order)
            factors = signs[order] * normals
            if np.any(factors < 0.0):
                products *= factors
                products *= factors[:, np.newaxis]
            np.einsum("ii->i", products)[:] += entries.curvatures[order]
            among = entries.of(order).unsigned
            moved = point.copy()
            moved[order] = normals * minimised_among(
                among, normals * point[order], normals * slopes[order], products, _OF_ROUND * left
            )
            change = signs[working] * (moved - point)[working]
            if not change.any():
                break
            changed = np.flatnonzero(change)
            done, n_rows = done + 1, n_rows + len(changed)
            added = np.zeros(len(point))
            problem.rows.add(added, working[changed], change[changed])
            image += signs * added
            point = moved
        return _checked(problem, Iterate(point, image), working, state, done, n_rows, self.tolerance)

    def solution(self, state: WorkingSetState, problem: Any) -> Solution:
        of: DualProblem = problem.problem if isinstance(problem, KernelProblem) else problem
        return of.solution(state.best.point, state.best.image, state.best_record.certificate)

    def _is_finite(self, state: WorkingSetState) -> bool:
        return True  # where the gap is


def _first_point(problem: DualProblem, entries: _Entries) -> FloatArray:
    """Return the problem's first point, or one of fewer entries where the sums of groups are not 0."""
    region: Any = problem.region
    first = problem.start()
    if not isinstance(region, parts.BoxSet) or not np.any(region.totals) or np.any(entries.lower):
        return first
    for group, total in enumerate(region.totals):
        members = np.flatnonzero(entries.groups == group)
        before = np.cumsum(entries.upper[members]) - entries.upper[members]
        first[members] = np.clip(total - before, 0.0, entries.upper[members])
    return first


def _checked(
    problem: KernelProblem,
    at: Iterate,
    working: IntArray,
    before: WorkingSetState | None,
    rounds: int,
    n_rows: int,
    tolerance: float = 0.0,
) -> WorkingSetState:
    """Return the state at a point; the image of one within the tolerance is computed again, without its rounding."""
    entries = problem.entries
    certificate = problem.problem.certificate(at.point, at.image, at.image)
    if certificate.relative_gap <= tolerance:
        at = replace(at, image=problem.apply(at.point))
        n_rows += int(np.count_nonzero(at.point))
        certificate = problem.problem.certificate(at.point, at.image, at.image)
    slopes = at.image + entries.curvatures * at.point + entries.linear
    history = () if before is None else before.history
    record = certified_steps.NewtonRecord(
        iteration=rounds + (history[-1].iteration if history else 0),
        objective=-certificate.dual,
        certificate=certificate,
        residual=_violation(entries, at.point, slopes),
        reads=-(-n_rows // len(at.point)) + (history[-1].reads if history else 0),
        free=int(np.count_nonzero((at.point > entries.lower) & (at.point < entries.upper))),
    )
    best_record, history, better = certified_steps.compared(record, before)
    return WorkingSetState(best_record, history, at, working, at if before is None or better else before.best)


def _violation(entries: _Entries, point: FloatArray, slopes: FloatArray) -> float:
    """Return the largest violation: a slope, or a difference of two slopes of a group."""
    gains = -entries.normals * slopes
    rises, falls = entries.rooms(point)
    if entries.n_groups == 0:
        return float(max(gains[rises].max(initial=0.0), -gains[falls].min(initial=0.0)))
    worst = 0.0
    for group in range(entries.n_groups):
        members = entries.groups == group
        up, down = gains[rises & members], gains[falls & members]
        if len(up) and len(down):
            worst = max(worst, float(up.max() - down.min()))
    return worst


def minimised_among(
    entries: _Entries, point: FloatArray, slopes: FloatArray, products: FloatArray, tolerance: float
) -> FloatArray:
    """Return the entries (n,) that minimise 1/2 a'Qa + c'a with the sums of a point, to a violation.

    Steps along pairs find which entries are at bounds, and are slow where many are not: Newton steps move those.

    entries : of groups that follow each other, and normals of 1; point : changed in place
    slopes : Q a + c at the point, (n,); products : Q (n, n), symmetric
    """
    at, most = slopes.copy(), _STEPS * len(point)
    starts = np.searchsorted(entries.groups, np.arange(entries.n_groups + 1))
    starts = starts if entries.n_groups else starts[:1]
    for _ in range(_MOST_SOLVES):
        if descend_pairs(point, at, products, starts, entries.lower, entries.upper, tolerance, most) < most:
            break
        for _ in range(_MOST_BOUNDS):
            inside = np.flatnonzero((point > entries.lower) & (point < entries.upper))
            if len(inside) < 2:
                break
            step = _newton_step(entries.of(inside), at[inside], products[np.ix_(inside, inside)])
            low, high = entries.lower[inside] - point[inside], entries.upper[inside] - point[inside]
            with np.errstate(divide="ignore", invalid="ignore"):
                rooms = np.where(step > 0.0, high / step, np.where(step < 0.0, low / step, np.inf))
            length = min(1.0, float(rooms.min()))
            after = np.clip(point[inside] + length * step, entries.lower[inside], entries.upper[inside])
            reached = rooms <= length
            after[reached] = np.where(step > 0.0, entries.upper[inside], entries.lower[inside])[reached]
            at += products[:, inside] @ (after - point[inside])
            point[inside] = after
            if length == 1.0:
                break
            if length < _SHORT:  # far from the optimum pairs are cheaper
                most *= 2
                break
    return point


def _newton_step(entries: _Entries, slopes: FloatArray, products: FloatArray) -> FloatArray:
    """Return the step (n,) to the least of the quadratic that keeps the sums of groups; products change."""
    np.einsum("ii->i", products)[:] *= 1.0 + _ADDED
    normals = [entries.normals * (entries.groups == group) for group in range(entries.n_groups)]
    normals = [one for one in normals if one.any()]
    solved = certified_steps.positive_solution(products, np.column_stack([-slopes, *normals]))
    step: FloatArray = solved[:, 0]
    if normals:
        sums = np.stack(normals)
        step = step - solved[:, 1:] @ np.linalg.solve(sums @ solved[:, 1:], sums @ step)
    return step


def _working_set(entries: _Entries, point: FloatArray, slopes: FloatArray, before: IntArray) -> IntArray:
    """Return entries, ascending: those that gain most by a rise or a fall in each group, and some of the last ones."""
    m, gains = len(point), -entries.normals * slopes
    n_inside = int(np.count_nonzero((point > entries.lower) & (point < entries.upper)))
    size_of_set = int(min(max(_SIZE, _OF_INSIDE * n_inside), _MOST))
    if m <= size_of_set:
        return np.arange(m)
    rises, falls = entries.rooms(point)
    n_sides = 2 * max(entries.n_groups, 1)
    chosen = np.zeros(m, dtype=np.bool_)
    for group in range(max(entries.n_groups, 1)):
        members = entries.groups == group
        least, most = gains[falls & members].min(initial=np.inf), gains[rises & members].max(initial=-np.inf)
        if entries.n_groups == 0:
            least = most = 0.0
        for some, order in ((rises & members & (gains > least), -gains), (falls & members & (gains < most), gains)):
            candidates = np.flatnonzero(some)
            size = min(int(_NEW * size_of_set) // n_sides, len(candidates))
            # ties go to the first rows: the same bits everywhere
            chosen[candidates[np.argsort(order[candidates], kind="stable")[:size]]] = True
    rest = before[~chosen[before]]
    inside = (point[rest] > entries.lower[rest]) & (point[rest] < entries.upper[rest])
    kept = np.concatenate([rest[inside], rest[~inside]])[: size_of_set - int(np.count_nonzero(chosen))]
    chosen[kept] = True
    return np.flatnonzero(chosen)
