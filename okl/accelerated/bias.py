"""The bias of fewest training errors: for models that have none of their own, and beside the one they have."""

from __future__ import annotations

import numpy as np

from okl.types import FloatArray


def error_minimising_bias(scores: FloatArray, labels: FloatArray) -> float:
    """Find a bias b with the fewest errors of the sign of score - b, half way between two scores.

    Parameters
    ----------
    scores : (m,), <w, x_i> without any bias
    labels : (m,), -1 or +1

    Returns
    -------
    The first of the best biases; one beyond all scores where one answer for all rows is best.

    Source: Ito et al., 2017, (26) and its four steps; equal scores are never told apart.
    """
    order = np.argsort(scores, kind="stable")
    ordered = np.asarray(scores, dtype=np.float64)[order]
    # errors less the number of negatives, with the first k rows predicted -1
    errors = np.concatenate([[0.0], np.cumsum(np.asarray(labels, dtype=np.float64)[order])])
    edges = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    errors[edges[:-1] == edges[1:]] = np.inf
    best = int(np.argmin(errors))
    return float(0.5 * (edges[best] + edges[best + 1]))
