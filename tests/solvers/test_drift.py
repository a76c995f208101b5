from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from okl.foundation.types import Task
from okl.solvers.base import LEVEL, DriftWatch, DriftWindow, SolverProgress, judge

ROWS, WINDOWS = 256, 100


def watch_losses(task: Task, losses: NDArray[np.floating[Any]], step: int = ROWS) -> DriftWatch:
    """Return the watch of a stream of losses that is updated every `step` rows."""
    watch, totals = DriftWatch(task, ROWS), np.cumsum(losses)
    for done in [*range(step, len(losses), step), len(losses)]:
        error = float(totals[done - 1]) / done
        watch.add(SolverProgress(done, len(losses), error, 0.5))
    return watch


def fired_windows(watch: DriftWatch) -> list[int]:
    return [index for index, window in enumerate(watch.windows) if window.fired]


def p_value_of(past: list[DriftWindow], window: DriftWindow) -> float:
    verdict = judge("binary", past, window)
    assert verdict is not None
    return verdict.p_value


@pytest.mark.parametrize("rate", [0.003, 0.05, 0.4])
def test_mistakes_at_one_rate_fire_in_a_thousandth_of_the_windows_at_most(rate: float) -> None:
    rng = np.random.default_rng(1)
    counts = [len(fired_windows(watch_losses("binary", (rng.random(ROWS * WINDOWS) < rate) * 1.0))) for _ in range(20)]
    assert max(counts) <= 1
    assert sum(counts) <= 2 * LEVEL * WINDOWS * len(counts)


def watch_snapshots(rates: list[NDArray[np.float64]], task: Task = "binary", level: float = LEVEL) -> DriftWatch:
    """Return the windows of a tracker: the snapshot of window a is wrong on rates[a][w] of the rows of window w."""
    rng, watch, n_rows = np.random.default_rng(4), DriftWatch(task, ROWS, level), len(rates) * ROWS
    for index in range(len(rates)):
        snapshots = range(max(0, index - 4), index)
        wrong = tuple(int(rng.binomial(ROWS, rates[model][index])) for model in snapshots)
        watch.add(SolverProgress((index + 1) * ROWS, n_rows, 0.1, 0.5, kept_wrong=wrong))
    return watch


def test_false_signals_of_snapshots_stay_within_the_level_at_any_error_rates() -> None:
    rates = [np.full(1000, rate) for rate in np.random.default_rng(5).choice([0.004, 0.1, 0.45], 1000)]
    assert len(fired_windows(watch_snapshots(rates))) <= 3
    assert 10 < len(fired_windows(watch_snapshots(rates, level=0.05))) <= 60


def test_snapshots_reveal_a_change_that_does_not_affect_the_error() -> None:
    change, rates = 30, [np.full(60, 0.3) for _ in range(60)]
    for model in range(change):
        rates[model][change:] = 0.55
    watch = watch_snapshots(rates)
    assert fired_windows(watch) == [change]
    assert np.ptp([window.error for window in watch.windows]) < 1e-9
    verdict = watch.windows[change].verdict
    assert verdict is not None
    assert 0.45 < verdict.rate < 0.65
    assert 0.2 < verdict.past_rate < 0.4
    assert fired_windows(watch_snapshots(rates, "regression")) == [change]
    assert watch.as_json()["drift"]["of_kept_models"]


def test_a_snapshot_is_compared_on_windows_that_it_was_not_trained_on() -> None:
    watch = DriftWatch("binary", ROWS)
    for index, wrong in enumerate([(), (90,), (50, 20), (30, 40, 25), (85, 26, 22, 28)]):
        watch.add(SolverProgress((index + 1) * ROWS, 10 * ROWS, 0.1, 0.5, kept_wrong=wrong))
    tables = {2: [[22], [25]], 3: [[26], [40, 20]], 4: [[85], [30, 50, 90]]}
    chances = []
    for here, past in tables.values():
        table = [[sum(one), ROWS * len(one) - sum(one)] for one in (here, past)]
        chances.append(stats.fisher_exact(table, alternative="greater").pvalue)
    verdict = watch.windows[-1].verdict
    assert verdict is not None
    assert verdict.p_value == pytest.approx(3 * min(chances))


def test_squared_errors_of_a_learner_without_experts_are_not_tested() -> None:
    losses = np.ones(40 * ROWS)
    losses[20 * ROWS :] = 100.0
    watch = watch_losses("regression", losses)
    assert fired_windows(watch) == []
    assert "drift" not in watch.as_json()
    assert "drift" in watch_losses("binary", losses / 100.0).as_json()


def test_a_learner_that_improves_does_not_fire_and_one_that_is_overtaken_fires_within_a_window() -> None:
    rng = np.random.default_rng(3)
    change = 40 * ROWS + 100
    rates = 0.1 + 0.4 / np.sqrt(1.0 + np.arange(80 * ROWS) / 500)
    rates[change:] = 0.1 + 0.4 / np.sqrt(1.0 + np.arange(80 * ROWS - change) / 500)
    places = fired_windows(watch_losses("binary", (rng.random(len(rates)) < rates) * 1.0))
    assert places
    assert set(places) <= {40, 41}
    assert rates[:ROWS].mean() > 2 * rates[30 * ROWS]


def test_a_window_right_after_a_signal_shows_the_same_change() -> None:
    losses = np.zeros(12 * ROWS)
    losses[5 * ROWS :: 4] = 1.0
    losses[6 * ROWS :: 2] = 1.0
    watch = watch_losses("binary", losses)
    assert fired_windows(watch) == [5]
    after = watch.windows[6].verdict
    assert after is not None
    assert after.p_value <= LEVEL


def test_mistakes_are_compared_by_fishers_test() -> None:
    past, window = [DriftWindow(0, 300, 30, 0), DriftWindow(300, 200, 18, 0)], DriftWindow(500, 250, 40, 0)
    table = [[40, 210], [18, 182]]  # the second window is the later half
    assert p_value_of(past, window) == pytest.approx(stats.fisher_exact(table, alternative="greater").pvalue)


def test_windows_with_varying_errors_require_a_larger_increase() -> None:
    window = DriftWindow(16 * 256, 256, 56, 0)
    for errors, is_steady in (([10, 40] * 8, False), ([24, 26] * 8, True)):
        past = [DriftWindow(index * 256, 256, total, 0) for index, total in enumerate(errors)]
        assert sum(errors[8:]) == 200
        assert (p_value_of(past, window) <= LEVEL) == is_steady
        assert p_value_of(past[-6:], window) <= LEVEL


def test_windows_hold_all_rows_but_an_incomplete_last_window() -> None:
    losses = np.zeros(5 * ROWS + 100)
    losses[3 * ROWS : 4 * ROWS : 2] = 1.0
    watch = watch_losses("binary", losses, step=64)
    report = watch.as_json()
    assert [point[:3] for point in report["windows"]["points"]] == [
        [index * ROWS, ROWS, 0.5 if index == 3 else 0.0] for index in range(5)
    ]
    (signal,) = report["drift"]["signals"]
    assert (signal["first_row"], signal["last_row"], signal["rate"]) == (3 * ROWS, 4 * ROWS - 1, 0.5)
    assert signal["past_rate"] == 0.0
    assert signal["p_value"] < 1e-20
    assert report["drift"]["windows"] == 5
    assert watch.windows[0].verdict is None
    assert len(watch_losses("binary", np.zeros(5 * ROWS + 130)).windows) == 6
