"""The bias of fewest training errors: for models that have none of their own, and beside the one they have."""

from __future__ import annotations

from typing import Literal

import numpy as np

from okl.accelerated.protocol import Solution
from okl.checks import check_choice
from okl.types import FloatArray

BiasKind = Literal["own", "errors", "none"]

BIAS_KINDS = ("own", "errors", "none")


def choose_bias(
    kind: BiasKind,
    solution: Solution,
    scores: FloatArray,
    labels: FloatArray,
    sample_weight: FloatArray | None = None,
) -> float:
    """The bias b of h(x) = f(x) - b: the model's own, the one of fewest training errors, or 0.

    Parameters
    ----------
    kind : "own", which is 0 for a model that has none; "errors", (26); "none"
    solution : whose certificate vouches for its own bias only
    scores : (m,), f(x_i) of the rows learnt from, without any bias; labels : (m,), -1 or +1
    sample_weight : (m,) or None, what an error on a row counts
    """
    check_choice("bias", kind, BIAS_KINDS)
    if kind == "errors":
        return error_minimising_bias(scores, labels, sample_weight)
    return solution.bias if kind == "own" else 0.0


def error_minimising_bias(scores: FloatArray, labels: FloatArray, sample_weight: FloatArray | None = None) -> float:
    """Find a bias b with the fewest errors of the sign of score - b, half way between two scores.

    Parameters
    ----------
    scores : (m,), <w, x_i> without any bias
    labels : (m,), -1 or +1
    sample_weight : (m,) or None, what an error on a row counts

    Returns
    -------
    The first of the best biases; one beyond all scores where one answer for all rows is best.

    Source: Ito et al., 2017, (26) and its four steps; equal scores are never told apart.
    """
    order = np.argsort(scores, kind="stable")
    ordered = np.asarray(scores, dtype=np.float64)[order]
    counted = np.asarray(labels, dtype=np.float64)
    if sample_weight is not None:
        counted = counted * sample_weight
    # errors less those of predicting +1 everywhere, with the first k rows predicted -1
    errors = np.concatenate([[0.0], np.cumsum(counted[order])])
    edges = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    errors[edges[:-1] == edges[1:]] = np.inf
    best = int(np.argmin(errors))
    return float(0.5 * (edges[best] + edges[best + 1]))
