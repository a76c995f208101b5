"""Parsing of command-line options into settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.cli.options import OTHER, TRAIN, Options, metavar, resumed_settings, split_pairs, train_settings
from okl.foundation.errors import ConfigError
from okl.foundation.settings import IngestSettings, settings_from
from okl.lifecycle.settings import RetrainSettings
from okl.solvers.settings import TrainSettings, solver_settings


def test_command_line_wins_over_pairs_and_pairs_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "okl.toml"
    config.write_text('frequencies = 10\npasses = 2\nseed = 3\n[ingest]\ntarget = "label"\nscale = "minmax"\n')
    settings = train_settings("data", {"seed": 5}, {"scale": "standard"}, str(config), ["passes=4", "epsilon=0.2"])
    values = settings.model_dump()
    assert [values[name] for name in ("frequencies", "passes", "seed", "epsilon")] == [10, 4, 5, 0.2]
    assert settings.ingest is not None
    assert (settings.ingest.target, settings.ingest.scale) == ("label", "standard")
    assert Path(settings.data).is_absolute()


def test_a_resumed_run_keeps_its_scheduler_unless_workers_are_given() -> None:
    run = train_settings("data", {"scheduler": "tcp://127.0.0.1:1"}, {}, None, [])
    for options, expected in (({"threads": 2}, (0, run.scheduler)), ({"workers": 2}, (2, None))):
        resumed = resumed_settings(run, None, options, {}, None, [])
        assert (resumed.workers, resumed.scheduler) == expected


def test_pairs_are_read_as_toml_or_as_text() -> None:
    assert split_pairs(["step-size=0.5", "loss=logistic", "average=false", "rounds=4"]) == {
        "step_size": 0.5,
        "loss": "logistic",
        "average": False,
        "rounds": 4,
    }


def test_class_weights_and_holdout_are_parsed() -> None:
    assert TRAIN.given(dict.fromkeys(TRAIN.fields), {"class_weights": "a=1,b=c=2.5"}) == {
        "class_weights": {"a": "1", "b=c": "2.5"}
    }
    holdout = Options(IngestSettings, {OTHER: ("holdout",)})
    assert holdout.given({"holdout": "0.25"}) == {"holdout": 0.25}
    assert holdout.given({"holdout": "is_test"}) == {"holdout": "is_test"}
    assert holdout.given({"holdout": None}) == {}


@pytest.mark.parametrize("text", ["a=1,b", "=1", "a=", "a=1,,b=2"])
def test_class_weights_that_are_no_pairs_are_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="use none, balanced or LABEL=WEIGHT,LABEL=WEIGHT"):
        TRAIN.given(dict.fromkeys(TRAIN.fields), {"class_weights": text})


def test_every_training_setting_has_an_option_or_a_pair() -> None:
    assert set(TRAIN.fields) < set(TrainSettings.model_fields)
    settings = train_settings("data", {}, {}, None, ["ingest.compression-level=9", 'step-rule="plain"'])
    assert settings.ingest is not None
    assert (settings.ingest.compression_level, settings.model_dump()["step_rule"]) == (9, "plain")
    assert metavar(solver_settings("fogd").model_fields["step_size"].annotation) == "NUMBER|auto"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["epsilon"], "use KEY=VALUE"),
        (
            ["epsilonn=1"],
            r"'epsilonn' is not an option \(did you mean epsilon\?\)\.$",
        ),
        (["passes=0"], "passes = 0: input should be greater than or equal to 1"),
        (["order=sorted"], "order = 'sorted'"),
        (["bandwidth=wide"], "bandwidth = 'wide'"),
    ],
)
def test_message_for_a_wrong_pair_describes_what_is_expected(pairs: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train_settings("data", {}, {}, None, pairs)


def test_config_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml cannot be read"):
        train_settings("data", {}, {}, str(tmp_path / "absent.toml"), [])
    (tmp_path / "broken.toml").write_text("passes = = 2")
    with pytest.raises(ConfigError, match=r"broken\.toml is not TOML"):
        train_settings("data", {}, {}, str(tmp_path / "broken.toml"), [])
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"binary\.toml is not TOML"):
        train_settings("data", {}, {}, str(tmp_path / "binary.toml"), [])
    (tmp_path / "flat.toml").write_text("ingest = 3")
    with pytest.raises(ConfigError, match=r"ingest = 3, but it must be a table"):
        train_settings("data", {}, {}, str(tmp_path / "flat.toml"), [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("pases = 2", r"'pases' is not an option \(did you mean passes\?\)\.$"),
        ("xy = 2\nzz = 2", r"'xy' is not an option; 'zz' is not an option; valid options: [^:]*data, ingest, solver"),
        ('[ingest]\ntargt = "y"', r"'targt' is not an option \(did you mean target\?\)"),
        ('key = ["a"]', r"'key' is not an option \(did you mean ingest.keys, \[ingest\] keys in TOML\?\)\.$"),
        ("epsilon = nan", "epsilon = nan"),
        ("epsilon = inf", "epsilon = inf"),
        ("frequencies = 1.5", r"frequencies = 1\.5"),
        ("rounds = 0", "rounds = 0"),
        ("threads = 0", "threads = 0"),
        ("[class-weights]\na = nan", r"class_weights = .*nan.*finite number"),
    ],
)
def test_config_file_with_wrong_values_names_them(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "okl.toml").write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        train_settings("data", {}, {}, str(tmp_path / "okl.toml"), [])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"budget_seconds": 8.0}, r"\(did you mean train\.budget_seconds, \[train\] budget_seconds in TOML\?\)\.$"),
        ({"ingest": {"key": ["a"]}}, r"'ingest.key' is .* \(did you mean ingest\.keys, \[ingest\] keys in TOML\?\)"),
        ({"ingest": {"xy": 1}}, r"'ingest.xy' is not an option; valid options of ingest: target, task"),
        ({"ingst": {"xy": 1}}, r"'ingst' is not an option \(did you mean ingest\?\)"),
    ],
)
def test_message_for_a_setting_in_the_wrong_table_names_the_right_one(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        settings_from(RetrainSettings, {"name": "m", "source": "in"} | values, "okl deploy")
