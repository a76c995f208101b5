"""Put together what shards learnt apart: the union of their supports, then the strategy's own reduction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

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
    first_new = int(base.integers[ADDED])
    # what identifies a support: its number and, if it is new, its shard
    keys = sorted(
        {
            (int(number), -1 if number < first_new else shard)
            for shard, part in enumerate(parts)
            for number in part.marks[NUMBER, : part.n_supports]
        }
    )
    places = {key: place for place, key in enumerate(keys)}
    united = empty(len(keys))
    coefficients = np.zeros((len(united.coefficients), len(keys)))
    for shard, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        numbers = part.marks[NUMBER, : part.n_supports]
        slots = [places[int(number), -1 if number < first_new else shard] for number in numbers]
        coefficients[:, slots] += weight * part.scaled_coefficients
        united.supports[:, slots] = part.supports[:, : part.n_supports]
        united.marks[LABEL, slots] = part.marks[LABEL, : part.n_supports]
    united.coefficients[:, : len(keys)] = coefficients
    united.marks[NUMBER, : len(keys)] = np.arange(len(keys))
    united.integers[:] = base.integers
    united.integers[[COUNT, ADDED]] = len(keys)
    united.integers[RANDOM] += sum(int(part.integers[RANDOM] - base.integers[RANDOM]) for part in parts)
    united.floats[FIRST_FLOAT:] = np.average([part.floats[FIRST_FLOAT:] for part in parts], axis=0, weights=weights)
    united.floats[SCALE] = 1.0
    return united


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
