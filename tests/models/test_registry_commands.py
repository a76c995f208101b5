"""The commands `okl models ...`, and scoring by NAME@VERSION, as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import okl
from okl.models.file import save_model
from okl.models.registry import Registry
from tests.flows.commandline import Terminal
from tests.models.registered import SCHEMA, lineage, model_numbered, publish, writer


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    monkeypatch.setenv("OKL_REGISTRY", str(tmp_path / "registry"))
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    return Terminal(capsys, monkeypatch)


def rows_in(folder: Path) -> Path:
    draw = np.random.default_rng(1)
    columns = {name: draw.standard_normal(40).astype(np.float32) for name in SCHEMA.features}
    pq.write_table(pa.table(columns | {"y": np.where(draw.random(40) < 0.5, "no", "yes")}), folder / "rows.parquet")
    return folder / "rows.parquet"


def test_the_winner_of_a_comparison_keeps_the_report_of_the_comparison(terminal: Terminal, tmp_path: Path) -> None:
    for number, result in ((1, {"progressive": {"mistake_rate": 0.1}}), (2, {"winner": {}, "models": []})):
        save_model(model_numbered(number), tmp_path / f"run{number}" / "model")
        (tmp_path / f"run{number}" / "result.json").write_text(json.dumps(result))
        (tmp_path / f"run{number}" / "report.html").write_text(f"page {number}")
    assert terminal.okl_json("models", "publish", "churn", tmp_path / "run1")["new"]
    compared = terminal.okl_json("models", "publish", "churn", tmp_path / "run2")
    assert (Path(compared["folder"]) / "report.html").read_text() == "page 2"


def test_before_the_first_model_the_list_is_empty_and_a_registry_elsewhere_is_missing(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.okl("models", "list").code == 2, "the one that OKL_REGISTRY names"
    monkeypatch.delenv("OKL_REGISTRY")
    empty = terminal.okl("models", "list")
    assert (empty.code, empty.out) == (0, f"{tmp_path / 'home' / 'registry'}\nno model has a version yet\n")
    assert terminal.okl("models", "list", "--registry", tmp_path / "typo").code == 2


def test_a_model_is_published_promoted_and_rolled_back_from_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    for number in (1, 2):
        save_model(model_numbered(number), tmp_path / f"run{number}" / "model")
        (tmp_path / f"run{number}" / "result.json").write_text(json.dumps({"test": {"mistake_rate": 0.1 * number}}))
    first = terminal.okl_json("models", "publish", "churn", tmp_path / "run1", "--promote", "--why", "to begin with")
    assert (first["version"], first["new"]) == (1, True)
    assert (Path(first["folder"]) / "result.json").exists()
    assert not terminal.okl_json("models", "publish", "churn", tmp_path / "run1" / "model")["new"]
    assert terminal.okl_json("models", "publish", "churn", tmp_path / "run2")["version"] == 2
    refused = terminal.okl("models", "publish", "churn", tmp_path / "run2", "--threshold", "0.3")
    assert (refused.code, "no probabilities" in refused.sentence) == (2, True), refused.sentence
    moved = terminal.okl_json("models", "promote", "churn", "2", "--expect", "1", "--why", "better")
    assert moved["aliases"] == {"champion": 2, "previous": 1}
    refused = terminal.okl("models", "promote", "churn", "1", "--expect", "1")
    assert refused.code == 1
    assert "Error: The alias champion of churn is now churn@2, not churn@1" in refused.sentence
    listed = terminal.okl("models", "list").out.splitlines()
    assert listed[1].split() == ["model", "champion", "previous", "candidate", "versions", "last", "change"]
    assert listed[2].split()[:5] == ["churn", "2", "1", "-", "2"]
    shown = terminal.okl("models", "show", "churn").out
    assert "better" in shown
    assert "to begin with" in shown
    assert "test.mistake_rate 0.2" in shown
    one = terminal.okl_json("models", "show", "churn@champion", "--verify")
    assert (one["version"], one["metrics"], one["ancestors"]) == (2, {"test": {"mistake_rate": 0.2}}, [])
    for name in ("churn", "churn@2"):
        verified = ["Verified" in terminal.okl("models", "show", name, *more).out for more in ([], ["--verify"])]
        assert verified == [False, True], name
    short, whole = (terminal.okl("models", "show", "churn@2", *more).out for more in ([], ["--all"]))
    assert "metrics.test.mistake_rate  0.2" in short
    assert "weights_sha256" in whole
    assert len(short) < len(whole)
    assert re.search(r"learnt +1 shard, \d+ rows\n", short)
    assert "weights_sha256" not in short
    differing = terminal.okl_json("models", "diff", "churn", "previous", "champion")
    assert differing["settings"].keys() == {"number", "weights_sha256"}
    assert differing["metrics"] == {"test.mistake_rate": [0.1, 0.2]}
    assert "churn@1" in terminal.okl("models", "diff", "churn", "1", "2").out
    assert terminal.okl_json("models", "diff", "churn@1", "churn@2") == differing
    assert "takes two versions of one model" in terminal.okl("models", "diff", "churn@1", "chrun@2").sentence
    assert terminal.okl_json("models", "diff", "churn") == differing
    pinned = "churn@2 is pinned: retraining trains nothing. To release it: okl models unpin churn\n"
    assert terminal.okl("models", "pin", "churn", "--why", "audit").out == pinned
    assert "pinned" in terminal.okl("models", "show", "churn").out
    assert terminal.okl("models", "unpin", "churn").out == "churn@2 is not pinned.\n"
    assert terminal.okl("models", "rollback", "churn").out == "churn: champion 1 (before: 2)\n"
    again = terminal.okl("models", "rollback", "churn")
    assert (again.code, "has no earlier champion to roll back to" in again.sentence) == (2, True)


@pytest.mark.parametrize(
    ("criterion", "own", "constant", "shown"),
    [
        (
            "log-loss",
            {"accuracy": 0.95, "log_loss": 0.15},
            {"log_loss": 0.2},
            "Log loss 0.1500 (majority or mean: 0.2000)",
        ),
        ("auc", {"mistake_rate": 0.1, "roc_auc": 0.8}, {"roc_auc": 0.5}, "ROC AUC 0.8000 (majority or mean: 0.5000)"),
        ("squared-error", {"mse": 4.0, "rmse": 2.0}, {"mse": 9.0, "rmse": 3.0}, "error 2 (majority or mean: 3)"),
    ],
)
def test_a_published_run_is_listed_by_its_criterion_with_its_baseline(
    criterion: str, own: dict[str, float], constant: dict[str, float], shown: str, terminal: Terminal, tmp_path: Path
) -> None:
    baseline = {"mean" if criterion == "squared-error" else "majority": {"test": constant}}
    save_model(model_numbered(1), tmp_path / "run" / "model")
    result = {"criterion": criterion, "test": own, "baselines": baseline}
    (tmp_path / "run" / "result.json").write_text(json.dumps(result))
    terminal.okl("models", "publish", "churn", tmp_path / "run")
    listed = terminal.okl("models", "show", "churn").out
    assert re.search(rf"{re.escape(shown)}\n", listed), listed
    assert "metrics.baseline." in terminal.okl("models", "show", "churn@1").out


def test_names_of_runs_and_registered_models_select_their_models(
    terminal: Terminal, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs, rows = tmp_path / "home" / "runs", rows_in(tmp_path)
    for number, run in enumerate(("first-20260101-101010-7", "first-20260102-101010-7", "churn-20260103-101010-7"), 1):
        save_model(model_numbered(number), runs / run / "model")
    for given in ("churn", "churn-20260103-101010-7", runs / "churn-20260103-101010-7"):
        assert terminal.okl_json("evaluate", given, rows)["model"] == str(runs / "churn-20260103-101010-7" / "model")
    assert caplog.messages == []
    assert terminal.okl_json("evaluate", "first", rows)["model"] == str(runs / "first-20260102-101010-7" / "model")
    (message,) = caplog.messages  # preceded by the name of a run, if this process has one
    assert message.endswith("first is first-20260102-101010-7, the newest of 2 runs of this name.")
    output = terminal.okl("models", "publish", "other", "first-20260101-101010-7", "--promote").out
    assert output.endswith("\nchampion of other: 1\n")
    output = terminal.okl("models", "publish", "churn", "first-20260101-101010-7").out
    assert "champion of churn: none; to promote version 1: okl models promote churn 1" in output
    refused = terminal.okl("evaluate", "churn", rows).sentence
    assert (
        "no alias 'champion'; its aliases: none. Give an alias or a version number. To set it: okl models promote "
        "churn 1." in refused
    )
    assert "okl models promote churn names no version" in terminal.okl("models", "promote", "churn").sentence
    assert terminal.okl("models", "promote", "churn@1").out == "churn: champion 1 (before: none)\n"
    assert terminal.okl_json("evaluate", "churn", rows)["model"] == "churn@1"
    assert terminal.okl_json("explain", "churn", rows)["model"] == "churn@1"
    again = okl.load("churn").scores(np.ones((1, len(SCHEMA.features))))
    np.testing.assert_array_equal(again, model_numbered(1).scores(np.ones((1, len(SCHEMA.features)))))


def test_figures_of_a_version_come_first_and_those_of_its_comparison_are_named(terminal: Terminal) -> None:
    model = Registry().model("churn")
    metrics = {"champion": {"mistake_rate": 0.3533}, "challenger": {"mistake_rate": 0.18, "roc_auc": 0.9}}
    decision = {"reason": "Published: better.", "overall": {"rows": 1234}}
    model.publish(writer(1), lineage(1, metrics=metrics, decision=decision), promote=True)
    shown = terminal.okl("models", "show", "churn").out
    assert "mistakes 18.00% (before: 35.33%) on 1,234 rows\nbefore: the previous champion" in shown
    one = terminal.okl("models", "show", "churn@1").out
    assert re.search(
        "measured on +1,234 reserved rows of the latest shards at that time; before: majority class or mean\n", one
    )
    assert "0.1800 (before: 0.3533)" in one
    assert not [line for line in one.splitlines() if "metrics.champion" in line]
    again: dict[str, Any] = {"champion": {"mistake_rate": 0.2}, "challenger": {"mistake_rate": 0.1}}
    again["certificate"] = {"gap": 1e-3, "floor": 4e-17}
    overall = {"rows": 567, "champion": 0.4321, "challenger": 0.3211}
    decision = {"reason": "Published: as good.", "criterion": "log-loss", "overall": overall}
    model.publish(writer(2), lineage(2, 1, metrics=again, decision=decision), promote=True)
    assert "log loss 0.3211 (before: 0.4321) on 567 rows\n" in terminal.okl("models", "show", "churn").out
    assert re.search(r"decided by +log loss 0.3211 \(before: 0.4321\)", terminal.okl("models", "show", "churn@2").out)
    output = terminal.okl("models", "diff", "churn", "1", "2").out
    assert re.search(r"\nmetrics on +1,234 reserved rows +567 reserved rows\n", output)
    assert "the rows differ by version\n" in output
    assert "certificate" not in output
    lines = output.splitlines()
    found = dict(line.split(maxsplit=1) for line in lines if line.startswith("metrics"))
    assert found["metrics.mistake_rate"].split() == ["0.1800", "0.1000"]
    assert found["metrics.before.mistake_rate"].split() == ["0.3533", "0.2000"]
    assert [line for line in lines if line.startswith("churn@")] == [
        "churn@1: Published: better.",
        "churn@2: Published: as good.",
    ]
    assert not [line for line in lines if line.startswith("decision")]


def test_new_rows_and_training_rows_are_counted_separately(terminal: Terminal) -> None:
    model = Registry().model("churn")
    environments: list[dict[str, object]] = [
        {"how": "started anew on 1 shards"},
        {"how": "continued with 1 new shards"},
        {"how": "solved on the latest 2 shards", "window_rows": 190},
        {"how": "solved anew over the latest 2 shards"},  # by an older okl, which did not store the number of rows
    ]
    for number, environment in enumerate(environments, 1):
        model.publish(writer(number), lineage(number, number - 1 or None, environment=environment), promote=True)
    versions = terminal.okl_json("models", "show", "churn")["versions"]
    assert [(one["rows"], one["learnt_rows"]) for one in versions[::-1]] == [
        (100, 100),
        (100, 200),
        (100, 190),
        (100, None),
    ]
    third = re.split(" {2,}", terminal.okl("models", "show", "churn").out.splitlines()[3])
    assert third[2:6] == ["2", "1", "100", "190 rows"]
    output = terminal.okl("models", "show", "churn", "3").out
    assert output == terminal.okl("models", "show", "churn@3").out
    assert re.search(r"\nnew +1 shard, 100 rows; with all ancestors 3 shards, 300 rows\n", output)
    assert re.search(r"\ntrained on +190 rows: solved on the latest 2 shards\n", output)
    assert terminal.okl_json("models", "show", "churn", "previous")["learnt_rows"] == 190
    assert "takes exactly one version" in terminal.okl("models", "show", "churn@3", "3").sentence


def test_similar_names_of_models_and_runs_are_suggested(terminal: Terminal, tmp_path: Path) -> None:
    publish(Registry().model("churn"), 1, promote=True)
    rows, runs = rows_in(tmp_path), tmp_path / "home" / "runs"
    save_model(model_numbered(2), runs / "first-20260101-101010-7" / "model")
    (runs / ".frist-20260102-101010-7.unfinished-0123abcd").mkdir()
    for given, meant in (
        ("chrun", "churn"),
        ("frist", "first"),
        ("first-20260101-101010-8", "first-20260101-101010-7"),
    ):
        refused = terminal.okl("predict", given, rows, "--out", tmp_path / "scores")
        assert refused.code == 2
        assert f"No folder, run or registered model is named '{given}'. Did you mean {meant}?" in refused.sentence
        assert "unfinished" not in refused.sentence
    assert "Did you mean first?" in terminal.okl("models", "publish", "other", "frist").sentence
    unlike = terminal.okl("models", "publish", "churn", "no such run").sentence
    assert "Did you mean" not in unlike
    assert "the name of a run (okl runs lists them)" in unlike


def test_pruning_reports_the_removed_versions(terminal: Terminal, tmp_path: Path) -> None:
    model = Registry().model("churn")
    for number in range(1, 6):
        publish(model, number, number - 1 or None, promote=number < 3)
    assert terminal.okl("models", "prune", "churn", "--keep", "1", "--dry-run").out.startswith(
        "would remove the files of versions 3, 4 ("
    )
    assert terminal.okl_json("models", "prune", "churn", "--keep", "1")["versions"] == [3, 4]
    assert terminal.okl("models", "prune", "churn", "--keep", "1").out == "nothing to prune\n"
    assert "pruned" in terminal.okl("models", "show", "churn").out
    shards = terminal.okl_json("models", "diff", "churn", "2", "4")["shards_of_second_only"]
    assert [shard["sha256"] for shard in shards] == [lineage(number).shards[0]["sha256"] for number in (3, 4)]
    description = terminal.okl_json("models", "show", "churn@5")
    assert (description["ancestors"], description["shards_in_all"], description["rows_in_all"]) == (
        [4, 3, 2, 1],
        5,
        500,
    )


def test_rows_are_scored_and_measured_by_the_version_that_an_alias_names(terminal: Terminal, tmp_path: Path) -> None:
    model, rows = Registry().model("churn"), rows_in(tmp_path)
    publish(model, 1, promote=True)
    publish(model, -2, 1, promote=True)
    measured = {which: okl.evaluate(f"churn@{which}", rows) for which in ("champion", "previous")}
    assert [found["model"] for found in measured.values()] == ["churn@2", "churn@1"]
    assert measured["previous"]["metrics"] != measured["champion"]["metrics"]
    by_command = terminal.okl_json("evaluate", "churn@champion", rows)
    assert (by_command["model"], by_command["metrics"]) == ("churn@2", measured["champion"]["metrics"])
    output = terminal.okl("predict", "churn@champion", rows, "--out", tmp_path / "told").out
    assert "40 rows scored by churn@2 in " in output
    streamed = terminal.okl("predict", "churn@2", rows, "--out", "-").out
    assert len(streamed.splitlines()) == 41
    assert streamed == terminal.okl("predict", "churn@2", rows).out
    scored = okl.predict("churn@champion", rows, tmp_path / "scores", registry=str(tmp_path / "registry"))
    assert scored["model"] == "churn@2"
    again = okl.predict(model.version(2).model_folder, rows, tmp_path / "again")
    assert pq.read_table(tmp_path / "scores") == pq.read_table(tmp_path / "again")
    assert scored["predictions"] == again["predictions"]
    refused = terminal.okl("predict", "churn@candidate", rows, "--out", tmp_path / "none")
    assert (
        "churn has no alias 'candidate'; its aliases: champion (2), previous (1). Give an alias or" in refused.sentence
    )
    unknown: list[tuple[str | Path, ...]] = [
        ("evaluate", "chrun@champion", rows),
        ("models", "show", "chrun"),
        ("models", "rollback", "chrun"),
    ]
    for arguments in unknown:
        sentence = terminal.okl(*arguments).sentence
        assert "has no model chrun" in sentence
        assert "Did you mean churn?" in sentence


def test_an_alias_that_moves_while_rows_are_scored_does_not_change_the_scores(
    terminal: Terminal, tmp_path: Path
) -> None:
    from okl.runs.predict import ScoreSettings, ScoringRun

    model, rows = Registry().model("churn"), rows_in(tmp_path)
    publish(model, 1, promote=True)
    whole = okl.predict("churn@1", rows, tmp_path / "whole")
    run = ScoringRun(ScoreSettings(model="churn@champion", source=str(rows), out=str(tmp_path / "scores")))
    run.check()
    publish(model, -2, 1, promote=True)
    run.score()
    run.report()
    run.close()
    assert run.result()["model"] == "churn@1"
    assert run.result()["predictions"] == whole["predictions"]
    assert pq.read_table(tmp_path / "scores") == pq.read_table(tmp_path / "whole")
