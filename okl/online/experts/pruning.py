"""Who goes on to the next round: the maps that lost least of late, and their best step sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from okl.online.experts.schedule import LATE_SHARE, Round
from okl.online.experts.state import Experts, Group


def after_round(experts: Experts, following: Round, number: int) -> Experts:
    """The experts of the next round: at most `maps` maps with at most `step_sizes` step sizes each.

    A map, and a step size, counts as its best expert. The earlier one wins a tie.
    """
    recent = experts.per_learner(experts.recent)
    best = [values.min(axis=(1, 2)) for values in recent]
    places = [(group, m) for group, values in enumerate(best) for m in range(len(values))]
    ranked = sorted(places, key=lambda place: best[place[0]][place[1]])[: following.maps]
    groups: list[Group] = []
    kept: list[np.ndarray] = []
    first = 0
    for index, group in enumerate(experts.groups):
        maps = sorted(m for which, m in ranked if which == index)
        if maps:
            n_steps = min(following.step_sizes, group.steps.shape[1])
            order = np.argsort(recent[index].min(axis=2), axis=1, kind="stable")[:, :n_steps]
            steps = [sorted(order[m].tolist()) for m in maps]
            groups.append(group.kept(maps, steps))
            numbers = np.arange(first, first + group.n_experts).reshape(*group.steps.shape, 2)
            kept.append(numbers[np.array(maps)[:, None], np.array(steps)].ravel())
        first += group.n_experts
    chosen = np.concatenate(kept)
    return replace(
        experts,
        round=number,
        groups=tuple(groups),
        losses=experts.losses[chosen],
        recent=LATE_SHARE * experts.recent[chosen],
    )
