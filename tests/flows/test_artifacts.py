"""Artifacts: keys that Prefect accepts, values that JSON can store."""

from __future__ import annotations

import json
import math
import re
import time
from types import SimpleNamespace

import pytest

from flows.artifacts import artifact_key, clean
from okl.report import progress
from okl.report.progress import LineObserver, TerminalObserver, describe_metrics, terminal_observer


@pytest.mark.parametrize("words", [("Okl Train", "Balanced_accuracy"), ("--a--", "b%"), ("ROC AUC",)])
def test_keys_are_lower_case_words_joined_by_single_dashes(words: tuple[str, ...]) -> None:
    key = artifact_key(*words)
    assert key
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert "--" not in key
    assert key.strip("-") == key


def test_cleaned_values_are_valid_json_and_finite_values_are_unchanged() -> None:
    value = {"rows": [1, 2.5, -math.inf], "deep": {"nan": math.nan, 3: (True, None, "text")}}
    assert json.loads(json.dumps(clean(value), allow_nan=False)) == {
        "rows": [1, 2.5, "-inf"],
        "deep": {"nan": "nan", "3": [True, None, "text"]},
    }


def test_metrics_are_described_in_plain_text() -> None:
    assert (
        describe_metrics({"mistake_rate": 0.123456, "squared_loss": 2e-9}) == "mistake rate 0.1235, squared loss 2e-09"
    )


def test_without_a_terminal_only_a_long_run_prints_lines(capfd: pytest.CaptureFixture[str]) -> None:
    short, long = terminal_observer(), LineObserver(0.0)
    for observer in (short, long):
        assert isinstance(observer, LineObserver)
        observer.stage("learn")
        observer.advance(1, 2, {"mistake_rate": 0.5})
        observer.advance(3, 0, {})
        observer.finish()
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"training \.\.\.\ntraining: 0 s, 50% done, mistake rate 0\.5\ntraining: 0 s\n", err)


def test_the_first_line_is_printed_early_and_a_stage_without_progress_is_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.0, 9.0, 10.0, 39.0, 45.0, 50.0, 55.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    observer = LineObserver()
    observer.stage("plan")
    for _ in range(3):
        observer.advance(0, 0, {})
    for stage in ("baselines", "evaluate", "save"):
        observer.stage(stage)
    observer.finish()
    assert capfd.readouterr().err == "choosing the model: 10 s\ntraining the baselines ...\nsaving ...\n"


def test_a_long_stage_without_progress_still_prints_lines(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "CHECK_SECONDS", 0.01)
    observer, ended = LineObserver(0.05), time.monotonic() + 30.0
    observer.stage("evaluate")
    err = ""
    while err.count("evaluating: 0 s\n") < 2 and time.monotonic() < ended:
        err += capfd.readouterr().err
    observer.stage("plan")
    observer.advance(65, 100, {})
    while "choosing the model: 0 s, 65% done\n" not in err and time.monotonic() < ended:
        err += capfd.readouterr().err
    observer.finish()
    assert time.monotonic() < ended, err


@pytest.mark.parametrize("stage", ["plan", "choose"])
def test_no_remaining_time_is_shown_if_steps_take_longer_and_longer(
    stage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    observer = LineObserver(0.0)
    observer.stage(stage)
    observer.advance(1, 100, {})
    observer.advance(65, 100, {})
    observer.finish()
    err = capfd.readouterr().err
    assert "65% done" in err
    assert "left" not in err


def test_remaining_time_ignores_the_time_before_the_first_report(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass over the file before its rows are counted must not make 'about 4575 s left' of 30 s."""
    observer, clock = LineObserver(10.0), iter([0.0, 29.0, 31.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    observer.stage("ingest")
    observer.printed = 20.0
    observer.advance(1, 101, {})
    observer.advance(51, 101, {})
    observer.finish()
    assert capfd.readouterr().err == "reading rows: 31 s, 50% done, about 2 s left\n"


def test_the_progress_bar_is_on_standard_error_and_finish_may_be_called_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    observer = TerminalObserver()
    observer.stage("learn")
    observer.advance(5, 10, {"mistake_rate": 0.25})
    observer.stage("save")
    observer.advance(5, 0, {})
    observer.finish()
    observer.finish()
    assert capsys.readouterr().out == ""
