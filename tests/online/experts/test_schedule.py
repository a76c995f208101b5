from __future__ import annotations

import numpy as np
import pytest

from okl.errors import ConfigError
from okl.losses import Hinge
from okl.online.experts import Round, race_schedule
from okl.online.experts.pruning import after_round
from okl.online.experts.schedule import check_schedule
from tests.online.experts.cases import make_learner, make_rows


@pytest.mark.parametrize("n_rows", [1, 300, 799, 800, 1599, 1600, 20_640, 50_000, 10**7])
def test_races_get_smaller_and_end(n_rows: int) -> None:
    rounds = race_schedule(n_rows)
    check_schedule(rounds)
    assert [entry.maps for entry in rounds] == sorted((entry.maps for entry in rounds), reverse=True)
    ends = [entry.last_row for entry in rounds[:-1] if entry.last_row is not None]
    assert ends[-1] <= max(0.25 * n_rows, 96)
    assert all(end % 32 == 0 for end in ends)
    assert ends[-1] <= 7520
    assert rounds[-1] == Round(None, 1, 1)


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ((), "last_row = None for the last one only"),
        ((Round(100, 2, 2),), "last_row = None for the last one only"),
        ((Round(None, 2, 2), Round(None, 1, 1)), "last_row = None for the last one only"),
        ((Round(100, 2, 2), Round(100, 1, 1), Round(None, 1, 1)), "ends at row 100, but the one before it at 100"),
        ((Round(100, 0, 2), Round(None, 1, 1)), "maps of round 0 = 0"),
        ((Round(0, 1, 2), Round(None, 1, 1)), "last_row of round 0 = 0"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(rounds: tuple[Round, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_schedule(rounds)
    with pytest.raises(ConfigError, match=message):
        make_learner(Hinge(), rounds=rounds)
    with pytest.raises(ConfigError, match="n_rows = 0"):
        race_schedule(0)


def test_those_that_lost_least_of_late_go_on_with_all_that_is_theirs() -> None:
    learner = make_learner(Hinge(), rounds=(Round(None, 100, 100),))
    state = learner.learn(learner.start(), make_rows(Hinge()))
    pruned = after_round(state, Round(None, 3, 1), 1)
    assert (pruned.n_maps, pruned.round, len(pruned.losses)) == (3, 1, 6)
    before, after = state.per_learner(state.recent), pruned.per_learner(pruned.recent)
    every = np.sort(np.concatenate([values.min(axis=(1, 2)) for values in before]))
    left = np.sort(np.concatenate([values.min(axis=(1, 2)) for values in after]))
    np.testing.assert_allclose(left, 0.3 * every[:3])
    for group, recent, losses in zip(pruned.groups, after, pruned.per_learner(pruned.losses), strict=True):
        whole = [old.kind for old in state.groups].index(group.kind)
        for m, candidate in enumerate(group.candidates):
            old_m = state.groups[whole].candidates.index(candidate)
            old_t = state.groups[whole].steps[old_m].tolist().index(group.steps[m, 0])
            np.testing.assert_array_equal(group.weights[m, 0], state.groups[whole].weights[old_m, old_t])
            np.testing.assert_array_equal(group.pulls[m, 0], state.groups[whole].pulls[old_m, old_t])
            np.testing.assert_array_equal(losses[m, 0], state.per_learner(state.losses)[whole][old_m, old_t])
            np.testing.assert_allclose(recent[m, 0], 0.3 * before[whole][old_m, old_t])


def test_a_tie_is_won_by_the_earlier_and_the_diverged_go_first() -> None:
    learner = make_learner(Hinge())
    state = learner.start()
    assert after_round(state, Round(None, 1, 1), 1).groups[0].candidates == ((0, 0),)
    state.recent[:] = np.inf
    state.recent[-1] = 5.0
    (group,) = after_round(state, Round(None, 1, 1), 1).groups
    assert (group.kind, group.steps.tolist()) == ("linear-adagrad", [[1.0]])
