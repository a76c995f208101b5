"""Runs that track changing data: row order, windows, signals and certificates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.estimators.online import FOGDClassifier
from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.report.training import html_report, markdown_report, text_summary
from okl.runs.plan import check
from okl.solvers.settings import TrainSettings
from tests.rows import CHANGE, changing, train, train_settings, write
from tests.rows import CHANGING as ROWS


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("tracked")
    settings = train_settings(
        write(folder, changing()), folder / "run", track=True, certify=True, radius=4.0, threads=2
    )
    return train(settings)


def test_rows_are_tracked_in_their_order_and_the_change_is_signalled_within_a_window(result: dict[str, Any]) -> None:
    assert result["settings"]["order"] == "stored"
    windows, signals = result["windows"]["points"], result["drift"]["signals"]
    assert sum(count for _, count, _, _ in windows) == ROWS
    assert len(windows) == result["drift"]["windows"] == ROWS // 256
    mistakes = sum(count * error for _, count, error, _ in windows)
    assert mistakes == pytest.approx(ROWS * result["progressive"]["mistake_rate"])
    assert [one["first_row"] // 256 for one in signals] in ([CHANGE // 256], [CHANGE // 256 + 1])
    assert result["progressive"]["mistake_rate"] < 0.6 * result["baselines"]["linear"]["progressive"]["mistake_rate"]


def test_the_certificate_finds_the_change_and_bounds_the_loss(result: dict[str, Any]) -> None:
    proof = result["certificate"]
    assert (proof["kind"], proof["shown"], proof["rows"]) == ("tracking regret", True, ROWS)
    no_change, one_change, *others = proof["comparisons"]
    assert [one["changes"] for one in (no_change, one_change, *others)] == [0, 1, 2, 4, 8, 9]
    (row,) = one_change["rows"]
    assert abs(row - CHANGE) <= ROWS / 10
    assert no_change["regret"] < one_change["regret"]
    assert one_change["comparator_loss"] < 0.8 * no_change["comparator_loss"]
    for one in proof["comparisons"]:
        assert one["regret"] == pytest.approx(proof["loss"] - one["comparator_loss"])
        assert one["regret"] <= one["regret_at_most"] <= one["regret_at_most_anywhere"] <= proof["loss"]
    assert proof["mistakes"] <= proof["loss"]


def test_reports_show_windows_signal_and_certificate(result: dict[str, Any]) -> None:
    page, markdown, text = html_report(result), markdown_report(result), text_summary(result)
    assert "Error in each window" in page
    assert "model tracks changing data" in page
    for report in (page, markdown):
        assert "Drift: 1 of 16 windows" in report
        assert "Regret against models that change" in report
        assert "that change at most the given number of times" in report
    assert "Drift" in text
    assert "Regret (changes)" in text
    json.dumps(result, allow_nan=False)


def test_regression_is_tracked_in_stored_order_only(tmp_path: Path) -> None:
    source = write(tmp_path, changing("regression", 2))
    tracked = train(train_settings(source, tmp_path / "tracked", track=True))
    assert [one["first_row"] // 256 for one in tracked["drift"]["signals"]] in ([18], [19])
    shuffled = train(train_settings(source, tmp_path / "shuffled", track=True, order="shuffle"))
    assert "drift" not in shuffled
    assert shuffled["weights_sha256"] != tracked["weights_sha256"]
    stored = train(train_settings(source, tmp_path / "stored", order="stored", bandwidth=1.0, step_size=0.5))
    assert stored["windows"]["rows"] == tracked["windows"]["rows"] == 256
    assert "drift" not in stored
    assert "Error in each window" in html_report(stored)


def test_estimators_track_rows_in_stored_order() -> None:
    rows = changing()
    inputs, labels = np.column_stack([rows["a"].to_numpy(), rows["b"].to_numpy()]), rows["y"].to_numpy()
    tracker, fixed = (FOGDClassifier(n_frequencies=20, track=track, shuffle=False) for track in (True, False))
    for first in range(0, ROWS, 1024):
        tracker.partial_fit(inputs[first : first + 1024], labels[first : first + 1024], classes=[0, 1])
    tracked, untracked = tracker.state_.progress.error, fixed.fit(inputs, labels).state_.progress.error
    assert tracked < 0.9 * untracked
    assert tracker.score(inputs[CHANGE + 800 :], labels[CHANGE + 800 :]) > 0.85
    with pytest.raises(ConfigError, match="average = False is set, but track chooses"):
        FOGDClassifier(track=True, average=False).fit(inputs, labels)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"step_size": 0.5}, "step_size = 0.5 is set, but track"),
        ({"average": False}, "average = False is set, but track"),
        ({"certify": True}, "Set radius too"),
        ({"radius": 3.0}, "Set certify too"),
        ({"solver": "bsgd-removal"}, "has no track: it belongs to fogd or nogd"),
        ({"mode": "mix"}, "mode = 'mix', but track supports stream only"),
    ],
)
def test_invalid_options_of_tracking_are_refused(values: dict[str, Any], words: str, tmp_path: Path) -> None:
    source = write(tmp_path, changing())
    with pytest.raises(ConfigError, match=words):
        check(settings_from(TrainSettings, {"data": str(source), "track": True} | values, "test"))
