"""What a fit has to say: what was chosen and why, and how far a solution is from what was asked for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from okl.accelerated.catalogue import parameter_of
from okl.accelerated.fitting import Fitted
from okl.estimators.unifiedfit import ClassFit

_TO_THE_USER = 4  # frames from here to the call of fit


def became_of_auto(model: str, value: Any) -> dict[str, Any]:
    """The parameter that was chosen, by its name, and the reason."""
    own = parameter_of(model)
    reason = "half of the largest that is valid for these rows, or more where that has no weights"
    if own == "C":
        reason = "the default"
    elif model == "dwd":
        reason = "squared median distance of the classes, over a hundred times the rows"
    return {own: value, f"{own}_reason": reason}


def one_or_all(values: list[Any]) -> Any:
    """The number of a single fit, or an array of one a class."""
    return values[0] if len(values) == 1 else np.array(values)


def warn_of(name: str, fits: list[ClassFit], tolerance: float) -> None:
    """Warn of what was changed to have a solution at all, and of a gap above the tolerance."""
    for note in sorted({fit.fitted.note for fit in fits} - {""}):
        warnings.warn(f"{name}: {note}.", UserWarning, stacklevel=_TO_THE_USER)
    # weights of 0 have their note
    worst = max((fit.fitted for fit in fits if fit.weights.any()), default=None, key=_gap)
    if worst is not None and _gap(worst) > tolerance:
        advice = "scale the inputs" if worst.outcome.kind == "done" else "raise max_iter, scale the inputs"
        warnings.warn(
            f"{name}: {worst.outcome.reason}. The solution is certified to a relative duality gap of "
            f"{_gap(worst):.2g}, tol is {tolerance:g}: {advice}, or accept this gap by a larger tol.",
            ConvergenceWarning,
            stacklevel=_TO_THE_USER,
        )


def _gap(fitted: Fitted) -> float:
    return fitted.certificate.relative_gap
