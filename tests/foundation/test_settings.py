"""Settings recorded by older versions of okl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.solvers.settings import TrainSettings

RECORDED = Path(__file__).parents[1] / "data" / "bafc059" / "models" / "fogd" / "model.json"


def test_a_recorded_setting_that_was_removed_is_dropped_if_it_had_no_effect() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["configuration"]
    assert recorded["start"] == "own"
    settings = settings_from(TrainSettings, recorded | {"data": "rows.csv"}, "test")
    assert settings.solver == recorded["solver"]
    assert "start" not in settings.model_dump()


def test_a_recorded_setting_that_was_removed_is_refused_if_it_had_an_effect() -> None:
    with pytest.raises(ConfigError, match="test: 'start' is not an option"):
        settings_from(TrainSettings, {"data": "rows.csv", "solver": "c-svm", "start": "stochastic"}, "test")


@pytest.mark.parametrize("name", ["<b>x", "../../up", "", ".hidden", "a b", "x" * 101, "line\nend", "é"])
def test_names_of_models_and_runs_follow_one_rule(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a name: expected at most 100 characters"):
        settings_from(TrainSettings, {"data": "rows", "name": name}, "test")
