"""What a path of bounds comes to: a row for each bound, over all parts, and the learner without it as the end."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from okl.comparison.price.asked import Asked, worst
from okl.comparison.price.items import Figures, Priced
from okl.comparison.significance import corrected_resampled_t, exact_mcnemar
from okl.comparison.table import spread
from okl.comparison.trials import Trial
from okl.store.constraintwords import RATES


def price_rows(
    asked: Asked, found: Sequence[tuple[float | None, Sequence[Priced]]], test_share: float
) -> list[dict[str, Any]]:
    """A row for each bound in the order given.

    found : of each bound what came of its parts; one of them is None, to which all are compared
    test_share : test rows over training rows of a part
    """
    free = next(priced for bound, priced in found if bound is None)
    return [_row(asked, bound, priced, free, test_share) for bound, priced in found]


def free_value(asked: Asked, free: Sequence[Priced]) -> float:
    """What the constraints of the path come to at most, on training rows, without them; on average over the parts."""
    values = [worst([part.train[place]["value"] for place in asked.swept]) for part in free]
    return fmean(abs(value or 0.0) for value in values)


def _row(
    asked: Asked, bound: float | None, priced: Sequence[Priced], free: Sequence[Priced], test_share: float
) -> dict[str, Any]:
    trials, others = [part.trial for part in priced], [part.trial for part in free]
    accuracies = [trial.accuracy("own") for trial in trials]
    before = [trial.accuracy("own") for trial in others]
    swept = asked.swept
    return {
        "bound": bound,
        "mean": fmean(accuracies),
        "spread": spread(accuracies),
        "accuracies": accuracies,
        "price": fmean(before) - fmean(accuracies),
        "p_value": 1.0 if bound is None else _p_value(trials, others, test_share),
        "best": _best([part.best for part in priced if part.best is not None]),
        **{split: _worst_of([getattr(part, split) for part in priced], swept) for split in ("train", "test")},
        "met": None if bound is None else all((one["excess"] or 0.0) == 0.0 for part in priced for one in part.train),
        "limits": _limits(asked, bound, priced),
        "seconds": sum(trial.seconds for trial in trials),
    }


def _best(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Of the best weights under the bound: nothing if they were not looked for."""
    if not trials:
        return None
    accuracies = [trial.accuracy("own") for trial in trials]
    return {
        "mean": fmean(accuracies),
        "spread": spread(accuracies),
        "accuracies": accuracies,
        "relative_gap": max(trial.relative_gap or 0.0 for trial in trials),
        "iterations": sum(trial.iterations for trial in trials),
        "seconds": sum(trial.seconds for trial in trials),
    }


def _worst_of(parts: Sequence[Figures], swept: Sequence[int]) -> dict[str, float | None]:
    """Of the constraints of the path the value and the decisions furthest from 0, as sizes, on average over parts."""
    names = {"value": ("value",), "standard_error": ("standard_error",), "decisions": tuple(RATES)}
    found: dict[str, float | None] = {}
    for name, keys in names.items():
        values = [worst([part[place].get(key) for place in swept for key in keys]) for part in parts]
        known = [abs(value) for value in values if value is not None]
        found[name] = fmean(known) if known else None
    return found


def _limits(asked: Asked, bound: float | None, priced: Sequence[Priced]) -> list[dict[str, Any]]:
    """Each constraint at a bound: figures of each split on average over the parts, and every part's value."""
    limits = []
    for place, one in enumerate(asked.constraints if bound is None else asked.at(bound)):
        told: dict[str, Any] = {"constraint": str(one), "kept": bound is not None or place not in asked.swept}
        for split in ("train", "test"):
            figures = [getattr(part, split)[place] for part in priced]
            told[split] = {name: _mean([some[name] for some in figures]) for name in figures[0]}
            told[split]["values"] = [some["value"] for some in figures]
        limits.append(told)
    return limits


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _p_value(trials: Sequence[Trial], others: Sequence[Trial], test_share: float) -> float:
    if len(trials) == 1:
        return exact_mcnemar(others[0].rightly("own"), trials[0].rightly("own"))
    pairs = np.array([(one.accuracy("own"), other.accuracy("own")) for one, other in zip(others, trials, strict=True)])
    return corrected_resampled_t((pairs[:, 0] - pairs[:, 1]).tolist(), test_share)
