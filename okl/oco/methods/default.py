"""The method that okl takes unless another is asked for, and the figures that settled it."""

from __future__ import annotations

from okl.oco.methods.recoo import Recoo


def default_method(step_scale: float = 1.0, strong_convexity: float = 0.0) -> Recoo:
    """Return the method to take for constraints that stay: the rectified queue, RECOO.

    With steps of one length, from (1, 1), its regret is that of Algorithms 1 and 2 within two standard errors, and its
    violation (6) does not grow and is the least, or as small as that; it need not know the number of rounds, nor a
    bound of the subgradients.

    ==================  ================  ================  ==================  ================
    T = 32000, mean     random signs      random signs      pulling outwards    pulling outwards
    of 20 repetitions   regret            violation         regret              violation
    ==================  ================  ================  ==================  ================
    RECOO               252 +- 25         1.52 +- .01       114 +- 15           1.88 +- .15
    Algorithm 1         230 +- 17         4.08 +- .01       97 +- 10            5.32 +- .01
    Algorithm 2         235 +- 21         4.22 +- .05       98 +- 12            8.03 +- .03
    Yu & Neely          249 +- 21         1.51 +- .00       876 +- 9            31.8 +- .1
    Sinha & Vaze        252 +- 27         5006 +- 586       below 0             34653 +- 26
    ==================  ================  ================  ==================  ================

    On signs that pull outwards up to T = 2,048,000 its violation is 2.0, Algorithm 1's 5.1, and that of Sinha & Vaze
    375542, growing as T^.57: as 2 sqrt(T) log(2 sqrt(T)) / beta, where their price of a violation reaches 1. On section
    4.1 of Yi et al. (200 repetitions, T = 5000), where Algorithm 1's gamma_0 is beyond what its theorem allows, RECOO's
    loss is 162 +- 6 lower, and its violation .084 +- .018 against .051 +- .003 from x_1 = 0, 1.20 against 1.08 from
    (1, 1): a round's worth.

    The others are for what RECOO does not promise: Algorithm 2 follows comparators that move, Sinha & Vaze take
    constraints that an adversary chooses anew in every round, and Algorithms 1 and 2 have bounds with explicit
    constants (`bounds_of`), which is why a kernel learner under constraints has Algorithm 1.

    Parameters
    ----------
    step_scale : alpha_0 > 0; twice the diameter over sqrt(2) times the subgradients' root mean square is a good one
    strong_convexity : mu of (19), 0 if the losses have none

    Source of the figures: tests/benchmarks/oco_growth.py, signs, biased and long.
    """
    return Recoo(step_scale, strong_convexity=strong_convexity)
