"""Kernel learners with a budget of support vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from okl.compiled import budget as compiled
from okl.compiled.jit import aligned_empty
from okl.compiled.kernels import KernelRule, kernel_block
from okl.compiled.products import panels_of
from okl.compiled.sgd import HINGE, MULTICLASS_HINGE, THRESHOLDED_HALF_SQUARED
from okl.compiled.threads import MOST_ROWS
from okl.data.execution import Rows
from okl.features.predictors import CHUNK, KernelExpansion, kernel_sums, pack_chunk
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.types import Doubles, FloatArray, Integers, Precision, Task
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.kernels import Kernel
from okl.solvers.online.base import (
    Progress,
    checked_rows,
    progress_arrays,
    progress_from,
    shares_of_rows,
    start_progress,
)

Change = Callable[[compiled.SupportArrays, compiled.BudgetRule, Any], None]
"""A compiled function that changes the arrays in place by the rule and the strategy's numbers."""
Numbers = TypeVar("Numbers", bound=tuple[Any, ...])


@dataclass(frozen=True)
class Strategy:
    """Base of all strategies: numbers as fields, and the compiled functions that use them.

    A strategy is a subclass with numbers as fields, and in okl/compiled a named tuple of numbers with its step.

    name : as tables and options have it; tasks : that it is defined for; positive : fields that must be above 0
    compiled : the named tuple, whose names are fields
    size_free : whether no step size is chosen on a sample of classes: decisions are the same, or rest on steps of 1
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "regression")
    positive: ClassVar[tuple[str, ...]] = ()
    compiled: ClassVar[type[tuple[Any, ...]]]
    size_free: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in self.positive:
            check_positive(name, getattr(self, name))

    @property
    def numbers(self) -> tuple[Any, ...]:
        """Return the numbers of the compiled step: the fields of their names, unless overridden."""
        names: tuple[str, ...] = vars(self.compiled)["_fields"]
        return self.compiled(*(getattr(self, name) for name in names))

    def own_floats(self, task: Task, epsilon: float) -> tuple[float, ...]:
        """Return the first values of floats from FIRST_FLOAT on, such as NORMA's margin; none unless overridden."""
        return ()


@dataclass(frozen=True)
class BudgetStrategy(Strategy):
    """Base of strategies with a budget.

    reduced : brings supports down to the budget
    recalled : computes memory from the supports of several shards that were joined; None for nothing to compute
    buffers, keeps_matrix : memory has so many rows, and as many more as columns if it keeps a matrix of the supports
    keeps_root : whether the matrix is a root of the inverse kernel matrix
    spare_slots : columns that it needs beyond the budget
    count_rows : so many first rows of memory count the rows that each support stands for; joined shards keep them
    """

    reduced: ClassVar[Change]
    recalled: ClassVar[Change | None] = None
    buffers: ClassVar[int] = 0
    keeps_matrix: ClassVar[bool] = False
    keeps_root: ClassVar[bool] = False
    spare_slots: ClassVar[int] = 0
    count_rows: ClassVar[int] = 0

    def check_kernel(self, kernel: KernelRule) -> None:
        """Raise ConfigError for a kernel that the strategy cannot take; none unless overridden."""

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        """Return the shape of memory, whose columns, and perhaps rows, are those of supports."""
        n_rows = self.buffers + (capacity if self.keeps_matrix else 0)
        return (n_rows, capacity if n_rows else 0)

    def learn(
        self, supports: compiled.SupportArrays, inputs: FloatArray, targets: Doubles, rule: compiled.BudgetRule
    ) -> None:
        """Learn rows in their order; modify `supports` in place. Added strategies have a compiled loop of their own."""
        compiled.learn_rows(supports, inputs, targets, rule, doubles(self.numbers))

    def remember(self, supports: compiled.SupportArrays, rule: compiled.BudgetRule) -> None:
        """Compute memory from the supports of several shards that were joined; modify `supports` in place."""
        if (recalled := type(self).recalled) is not None:
            recalled(supports, rule, doubles(self.numbers))


def doubles(numbers: Numbers) -> Numbers:
    """Return the numbers as float64 each: numba would compile again for whole ones."""
    kind: Any = type(numbers)
    converted: Numbers = kind(*(float(number) for number in numbers))
    return converted


# State: support vectors, coefficients and error counters.


@stored("budget-state")
@dataclass(frozen=True, eq=False)
class BudgetState:
    """A value that no method writes into; the arrays are those of okl.compiled.budget.SupportArrays.

    supports : (n_inputs, capacity), one column a support, zeros beyond n_supports
    coefficients : (n_outputs, capacity), before the scale
    marks : (2, capacity) int64, label and number of each support
    memory : float64, a matrix of the strategy's own; integers, floats : counters, scale and the strategy's own numbers
    progress : how the predictions did
    """

    supports: FloatArray
    coefficients: FloatArray
    marks: Integers
    memory: Doubles
    integers: Integers
    floats: Doubles
    progress: Progress

    @property
    def n_supports(self) -> int:
        return int(self.integers[compiled.COUNT])

    @property
    def scaled_coefficients(self) -> FloatArray:
        """Return coefficients of the supports in use, (n_outputs, n_supports), float64: f = sum_s a_s k(s, x)."""
        scaled: FloatArray = self.floats[compiled.SCALE] * self.coefficients[:, : self.n_supports].astype(np.float64)
        return scaled

    @property
    def rows(self) -> FloatArray:
        """Return the supports in use as rows, (n_supports, n_inputs), C-contiguous."""
        return np.ascontiguousarray(self.supports[:, : self.n_supports].T)


def support_arrays(state: BudgetState) -> compiled.SupportArrays:
    """Return copies of everything that learning writes into, and buffers."""
    n_inputs, capacity = state.supports.shape
    precision = state.supports.dtype
    counts, sums, class_counts = progress_arrays(state.progress)
    return compiled.SupportArrays(
        supports=_copy(state.supports),
        coefficients=_copy(state.coefficients),
        marks=state.marks.copy(),
        memory=state.memory.copy(),
        integers=state.integers.copy(),
        floats=state.floats.copy(),
        counts=counts,
        sums=sums,
        class_counts=class_counts,
        row=_zeros((1, capacity), precision)[0],
        spare=_zeros((1, capacity), precision)[0],
        column=_zeros((1, n_inputs), precision)[0],
        scores=np.zeros(len(state.coefficients), dtype=precision),
    )


def invert_to_root(matrix: Doubles) -> None:
    """Replace an inverse kernel matrix, which states of earlier versions hold, by its root; a root is left alone.

    matrix : (>= n, n), of which the first n rows change in place. A root is triangular, or a reflection of that, and
        so is symmetric only where both are diagonal
    """
    n = matrix.shape[1]
    inverse, largest = matrix[:n], np.abs(matrix[:n]).max(initial=0.0)
    apart = np.abs(np.tril(inverse, -1)).max(initial=0.0)
    if apart <= _ALIKE * largest or not np.allclose(inverse, inverse.T, rtol=0.0, atol=_ALIKE * largest):
        return
    share = 1e-15
    while True:
        try:
            # R'R with a lower triangular R: Cholesky from the last row on
            inverse[:] = np.linalg.cholesky(inverse[::-1, ::-1])[::-1, ::-1].T
            return
        except np.linalg.LinAlgError:  # the earlier version has lost digits of an inverse that is nearly singular
            np.einsum("ii->i", inverse)[:] += share * largest
            share *= 10.0


_ALIKE = 1e-6  # of the largest entry


def state_from(supports: compiled.SupportArrays, task: Task) -> BudgetState:
    """Return the support arrays as a state; they are not written into afterwards."""
    arrays, counters = supports[:6], supports[6:9]  # those of a state, and of its progress
    return BudgetState(*arrays, progress_from(task, *counters))


def _zeros(shape: tuple[int, int], precision: object) -> FloatArray:
    array = aligned_empty(shape, precision)
    array[...] = 0
    return array


def _copy(array: FloatArray) -> FloatArray:
    copy = aligned_empty((array.shape[0], array.shape[1]), array.dtype)
    copy[...] = array
    return copy


def _slots(base: BudgetState, parts: list[BudgetState]) -> list[list[int]]:
    """Return the slots of each part's supports in the union, oldest first: those of base are the same in all parts."""
    first_new = int(base.integers[compiled.ADDED])
    # what identifies a support: its number and, if it is new, its shard
    keys_of_parts = [
        [
            (number, -1 if number < first_new else shard)
            for number in part.marks[compiled.NUMBER, : part.n_supports].tolist()
        ]
        for shard, part in enumerate(parts)
    ]
    places = {key: index for index, key in enumerate(sorted({key for keys in keys_of_parts for key in keys}))}
    return [[places[key] for key in keys] for keys in keys_of_parts]


def _united_counts(
    base: BudgetState, parts: list[BudgetState], slots_of_parts: list[list[int]], n_rows: int, capacity: int
) -> Doubles:
    """Return counts of all supports of the union, (n_rows, capacity), that sum to base's and what each part added.

    What base had may be in several new supports, one a shard: then all counts shrink alike, but never below the
    largest sum of a part, as every shard forgets rows of base by itself.
    """
    counts = np.zeros((n_rows, capacity))
    for slots, part in zip(slots_of_parts, parts, strict=True):
        counts[:, slots] = part.memory[:n_rows, : part.n_supports]
    before = base.memory[:n_rows].sum(axis=1)
    sums = np.stack([part.memory[:n_rows].sum(axis=1) for part in parts])
    wanted = np.maximum(sums.max(axis=0), before + (sums - before).sum(axis=0))
    totals = counts.sum(axis=1)
    shrinking = np.minimum(1.0, np.divide(wanted, totals, out=np.ones(n_rows), where=totals > 0.0))
    return np.asarray(shrinking[:, None] * counts)


# The learner of all budget strategies.

LOSS_CODES: dict[Task, int] = {"binary": HINGE, "multiclass": MULTICLASS_HINGE, "regression": THRESHOLDED_HALF_SQUARED}


class SupportLearner:
    """Base of learners whose states have support vectors, and are what shards start from."""

    def chosen(self, state: Any) -> dict[str, Any]:
        return {"support_vectors": state.n_supports}

    def shard_start(self, state: Any) -> Any:
        return state


@stored("budget-learner")
@dataclass(frozen=True, eq=False)
class BudgetLearner(SupportLearner):
    """Settings of learning row by row with at most `budget` support vectors: f = sum_s a_s k(s, x).

    Shards are joined by the union of their supports, coefficients weighted by the rows that each
    shard learned, and the strategy's own reduction down to the budget.

    kernel : with a rule for compiled code; strategy : what is learned from a row, and what makes room
    task, n_inputs : of the data; n_outputs : the number of classes for several classes, otherwise 1
    budget : most support vectors, >= 1; epsilon : threshold of a regression, in units of the scaled target
    precision : of supports and coefficients; seed : of what the strategy draws
    Raises ConfigError : a size is out of range, the kernel has no rule, or the strategy is for other kernels or tasks
    """

    kernel: Kernel
    strategy: BudgetStrategy
    task: Task
    n_inputs: int
    budget: int
    n_outputs: int = 1
    epsilon: float = 0.1
    precision: Precision = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        check_sizes(self.task, self.n_inputs, self.n_outputs, self.epsilon)
        check_at_least("budget", self.budget, 1)
        self.strategy.check_kernel(rule_of(self.kernel))
        if self.task not in self.strategy.tasks:
            raise ConfigError(
                f"{self.strategy.name} is not defined for a {self.task} task, only for "
                f"{', '.join(self.strategy.tasks)}."
            )

    def start(self) -> BudgetState:
        """Return no supports, before any row."""
        return self._empty(self.budget)

    def learn(self, state: BudgetState, rows: Rows, n_threads: int = 1) -> BudgetState:
        """Train on rows by one thread, as a row depends on the one before. Rows may be cut anywhere."""
        inputs, targets = checked_rows(rows, self.task, self.n_inputs, self.n_outputs, self.precision)
        self._check_state(state)
        supports = support_arrays(state)
        if self.strategy.keeps_root:
            invert_to_root(supports.memory[self.strategy.buffers :, : state.n_supports])
        self.strategy.learn(supports, inputs, targets, self.rule)
        after = state_from(supports, self.task)
        check_finite(self.strategy, state.progress.rows, after.progress.rows, after.coefficients, after.progress.error)
        return after

    def predictor(self, state: BudgetState) -> KernelExpansion:
        return KernelExpansion(self.kernel, state.rows, state.scaled_coefficients.astype(self.precision))

    def average_shards(self, base: BudgetState, parts: list[BudgetState]) -> BudgetState:
        """Return one state from what shards learned from base, in the order given: the same for any number of workers.

        f is the mean of the shards' functions, weighted by the rows that each learned: supports that several shards
        kept from base are one support, the others are united. Then the strategy reduces them to the budget, older ones
        first where age counts; supports of one age are ordered by shard. The strategy's own numbers are weighted means.

        Source: the mean of functions is parameter mixing, McDonald, Hall & Mann, NAACL 2010, Figure 3.
        """
        shares, progress = shares_of_rows(base.progress, [part.progress for part in parts])
        if not shares:
            return base
        supports = support_arrays(replace(self._united(base, parts, shares), progress=progress))
        self.strategy.remember(supports, self.rule)
        type(self.strategy).reduced(supports, self.rule, doubles(self.strategy.numbers))
        reduced, small = state_from(supports, self.task), self.start()
        trimmed: dict[str, Any] = {
            name: np.ascontiguousarray(getattr(reduced, name)[: array.shape[0], : array.shape[1]])
            for name, array in vars(small).items()
            if name in ("supports", "coefficients", "marks", "memory")
        }
        return replace(reduced, **trimmed)

    @property
    def rule(self) -> compiled.BudgetRule:
        return compiled.BudgetRule(rule_of(self.kernel), LOSS_CODES[self.task], float(self.epsilon), int(self.budget))

    def _check_state(self, state: BudgetState) -> None:
        """Check the budget, because compiled code writes up to it without checks."""
        wanted = self.start().supports.shape
        if state.supports.shape != wanted or len(state.coefficients) != self.n_outputs:
            raise ConfigError(
                f"A state has {len(state.coefficients)} outputs and supports of shape "
                f"{state.supports.shape}; the learner expects {self.n_outputs} and {wanted}. Use the "
                "state that this learner started."
            )

    def _united(self, base: BudgetState, parts: list[BudgetState], shares: list[float]) -> BudgetState:
        """Return all supports of all parts, oldest first, with weighted coefficients and numbers."""
        slots_of_parts = _slots(base, parts)
        n_supports = 1 + max((max(slots) for slots in slots_of_parts if slots), default=-1)
        united = self._empty(max(n_supports, self.budget))  # never smaller than the budget: training continues in it
        coefficients = np.zeros((self.n_outputs, n_supports))
        for slots, part, share in zip(slots_of_parts, parts, shares, strict=True):
            coefficients[:, slots] += share * part.scaled_coefficients
            united.supports[:, slots] = part.supports[:, : part.n_supports]
            united.marks[compiled.LABEL, slots] = part.marks[compiled.LABEL, : part.n_supports]
        united.coefficients[:, :n_supports] = coefficients
        united.marks[compiled.NUMBER, :n_supports] = np.arange(n_supports)
        united.integers[:] = base.integers
        united.integers[[compiled.COUNT, compiled.ADDED]] = n_supports
        united.integers[compiled.RANDOM] += sum(
            int(part.integers[compiled.RANDOM] - base.integers[compiled.RANDOM]) for part in parts
        )
        united.floats[compiled.FIRST_FLOAT :] = np.average(
            [part.floats[compiled.FIRST_FLOAT :] for part in parts], axis=0, weights=shares
        )
        united.floats[compiled.SCALE] = 1.0
        if n_rows := self.strategy.count_rows:
            counts = _united_counts(base, parts, slots_of_parts, n_rows, united.memory.shape[1])
            united.memory[:n_rows] = counts
        return united

    def _empty(self, n_supports: int) -> BudgetState:
        """Return a state without supports, with room for n_supports."""
        # kernel rows run over whole vectors
        capacity = int(compiled.used_width(max(1, n_supports + self.strategy.spare_slots)))
        integers, floats = np.zeros(compiled.N_INTEGERS, dtype=np.int64), np.zeros(compiled.N_FLOATS)
        # seeds far apart in the counter: streams of two of them do not meet
        integers[compiled.RANDOM] = int(
            np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0] >> np.uint64(1)
        )
        own_floats = self.strategy.own_floats(self.task, self.epsilon)
        floats[compiled.SCALE] = 1.0
        floats[compiled.FIRST_FLOAT : compiled.FIRST_FLOAT + len(own_floats)] = own_floats
        return BudgetState(
            supports=_zeros((self.n_inputs, capacity), self.precision),
            coefficients=_zeros((self.n_outputs, capacity), self.precision),
            marks=np.zeros((2, capacity), dtype=np.int64),
            memory=np.zeros(self.strategy.memory_shape(self.n_outputs, capacity)),
            integers=integers,
            floats=floats,
            progress=start_progress(self.task, self.n_outputs),
        )


def rule_of(kernel: Kernel) -> KernelRule:
    """Return the kernel's rule for compiled code, or ConfigError for one that has none."""
    if kernel.rule is None:
        raise ConfigError(
            f"The kernel {kernel.name!r} is a Python function, but learners with support vectors "
            "need kernels with compiled code. Use NOGD, or another kernel."
        )
    return kernel.rule


def check_sizes(task: Task, n_inputs: int, n_outputs: int, epsilon: float) -> None:
    """Raise ConfigError unless the sizes fit the task."""
    check_choice("task", task, LOSS_CODES)
    check_at_least("n_inputs", n_inputs, 1)
    check_at_least("n_outputs", n_outputs, 2 if task == "multiclass" else 1)
    if task != "multiclass" and n_outputs != 1:
        raise ConfigError(f"n_outputs = {n_outputs}; a {task} task has one output.")
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise ConfigError(f"epsilon = {epsilon!r}; expected a finite number of at least 0.")


def check_budget(budget: int, n_rows: int) -> None:
    """Raise ConfigError if the budget is larger than the rows to learn: it would never be met."""
    if budget > n_rows:
        raise ConfigError(
            f"budget = {budget:,} is more than the {n_rows:,} training rows, so it is never "
            f"reached. Set at most {n_rows:,}, or use perceptron or ogd, which have no budget."
        )


def check_finite(strategy: object, first: int, last: int, coefficients: FloatArray, error: float) -> None:
    """Raise DivergedError unless coefficients and errors are finite; rows first to last - 1 were learned."""
    if not (np.isfinite(coefficients).all() and (np.isfinite(error) or last == 0)):
        raise DivergedError(
            f"Rows {first:,} to {last - 1:,}: coefficients or scores are no longer finite with {strategy}. Use a "
            "smaller step_size, or a kernel with smaller values."
        )


@stored("unbudgeted-state")
@dataclass(frozen=True, eq=False)
class GrowingState:
    """A value that no method writes into.

    supports : (n_supports, n_inputs), in the order in which they were added; coefficients : (n_outputs, n_supports)
    margin : NORMA's; progress : how the predictions did
    """

    supports: FloatArray
    coefficients: FloatArray
    margin: float
    progress: Progress

    @property
    def n_supports(self) -> int:
        return len(self.supports)


@stored("unbudgeted-learner")
@dataclass(frozen=True, eq=False)
class GrowingLearner(SupportLearner):
    """Settings of learning row by row with every support kept: f = sum_s a_s k(s, x); memory grows with the updates.

    Shards are joined by the union of their supports, coefficients weighted by the rows learned.

    kernel : with a rule for compiled code; strategy : what is learned from a row
    task, n_inputs : of the data; n_outputs : the number of classes for several classes, otherwise 1
    epsilon : threshold of a regression, in units of the scaled target; precision : of supports and coefficients
    Raises ConfigError : a size is out of range, or the kernel has no rule
    """

    kernel: Kernel
    strategy: Strategy
    task: Task
    n_inputs: int
    n_outputs: int = 1
    epsilon: float = 0.1
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check_sizes(self.task, self.n_inputs, self.n_outputs, self.epsilon)
        rule_of(self.kernel)

    def start(self) -> GrowingState:
        """Return no supports, before any row."""
        return GrowingState(
            np.zeros((0, self.n_inputs), dtype=self.precision),
            np.zeros((self.n_outputs, 0), dtype=self.precision),
            sum(self.strategy.own_floats(self.task, self.epsilon)),
            start_progress(self.task, self.n_outputs),
        )

    def learn(self, state: GrowingState, rows: Rows, n_threads: int = 1) -> GrowingState:
        inputs, targets = checked_rows(rows, self.task, self.n_inputs, self.n_outputs, self.precision)
        growing = _Growing(self, state)
        for first in range(0, len(inputs), MOST_ROWS):
            growing.learn_block(inputs[first : first + MOST_ROWS], targets[first : first + MOST_ROWS])
        after = growing.state()
        check_finite(self.strategy, state.progress.rows, after.progress.rows, after.coefficients, after.progress.error)
        return after

    def predictor(self, state: GrowingState) -> KernelExpansion:
        return KernelExpansion(self.kernel, state.supports, state.coefficients)

    def average_shards(self, base: GrowingState, parts: list[GrowingState]) -> GrowingState:
        """Return the mean of the shards' functions, weighted by rows: base's supports, then new ones in shard order.

        Source: McDonald, Hall & Mann, NAACL 2010, Figure 3 (parameter mixing).
        """
        weights, progress = shares_of_rows(base.progress, [part.progress for part in parts])
        if not weights:
            return base
        n_old = base.n_supports
        old = sum(
            weight * part.coefficients[:, :n_old].astype(float) for weight, part in zip(weights, parts, strict=True)
        )
        new = [weight * part.coefficients[:, n_old:].astype(float) for weight, part in zip(weights, parts, strict=True)]
        return GrowingState(
            np.concatenate([base.supports, *(part.supports[n_old:] for part in parts)]),
            np.concatenate([old, *new], axis=1).astype(self.precision),
            float(np.average([part.margin for part in parts], weights=weights)),
            progress,
        )


class _Growing:
    """A state while it grows: supports in packed chunks, and those after the last full chunk."""

    def __init__(self, learner: GrowingLearner, state: GrowingState) -> None:
        self._kernel = rule_of(learner.kernel)
        numbers: Any = doubles(learner.strategy.numbers)
        self._rule = LOSS_CODES[learner.task], float(learner.epsilon), numbers
        self._task = learner.task
        self._rows = [state.supports]
        self._chunks: list[tuple[FloatArray, FloatArray]] = []
        self._rest, self._rest_coefficients = state.supports, state.coefficients.copy()
        self._margin = state.margin
        self._counts, self._sums, self._class_counts = progress_arrays(state.progress)
        self._buffer = aligned_empty((MOST_ROWS, CHUNK), state.supports.dtype)
        self._pack()

    def learn_block(self, inputs: FloatArray, targets: Doubles) -> None:
        """Learn at most 256 rows."""
        n_outputs, dtype = len(self._rest_coefficients), inputs.dtype
        chunks = self._chunks
        if len(self._rest):
            chunks = [*chunks, pack_chunk(self._rest, self._rest_coefficients)]
        arrays = (
            kernel_sums(inputs, chunks, self._kernel, self._buffer) if chunks else np.zeros((len(inputs), n_outputs))
        )
        among = np.empty((len(inputs), len(inputs)), dtype=dtype)
        kernel_block(among, inputs, panels_of(inputs.T), self._kernel)
        floats = np.array([1.0, self._margin])
        grown = compiled.GrowingArrays(
            np.zeros((n_outputs, len(inputs))),
            floats,
            self._counts,
            self._sums,
            self._class_counts,
            np.zeros(n_outputs),
        )
        compiled.learn_growing(grown, arrays, among, targets, *self._rule)
        self._margin = float(floats[1])
        if floats[0] != 1.0:  # the scale of a block goes into the coefficients before it
            for coefficients in (*(of_chunk for _, of_chunk in self._chunks), self._rest_coefficients):
                coefficients *= coefficients.dtype.type(floats[0])
        added = grown.coefficients.any(axis=0)
        self._rows.append(inputs[added])
        self._rest = np.concatenate([self._rest, inputs[added]])
        with np.errstate(over="ignore", invalid="ignore"):  # check_finite reports it in a message
            new = (floats[0] * grown.coefficients[:, added]).astype(dtype)
        self._rest_coefficients = np.concatenate([self._rest_coefficients, new], axis=1)
        self._pack()

    def state(self) -> GrowingState:
        coefficients = [*(coefficients for _, coefficients in self._chunks), self._rest_coefficients]
        progress = progress_from(self._task, self._counts, self._sums, self._class_counts)
        return GrowingState(np.concatenate(self._rows), np.concatenate(coefficients, axis=1), self._margin, progress)

    def _pack(self) -> None:
        """Pack full chunks: once, not for every block."""
        while len(self._rest) >= CHUNK:
            self._chunks.append(pack_chunk(self._rest[:CHUNK], self._rest_coefficients[:, :CHUNK].copy()))
            self._rest, self._rest_coefficients = self._rest[CHUNK:], self._rest_coefficients[:, CHUNK:]
