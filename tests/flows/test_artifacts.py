"""Artifacts: keys that Prefect takes, values that JSON can hold."""

from __future__ import annotations

import json
import math

import pytest

from flows.artifacts import artifact_key, clean
from flows.progress import TeeObserver, TerminalObserver, describe_metrics, terminal_observer
from okl.foundation.telemetry import NullObserver


@pytest.mark.parametrize("words", [("Okl Train", "Balanced_accuracy"), ("--a--", "b%"), ("ROC AUC",)])
def test_keys_are_lower_case_words_joined_by_single_dashes(words: tuple[str, ...]) -> None:
    key = artifact_key(*words)
    assert key
    assert set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert "--" not in key
    assert key.strip("-") == key


def test_cleaned_values_are_valid_json_and_finite_ones_stay() -> None:
    value = {"rows": [1, 2.5, -math.inf], "deep": {"nan": math.nan, 3: (True, None, "text")}}
    assert json.loads(json.dumps(clean(value), allow_nan=False)) == {
        "rows": [1, 2.5, "-inf"],
        "deep": {"nan": "nan", "3": [True, None, "text"]},
    }


def test_metrics_read_like_prose() -> None:
    assert (
        describe_metrics({"mistake_rate": 0.123456, "squared_loss": 2e-9}) == "mistake rate 0.1235, squared loss 2e-09"
    )


def test_without_a_terminal_nothing_is_drawn(capfd: pytest.CaptureFixture[str]) -> None:
    observer = TeeObserver(terminal_observer())
    observer.stage("learn")
    observer.advance(1, 2, {"mistake_rate": 0.5})
    observer.finish()
    assert isinstance(observer.observers[0], NullObserver)
    assert capfd.readouterr() == ("", "")


def test_the_bar_belongs_to_standard_error_and_ends_twice(capsys: pytest.CaptureFixture[str]) -> None:
    observer = TerminalObserver()
    observer.stage("learn")
    observer.advance(5, 10, {"mistake_rate": 0.25})
    observer.stage("save")
    observer.advance(5, 0, {})
    observer.finish()
    observer.finish()
    assert capsys.readouterr().out == ""
