from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from okl.drift import LEVEL, DriftWatch, Window, worse
from okl.solvers import Standing
from okl.types import Task

ROWS, WINDOWS = 256, 100


def watched(task: Task, losses: NDArray[np.floating[Any]], step: int = ROWS) -> DriftWatch:
    """A stream of such losses, told of every `step` rows."""
    watch, totals = DriftWatch(task, ROWS), np.cumsum(losses)
    for done in [*range(step, len(losses), step), len(losses)]:
        error = float(totals[done - 1]) / done
        watch.add(Standing(done, len(losses), error, 0.5))
    return watch


def fired(watch: DriftWatch) -> list[int]:
    return [place for place, window in enumerate(watch.windows) if window.fired]


@pytest.mark.parametrize("rate", [0.003, 0.05, 0.4])
def test_mistakes_at_one_rate_fire_in_a_thousandth_of_the_windows_at_most(rate: float) -> None:
    rng = np.random.default_rng(1)
    counts = [len(fired(watched("binary", (rng.random(ROWS * WINDOWS) < rate) * 1.0))) for _ in range(20)]
    assert max(counts) <= 1
    assert sum(counts) <= 2 * LEVEL * WINDOWS * len(counts)


def test_clipped_squares_of_experts_fire_in_a_thousandth_of_the_windows_at_most_and_at_a_change() -> None:
    rng, counts = np.random.default_rng(2), []
    for change in [None] * 20 + [60] * 4:
        losses = np.minimum(rng.standard_t(4, (ROWS * WINDOWS, 2)) ** 2, 20.0)
        if change is not None:
            losses[change * ROWS :, 1] *= 2.0
        watch, totals = DriftWatch("regression", ROWS), np.cumsum(losses, axis=0)
        for done in range(ROWS, len(losses) + 1, ROWS):
            experts = (float(totals[done - 1, 0]), float(totals[done - 1, 1]))
            watch.add(Standing(done, len(losses), 0.5, 0.5, expert_losses=experts))
        if change is None:
            counts.append(len(fired(watch)))
        else:
            assert change in fired(watch)
    assert max(counts) <= 1
    assert sum(counts) <= 2 * LEVEL * WINDOWS * len(counts)


def test_squared_errors_of_a_learner_without_experts_are_not_tested() -> None:
    losses = np.ones(40 * ROWS)
    losses[20 * ROWS :] = 100.0
    watch = watched("regression", losses)
    assert fired(watch) == []
    assert "drift" not in watch.as_json()
    assert "drift" in watched("binary", losses / 100.0).as_json()


def test_a_learner_that_improves_does_not_fire_and_one_that_is_overtaken_fires_within_a_window() -> None:
    rng = np.random.default_rng(3)
    change = 40 * ROWS + 100
    rates = 0.1 + 0.4 / np.sqrt(1.0 + np.arange(80 * ROWS) / 500)
    rates[change:] = 0.1 + 0.4 / np.sqrt(1.0 + np.arange(80 * ROWS - change) / 500)
    places = fired(watched("binary", (rng.random(len(rates)) < rates) * 1.0))
    assert places
    assert set(places) <= {40, 41}
    assert rates[:ROWS].mean() > 2 * rates[30 * ROWS]


def test_an_expert_that_is_overtaken_fires_where_the_learner_is_not_and_one_that_diverged_is_left_out() -> None:
    past = [Window(place * 256, 256, (44, 40, math.inf), 0) for place in range(4)]
    calm, struck = Window(1024, 256, (44, 44, math.nan), 0), Window(1024, 256, (44, 100, math.nan), 0)
    assert worse("binary", past, calm) > 0.1
    assert worse("binary", past, struck) <= LEVEL


def test_a_window_right_after_one_that_fired_tells_of_the_same_change() -> None:
    losses = np.zeros(12 * ROWS)
    losses[5 * ROWS :: 4] = 1.0
    losses[6 * ROWS :: 2] = 1.0
    watch = watched("binary", losses)
    assert fired(watch) == [5]
    assert watch.windows[6].p_value <= LEVEL


def test_the_test_of_mistakes_is_fishers() -> None:
    past, window = [Window(0, 300, (30,), 0), Window(300, 200, (18,), 0)], Window(500, 250, (40,), 0)
    table = [[40, 210], [18, 182]]  # the later half of two windows is the second
    assert worse("binary", past, window) == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue)


def test_windows_that_vary_among_themselves_need_more_than_mistakes_by_chance() -> None:
    window = Window(16 * 256, 256, (56,), 0)
    for errors, calm in (([10, 40] * 8, False), ([24, 26] * 8, True)):
        past = [Window(place * 256, 256, (total,), 0) for place, total in enumerate(errors)]
        assert sum(errors[8:]) == 200
        assert (worse("binary", past, window) <= LEVEL) == calm
        assert worse("binary", past[-6:], window) <= LEVEL


def test_windows_hold_all_rows_but_the_last_few_and_say_what_they_are() -> None:
    losses = np.zeros(5 * ROWS + 100)
    losses[3 * ROWS : 4 * ROWS : 2] = 1.0
    watch = watched("binary", losses, step=64)
    told = watch.as_json()
    assert [point[:3] for point in told["windows"]["points"]] == [
        [place * ROWS, ROWS, 0.5 if place == 3 else 0.0] for place in range(5)
    ]
    (signal,) = told["drift"]["signals"]
    assert (signal["first_row"], signal["last_row"], signal["error"]) == (3 * ROWS, 4 * ROWS - 1, 0.5)
    assert signal["past_error"] == 0.0
    assert signal["p_value"] < 1e-20
    assert told["drift"]["windows"] == 5
    assert math.isnan(watch.windows[0].past_error)
    assert len(watched("binary", np.zeros(5 * ROWS + 130)).windows) == 6
