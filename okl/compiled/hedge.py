"""AdaHedge: experts speak, their words are weighed by what they have lost so far, and the rate learns itself.

Legend: E experts, L their cumulative losses, eta the learning rate, p = exp(-eta L) / sum their weights, gap the
cumulative difference between the loss of the mixture, p'l, and the mix loss -log(p'exp(-eta l)) / eta.

Source: de Rooij, van Erven, Gruenwald & Koolen, JMLR 15, 2014, section 2, equations (5) to (8): eta = ln(E) / gap.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from okl.compiled.door import compiled_row
from okl.compiled.exponential import exp_negative

GAP, LOWEST, HIGHEST = 0, 1, 2


class Hedge(NamedTuple):
    """What the mixture remembers, changed in place, float64.

    losses, recent : (E,), cumulative losses, infinite for experts that diverged; those of late
    numbers : (3,), at GAP, LOWEST and HIGHEST: the range of the targets so far, 0 included
    """

    losses: NDArray[np.float64]
    recent: NDArray[np.float64]
    numbers: NDArray[np.float64]


@compiled_row
def weigh(p: NDArray[np.float64], losses: NDArray[np.float64], eta: float) -> None:
    """Overwrite p (E,) by the weights of experts; equal among the best at an infinite rate."""
    lowest, total = math.inf, 0.0
    for e in range(p.shape[0]):
        lowest = min(lowest, losses[e])
    if eta == math.inf:
        for e in range(p.shape[0]):
            p[e] = 1.0 if losses[e] == lowest else 0.0
    else:
        for e in range(p.shape[0]):
            p[e] = exp_negative(-eta * (losses[e] - lowest))  # type: ignore[no-untyped-call]
    for e in range(p.shape[0]):
        total += p[e]
    share = 1.0 / total
    for e in range(p.shape[0]):
        p[e] *= share


@compiled_row
def mixability_gap(p: NDArray[np.float64], loss: NDArray[np.float64], eta: float) -> float:
    """What the mixture loses above the mix loss on a row, >= 0; loss (E,) is finite."""
    mean, least = 0.0, math.inf
    for e in range(p.shape[0]):
        mean += p[e] * loss[e]
        # where p is 0 the loss is left out, as of experts that diverged
        least = min(least, loss[e] if p[e] > 0.0 else math.inf)
    if eta == math.inf:
        return mean - least
    total = 0.0
    for e in range(p.shape[0]):
        total += p[e] * exp_negative(-eta * max(0.0, loss[e] - least))  # type: ignore[no-untyped-call]
    return max(0.0, mean - least + math.log(total) / eta)
