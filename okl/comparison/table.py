"""The table of a comparison: a row for each entrant, with its spread, its proof, and whether the best one is better."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.comparison.entrants import is_certified
from okl.comparison.search import Entrant
from okl.comparison.significance import CORRECTED, MCNEMAR, corrected_resampled_t, exact_mcnemar
from okl.comparison.trials import Trial

BIASES = ("own", "none", "error-minimising")


def winner_of(entrants: Sequence[Entrant]) -> Entrant | None:
    """The entrant of the best mean accuracy; of equals the first; None if all failed."""
    measured = [entrant for entrant in entrants if not entrant.failure]
    return max(measured, key=lambda entrant: entrant.mean(*entrant.choice()), default=None)


def table_of(entrants: Sequence[Entrant], test_share: float) -> list[dict[str, Any]]:
    """A row for each entrant, the best first, those that failed last.

    test_share : test rows over training rows of a fold
    """
    best = winner_of(entrants)
    rows = [_row(entrant, best, test_share) for entrant in entrants]
    return sorted(rows, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0)))


def test_name(n_parts: int) -> str:
    """Name of the paired test against the best."""
    return CORRECTED if n_parts > 1 else MCNEMAR


def _row(entrant: Entrant, best: Entrant | None, test_share: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": entrant.name,
        "kind": "certified" if is_certified(entrant.name) else "online",
        "status": "failed" if entrant.failure else "measured",
        "note": entrant.failure,
        "parameter": entrant.grid.parameter if is_certified(entrant.name) else None,
        "seconds": entrant.seconds,
        "best": entrant is best,
        "mean": None,
        "path": _path(entrant),
    }
    if entrant.failure or best is None:
        return row
    place, bias = entrant.choice()
    trials = entrant.trials[place]
    own = accuracies(trials, bias)
    by_bias = {name: _of_bias(entrant, name) for name in BIASES if name in entrant.biases}
    return row | {
        "mean": entrant.mean(place, bias),
        "spread": spread(own),
        "accuracies": own,
        "bias": bias,
        "biases": by_bias,
        "place": entrant.grid.places[place] if is_certified(entrant.name) else None,
        "value": mean_value(trials),
        "tried": len(entrant.grid.places),
        "relative_gap": _largest([trial.relative_gap for trial in trials]),
        "iterations": max(trial.iterations for trial in trials),
        "difference": entrant.mean(place, bias) - best.mean(*best.choice()),
        "p_value": 1.0 if entrant is best else _p_value(trials, bias, best, test_share),
    }


def accuracies(trials: Sequence[Trial], bias: str) -> list[float]:
    """Accuracy in each part."""
    return [trial.accuracy(bias) for trial in trials]


def spread(values: Sequence[float]) -> float | None:
    """Standard deviation, with n - 1 in the denominator; None of one value."""
    return stdev(values) if len(values) > 1 else None


def mean_value(trials: Sequence[Trial]) -> float | None:
    """The parameter, on average over the parts: their valid ranges differ a little."""
    values = [trial.value for trial in trials if trial.value is not None]
    return fmean(values) if values else None


def _of_bias(entrant: Entrant, bias: str) -> dict[str, float | None]:
    """Mean and spread of the best place of one kind of bias."""
    place = max(entrant.alive, key=lambda some: entrant.mean(some, bias))
    found = accuracies(entrant.trials[place], bias)
    return {"mean": fmean(found), "spread": spread(found), "value": mean_value(entrant.trials[place])}


def _path(entrant: Entrant) -> list[dict[str, Any]]:
    """Accuracy by the better bias at each place, on the most rows it was tried on."""
    found = []
    for place in sorted(entrant.trials):
        trials = entrant.trials[place]
        if any(trial.failure for trial in trials) or not is_certified(entrant.name):
            continue
        bias = max(entrant.biases, key=lambda name: entrant.mean(place, name))
        found.append(
            {
                "place": entrant.grid.places[place],
                "value": mean_value(trials),
                "rows": entrant.tried_rows[place],
                "mean": entrant.mean(place, bias),
                "relative_gap": _largest([trial.relative_gap for trial in trials]),
            }
        )
    return found


def _largest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _p_value(trials: Sequence[Trial], bias: str, best: Entrant, test_share: float) -> float:
    place, best_bias = best.choice()
    theirs = best.trials[place]
    if len(trials) == 1:
        return exact_mcnemar(_rightly(theirs, best_bias), _rightly(trials, bias))
    pairs = zip(accuracies(theirs, best_bias), accuracies(trials, bias), strict=True)
    return corrected_resampled_t([one - other for one, other in pairs], test_share)


def _rightly(trials: Sequence[Trial], bias: str) -> NDArray[np.bool_]:
    return np.concatenate([trial.rightly(bias) for trial in trials])
