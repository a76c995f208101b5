"""Put together what shards learnt apart: the union of their supports, then the strategy's own reduction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from okl.compiled.budget import ADDED, COUNT, FIRST_FLOAT, LABEL, NUMBER, RANDOM, SCALE, BudgetRule
from okl.online.budget.state import BudgetState, kept_from, state_from
from okl.online.budget.strategy import BudgetStrategy


def join_states(
    strategy: BudgetStrategy,
    rule: BudgetRule,
    base: BudgetState,
    parts: list[BudgetState],
    empty: Callable[[int], BudgetState],
) -> BudgetState:
    """One state from what shards learnt from base, in the order given: the same for any number of workers.

    f is the mean of the shards' functions, weighted by the rows that each learnt: supports that several shards kept
    from base are one support, the others are united. Then the strategy reduces them to the budget, older ones first
    where age counts; supports of one age are ordered by shard. The strategy's own numbers are weighted means.

    empty : makes a state for so many supports

    Source: the mean of functions is parameter mixing, McDonald, Hall & Mann, NAACL 2010, Figure 3.
    """
    grown = [part.progress.since(base.progress) for part in parts]
    rows = sum(progress.rows for progress in grown)
    if rows == 0:
        return base
    # never smaller than the budget: learning goes on in it
    united = _union(base, parts, [progress.rows / rows for progress in grown], lambda n: empty(max(n, rule.budget)))
    if strategy.count_rows > 0:
        united.memory[: strategy.count_rows] = _united_counts(united, base, parts, strategy.count_rows)
    progress = base.progress
    for growth in grown:
        progress = progress.plus(growth)
    kept = kept_from(replace(united, progress=progress))
    strategy.remember(kept, rule)
    strategy.reduce(kept, rule)
    return _trimmed(state_from(kept, base.progress.task), empty(rule.budget))


def _union(
    base: BudgetState, parts: list[BudgetState], weights: list[float], empty: Callable[[int], BudgetState]
) -> BudgetState:
    """All supports of all parts, oldest first, with weighted coefficients and numbers."""
    slots_of_parts = _slots(base, parts)
    n_supports = 1 + max((max(slots) for slots in slots_of_parts if slots), default=-1)
    united = empty(n_supports)
    coefficients = np.zeros((len(united.coefficients), n_supports))
    for slots, part, weight in zip(slots_of_parts, parts, weights, strict=True):
        coefficients[:, slots] += weight * part.scaled_coefficients
        united.supports[:, slots] = part.supports[:, : part.n_supports]
        united.marks[LABEL, slots] = part.marks[LABEL, : part.n_supports]
    united.coefficients[:, :n_supports] = coefficients
    united.marks[NUMBER, :n_supports] = np.arange(n_supports)
    united.integers[:] = base.integers
    united.integers[[COUNT, ADDED]] = n_supports
    united.integers[RANDOM] += sum(int(part.integers[RANDOM] - base.integers[RANDOM]) for part in parts)
    united.floats[FIRST_FLOAT:] = np.average([part.floats[FIRST_FLOAT:] for part in parts], axis=0, weights=weights)
    united.floats[SCALE] = 1.0
    return united


def _slots(base: BudgetState, parts: list[BudgetState]) -> list[list[int]]:
    """Where the supports of each part stand in the union, oldest first: those of base are the same in all parts."""
    first_new = int(base.integers[ADDED])
    # what identifies a support: its number and, if it is new, its shard
    keys_of_parts = [
        [(number, -1 if number < first_new else shard) for number in part.marks[NUMBER, : part.n_supports].tolist()]
        for shard, part in enumerate(parts)
    ]
    places = {key: place for place, key in enumerate(sorted({key for keys in keys_of_parts for key in keys}))}
    return [[places[key] for key in keys] for keys in keys_of_parts]


def _united_counts(
    united: BudgetState, base: BudgetState, parts: list[BudgetState], n_rows: int
) -> NDArray[np.float64]:
    """Counts of all supports of the union, (n_rows, capacity), that sum to base's and what each part added.

    What base had may be in several new supports, one a shard: then all counts shrink alike, but never below the
    largest sum of a part, as every shard forgets rows of base by itself.
    """
    counts = np.zeros((n_rows, united.supports.shape[1]))
    for slots, part in zip(_slots(base, parts), parts, strict=True):
        counts[:, slots] = part.memory[:n_rows, : part.n_supports]
    before = base.memory[:n_rows].sum(axis=1)
    sums = np.stack([part.memory[:n_rows].sum(axis=1) for part in parts])
    wanted = np.maximum(sums.max(axis=0), before + (sums - before).sum(axis=0))
    there = counts.sum(axis=1)
    shrinking = np.minimum(1.0, np.divide(wanted, there, out=np.ones(n_rows), where=there > 0.0))
    return np.asarray(shrinking[:, None] * counts)


def _trimmed(state: BudgetState, small: BudgetState) -> BudgetState:
    """The same supports in arrays of the usual capacity."""
    capacity = small.supports.shape[1]
    rows, columns = small.memory.shape
    return replace(
        state,
        supports=np.ascontiguousarray(state.supports[:, :capacity]),
        coefficients=np.ascontiguousarray(state.coefficients[:, :capacity]),
        marks=np.ascontiguousarray(state.marks[:, :capacity]),
        memory=np.ascontiguousarray(state.memory[:rows, :columns]),
    )
