"""From the words of a command line to one object of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli import train_settings
from flows.options import gather, split_pairs
from okl.errors import ConfigError


def test_command_line_wins_over_pairs_and_pairs_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "okl.toml"
    config.write_text('frequencies = 10\npasses = 2\nseed = 3\n[ingest]\ntarget = "label"\nscale = "minmax"\n')
    settings = train_settings("data", {"seed": 5}, {"scale": "standard"}, str(config), ["passes=4", "epsilon=0.2"])
    assert (settings.frequencies, settings.passes, settings.seed, settings.epsilon) == (10, 4, 5, 0.2)
    assert settings.ingest is not None
    assert (settings.ingest.target, settings.ingest.scale) == ("label", "standard")
    assert Path(settings.data).is_absolute()


def test_pairs_are_read_as_toml_or_as_text() -> None:
    assert split_pairs(["step-size=0.5", "loss=logistic", "average=false", "rounds=4"]) == {
        "step_size": 0.5,
        "loss": "logistic",
        "average": False,
        "rounds": 4,
    }


def test_class_weights_and_holdout_are_parsed() -> None:
    given = {"class_weights": "a=1,b=2.5", "holdout": "0.25"}
    assert gather(given, {"class_weights": "class_weights", "holdout": "holdout"}) == {
        "class_weights": {"a": "1", "b": "2.5"},
        "holdout": 0.25,
    }
    assert gather({"holdout": "is_test"}, {"holdout": "holdout"}) == {"holdout": "is_test"}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["epsilon"], "takes KEY=VALUE"),
        (["epsilonn=1"], "'epsilonn' is not an option; it takes data, ingest, solver"),
        (["passes=0"], "passes = 0: input should be greater than or equal to 1"),
        (["order=sorted"], "order = 'sorted'"),
        (["bandwidth=wide"], "bandwidth = 'wide'"),
    ],
)
def test_wrong_pairs_say_what_is_expected(pairs: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train_settings("data", {}, {}, None, pairs)


def test_config_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml cannot be read"):
        train_settings("data", {}, {}, str(tmp_path / "absent.toml"), [])
    (tmp_path / "broken.toml").write_text("passes = = 2")
    with pytest.raises(ConfigError, match=r"broken\.toml is not TOML"):
        train_settings("data", {}, {}, str(tmp_path / "broken.toml"), [])
