"""Retraining at the command line: each new shard is used once, bad shards are reported, Prefect records each run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import okl
from flows.server import TemporaryServer
from okl.models.registry import Registry
from okl.report.retraining import summary_text
from tests.distributed.processes import soon
from tests.flows.commandline import Terminal
from tests.flows.conftest import query
from tests.lifecycle.shards import content, land
from tests.models.registered import publish

WORDS = ["--frequencies", "60", "--bandwidth", "1", "--step-size", "1", "--scale", "standard", "--key", "hour",
         "--settle-seconds", "0", "--publish-if", "not worse"]  # fmt: skip


def test_each_new_shard_is_trained_on_once_and_bad_shards_are_reported(
    configured: TemporaryServer, tmp_path: Path, terminal: Terminal
) -> None:
    inbox, registry = tmp_path / "inbox", tmp_path / "registry"
    words = ["retrain", "tides", str(inbox), "--registry", str(registry), *WORDS]
    for day in range(3):
        land(inbox, f"day-{day}.parquet", content(day, rows=1200))
    first = terminal.okl_json(*words)
    assert (first["outcome"], first["version"], first["parent"]) == ("published", 1, None)

    again = terminal.okl_json(*words)
    assert (again["outcome"], again["version"]) == ("nothing new", None)

    land(inbox, "day-3.parquet", content(3, rows=1200))
    land(inbox, "day-4.parquet", content(4, rows=10))
    second = terminal.okl_json(*words)
    assert [shard["name"] for shard in second["shards"]["accepted"]] == ["day-3.parquet"]
    (bad,) = second["shards"]["rejected"]
    assert bad["name"] == "day-4.parquet"
    assert bad["kinds"] == ["too-few-rows"]
    assert (second["outcome"], second["version"], second["parent"]) == ("published", 2, 1)
    summary = summary_text(second)
    assert "tides: published, version 2. " in summary
    assert bad["reason"].startswith("day-4.parquet ")
    command = f"okl retrain tides {inbox} --registry {registry} --release {bad['sha256'][:16]}"
    assert f"Warning: quarantined: {bad['reason']} To train on it anyway: {command}" in summary
    assert "shards: day-3.parquet (" in summary
    shown = terminal.okl("models", "show", "tides", "--registry", registry).out
    assert re.search(rf"day-4\.parquet +--release {bad['sha256'][:16]} +{re.escape(bad['reason'])}", shown)
    earlier_run = "already quarantined in an earlier run: day-4.parquet. Reasons: okl models show tides"
    assert earlier_run in terminal.okl(*words).out

    table = content(9)
    model = okl.load("tides@champion", registry)
    right = model.predict(np.column_stack([table[f"x{i}"].to_numpy() for i in range(4)])) == table["y"].to_numpy()
    assert right.mean() > 0.8 > max((table["y"].to_numpy() == label).mean() for label in (-1, 1))
    artifacts = query(configured.home, "select key from artifact where key like 'okl-retrain-tides-%'")
    assert {key for (key,) in artifacts} == {f"okl-retrain-tides-{part}" for part in ("progress", "metrics", "report")}
    promoted = "select count(*) from events where event = 'okl.model.promoted' and resource_id = 'okl.model.tides'"
    # events are stored with a delay; no other test on this server uses this model name
    assert soon(lambda: query(configured.home, promoted) == [(2,)]), query(configured.home, promoted)


def test_a_model_without_a_version_shows_its_quarantined_files(tmp_path: Path, terminal: Terminal) -> None:
    land(tmp_path / "inbox", "day-0.parquet", content(0, rows=10))
    words = ["tides", "--registry", str(tmp_path / "registry")]
    retrain_words: tuple[str | Path, ...] = ("retrain", *words, tmp_path / "inbox", *WORDS)
    assert terminal.okl(*retrain_words).code == 0
    assert [shard["name"] for shard in terminal.okl_json(*retrain_words)["shards"]["standing"]] == ["day-0.parquet"]
    assert terminal.okl(*retrain_words, "--on-bad", "stop").code == 2
    assert "the exit code stays 0: see shards.rejected of --json" in " ".join(
        terminal.okl("retrain", "--help").out.split()
    )
    shown = terminal.okl("models", "show", *words)
    assert (shown.code, "tides: no version yet" in shown.out) == (0, True), shown.err
    assert re.search(r"day-0\.parquet +--release \w+ +.*10 rows", shown.out)
    assert terminal.okl_json("models", "show", *words)["versions"] == []


def test_wrong_arguments_are_refused_in_one_sentence(tmp_path: Path, terminal: Terminal) -> None:
    outcome = terminal.okl("retrain", "hours")
    assert (outcome.code, "give the folder, URL or glob of the new files" in outcome.sentence) == (2, True)
    outcome = terminal.okl("retrain", "no/name", tmp_path)
    assert (outcome.code, "is not a name: expected at most 100 characters" in outcome.sentence) == (2, True)
    outcome = terminal.okl("retrain", "hours", tmp_path, "--set", "contract.min_rowz=3")
    assert (outcome.code, "min_rowz" in outcome.sentence) == (2, True)
    for words in (["retrain", "hours", str(tmp_path)], ["deploy", str(tmp_path), "--retrain", "hours"]):
        for flag, message in (
            ("rescale=standard", "--scale"),
            ("certify=true", "always certified"),
        ):
            name = flag.partition("=")[0]
            outcome = terminal.okl(*words, "--set", f"train.{flag}")
            assert (outcome.code, f"{name} = " in outcome.sentence, message in outcome.sentence) == (2, True, True)
            outcome = terminal.okl(*words, f"--{flag}")
            assert (outcome.code, f"--{name}" in outcome.err) == (2, True)
    needs_schedule = "--timezone needs a schedule: add --cron FIELDS."
    retrained = [str(tmp_path), "--retrain", "h"]
    for words, message in (
        (["--score-out", "scores"], "--score and --score-out need a retrained model: add --retrain NAME."),
        ([*retrained, "--score-out", "scores"], "--score-out needs rows to score: add --score SOURCE."),
        (["--timezone", "Europe/Zurich"], needs_schedule),
        ([*retrained, "--timezone", "Mars/Olympus"], needs_schedule),
    ):
        outcome = terminal.okl("deploy", *words)
        assert (outcome.code, message in outcome.sentence) == (2, True), outcome.sentence
    outcome = terminal.okl("deploy", tmp_path, "--retrain", "hours", "--rescale", "standard")
    assert "--rescale is not an option of retraining: shards are scaled like the first ones" in outcome.sentence
    assert "No such option: --out" in terminal.okl("deploy", tmp_path, "--out", tmp_path / "run").err


def test_a_deployment_that_would_fail_is_refused_at_once(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    words = ["deploy", str(tmp_path / "inbox"), "--retrain", "hours", "--registry", str(tmp_path / "registry")]
    absent = terminal.okl(*words)
    assert (absent.code, "inbox does not exist. Expected a folder of arriving files" in absent.sentence) == (2, True)
    (tmp_path / "inbox").mkdir()
    assert "Start one with `okl up`" in terminal.okl(*words).sentence, "files may come later"
    for name in ("a.csv", "b.csv"):
        (tmp_path / "inbox" / name).write_text("a,b\n1,2\n3,4\n")
    refused = terminal.okl(*words)
    assert (refused.code, "has no target column 'y'. Its columns are a, b." in refused.sentence) == (2, True)
    assert "Start one with `okl up`" in terminal.okl(*words, "--target", "b").sentence
    (tmp_path / "inbox" / "c.csv").write_text("a,y\n1,2\n3,4\n")
    assert "Start one with `okl up`" in terminal.okl(*words).sentence, "a run quarantines the other files"


def test_files_are_checked_with_the_settings_of_the_champion(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    publish(Registry(tmp_path / "registry").model("hours"), 1, promote=True)
    (tmp_path / "day.csv").write_text("a,b,c,at,y\n1,2,3,2026-11-22,no\n3,4,5,2026-11-23,yes\n")
    words = ["deploy", str(tmp_path / "day.csv"), "--registry", str(tmp_path / "registry"), "--retrain"]
    assert "Start one with `okl up`" in terminal.okl(*words, "hours").sentence, "at is an additional column"
    assert "column 'at' holds dates" in terminal.okl(*words, "huors", "--dates", "error").sentence
    other = terminal.okl(*words, "huors", "--dates", "drop", "--score", tmp_path / "rows.csv")
    assert "no model is named huors, so this creates a new one. Did you mean hours?" in other.err
    assert f"Warning: {tmp_path / 'rows.csv'} does not exist. Scoring fails until it does." in other.err


@pytest.fixture
def hours_run(home: Path) -> Path:
    """A folder in okl's home, named as the run folder of the data set hours."""
    folder = home / "runs" / "hours-20261124-165938-17852"
    folder.mkdir(parents=True)
    return folder


def test_retraining_under_the_name_of_a_run_shows_how_to_register_it(
    hours_run: Path, tmp_path: Path, terminal: Terminal
) -> None:
    words = ["retrain", "hours", str(tmp_path / "none.csv")]
    refused = terminal.okl(*words)
    advice = "register it first: okl models publish hours hours --promote. For a new model, choose another name."
    assert refused.code == 2
    assert refused.sentence.startswith(f"Error: hours is a run ({hours_run.name}), not a registered")
    assert refused.sentence.endswith(advice)
    assert not (tmp_path / "home" / "registry").exists()
    publish(Registry().model("hours"), 1, promote=True)
    assert "none.csv does not exist" in terminal.okl(*words).err


def test_predict_names_the_model_in_use_and_runs_lists_registered_models(
    hours_run: Path, tmp_path: Path, terminal: Terminal
) -> None:
    assert "in the registry" not in terminal.okl("runs").out, "there is none"
    publish(Registry().model("hours"), 1, promote=True)
    assert "models in the registry: hours; their retrainings: okl models show NAME" in terminal.okl("runs").out
    (tmp_path / "rows.csv").write_text("a,b,c\n1,2,3\n3,4,5\n")
    scored = terminal.okl("predict", "hours", tmp_path / "rows.csv", "--out", tmp_path / "scores")
    assert f"hours is hours@1, the champion in the registry; for the run: {hours_run.name}\n" in scored.err
    assert "rows scored by hours@1" in scored.out
