"""Interrupted and resumed runs: the same report, and no files left."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest

from okl.foundation.errors import CheckpointError, DivergedError
from okl.foundation.folders import KEPT_SECONDS, NAMED, RunFolder, checkpoints_in
from okl.foundation.settings import settings_from
from okl.runs import candidates, model_sizes
from okl.runs import train as train_module
from okl.runs.checkpoint import Origin, check_same_settings, find_unfinished, newest_origin, settings_of, with_mode_of
from okl.solvers.ridge import cells
from okl.solvers.settings import TrainSettings
from tests.rows import Breaker, curved, train, train_settings, write

TIMES = ("seconds", "total_seconds", "rows_per_second", "peak_memory_bytes", "resumed", "rounds", "timeline")


def comparable_result(result: Any, folder: Path) -> Any:
    """Return a result without times and paths."""
    if isinstance(result, dict):
        return {name: comparable_result(value, folder) for name, value in result.items() if name not in TIMES}
    return result.replace(str(folder), "RUN").replace(folder.name, "NAME") if isinstance(result, str) else result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    pyarrow.csv.write_csv(curved(1000), tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


ONCE: dict[str, Any] = {"passes": 2, "checkpoint_rounds": 1, "order": "stored"}
TO_AN_OPTIMUM: dict[str, Any] = {"solver": "l1-logistic", "tol": 1e-2, "checkpoint_rounds": 1}


@pytest.mark.parametrize(
    ("values", "stage", "steps"),
    [(ONCE, "learn", 5), (ONCE, "report", 0), (TO_AN_OPTIMUM, "learn", 2), (TO_AN_OPTIMUM, "evaluate", 0)],
    ids=["while learning", "before the report", "to an optimum", "before it is measured"],
)
def test_a_resumed_run_gives_the_report_of_an_uninterrupted_run(
    values: dict[str, Any], stage: str, steps: int, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = train(train_settings(source, tmp_path / "whole", **values))
    settings = train_settings(source, tmp_path / "later", **values)
    with pytest.raises(KeyboardInterrupt):
        train(settings, Breaker(stage, steps))
    assert f"later is unfinished. Resume it with okl train --resume {tmp_path / 'later'}" in caplog.text
    source.unlink()  # its rows are in the folder
    folder = find_unfinished(str(tmp_path / "later"))
    assert settings_of(folder) == settings
    resumed = train(settings, resume=folder)
    assert resumed["resumed"] == 1
    assert whole["resumed"] == 0
    assert comparable_result(resumed, tmp_path / "later") == comparable_result(whole, tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["later", "whole"]
    assert sorted(path.name for path in (tmp_path / "later").iterdir()) == [
        "data",
        "model",
        "report.html",
        "result.json",
        "timeline.parquet",
    ]
    (tmp_path / ".soon.unfinished-0123abcd").mkdir()
    with pytest.raises(CheckpointError, match=r"\.soon\.unfinished-0123abcd has no checkpoint: the run ended before"):
        find_unfinished(str(tmp_path / ".soon.unfinished-0123abcd"))
    with pytest.raises(CheckpointError, match="later is complete: there is nothing left to resume"):
        find_unfinished(str(tmp_path / "later"))


@pytest.mark.parametrize(
    ("solver", "took_long"), [("ridge", False), ("fogd", False), ("local", False), ("local", True)]
)
def test_an_automatic_run_resumes_with_and_without_workers(
    solver: str, took_long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long choice is not repeated on resume."""
    for name, value in (("LEAST_LANDMARKS", 16), ("ENOUGH_LANDMARKS", 64), ("MOST_LANDMARKS", 128)):
        monkeypatch.setattr(model_sizes, name, value)
    monkeypatch.setattr(model_sizes, "ROUNDS", ((400, 60), (400, 60), (400, 60)))
    if solver == "fogd":
        monkeypatch.setattr(model_sizes, "_LONG_SECONDS", 0.0)  # as of very many rows
    if solver == "local":
        monkeypatch.setattr(model_sizes, "_TUNING", (0.0, 0.0))
        monkeypatch.setattr(model_sizes, "_LOCAL", ((50, 2), (100, 2)))
        monkeypatch.setattr(cells, "TUNED_ROWS", 256)
    monkeypatch.setattr(candidates, "FACTORS", {"gaussian": (0.5, 1.0), "laplacian": (1.0,)})
    shard = 600 if solver == "local" else 300
    data = write(tmp_path, curved(5 * shard))
    options: dict[str, Any] = {"data": str(data), "budget_seconds": 0.1, "checkpoint_rounds": 1}
    options |= {"ingest": {"rows_per_shard": shard, "rows_per_group": shard // 5}}
    options |= {"validation": "rows", "rescale": "standard"}  # a small race
    whole = train(settings_from(TrainSettings, options | {"out": str(tmp_path / "whole")}, "test"))
    assert whole["settings"]["solver"] == solver
    assert (len(whole["choice"].get("sizes", [])) > 1) == (solver != "fogd")
    if took_long:
        monkeypatch.setattr(train_module, "_LONG_CHOICE", 0.0)
    with pytest.raises(KeyboardInterrupt):
        train(settings_from(TrainSettings, options | {"out": str(tmp_path / "later")}, "test"), Breaker("learn", 5))
    if took_long:
        monkeypatch.setattr(train_module, "choose_solver", None)
    folder = find_unfinished(str(tmp_path / "later"))
    workers = int(solver == "ridge")  # streams: see the next test; cells: see tests.distributed
    with pytest.raises(KeyboardInterrupt):
        train(settings_of(folder).model_copy(update={"workers": workers}), Breaker("learn", 3), folder)
    assert settings_of(folder).workers == 0
    resumed = train(settings_of(folder), resume=folder)
    assert resumed["resumed"] == 2
    for name in ("weights_sha256", "curve" if solver == "fogd" else "convergence"):
        assert resumed[name] == whole[name]
    sizes = [[(one["name"], one["score"]) for one in of["choice"].get("sizes", [])] for of in (resumed, whole)]
    assert sizes[0] == sizes[1]


def test_a_run_resumes_in_its_original_mode_on_any_workers(source: Path, tmp_path: Path) -> None:
    settings = train_settings(source, tmp_path / "later", **ONCE)
    with pytest.raises(KeyboardInterrupt):
        train(settings, Breaker("learn", 3))
    elsewhere, folder = settings.model_copy(update={"workers": 1}), find_unfinished(str(tmp_path / "later"))
    with pytest.raises(KeyboardInterrupt):
        train(elsewhere, Breaker("learn", 3), folder)
    stored = newest_origin(folder)
    assert (stored.mode, stored.settings["mode"], stored.settings["workers"]) == ("stream", "auto", 0)
    resumed, whole = train(settings, resume=folder), train(train_settings(source, tmp_path / "whole", **ONCE))
    assert resumed["resumed"] == 2
    assert (resumed["weights_sha256"], resumed["curve"]) == (whole["weights_sha256"], whole["curve"])


@pytest.mark.parametrize(
    ("started", "resumed", "mode"),
    [
        ({"solver": "fogd"}, {"workers": 2}, "stream"),
        ({"solver": "fogd", "workers": 2}, {"workers": 0}, "sum"),
        ({"solver": "rbp", "workers": 2}, {"workers": 0, "scheduler": "tcp://127.0.0.1:1"}, "mix"),
        ({"solver": "fogd", "mode": "mix"}, {"workers": 2}, "mix"),
        ({"solver": "c-svm"}, {"workers": 2}, "sum"),
    ],
)
def test_workers_of_a_resumed_run_do_not_change_its_mode(
    started: dict[str, Any], resumed: dict[str, Any], mode: str
) -> None:
    before = TrainSettings(data="rows", **started)
    stored = Origin(before.model_dump(mode="json"), before.training_mode, "", "", {}, "")
    settings = before.model_copy(update=resumed)
    assert with_mode_of(stored.settings, settings).training_mode == stored.mode == mode
    check_same_settings(stored, settings, "later")
    other = before.model_copy(update=resumed | {"mode": "stream" if mode != "stream" else "mix"})
    with pytest.raises(CheckpointError, match=f"later was started with mode = '{mode}', but mode = "):
        check_same_settings(stored, other, "later")


def test_settings_and_data_of_another_run_are_refused_and_kept(source: Path, tmp_path: Path) -> None:
    settings = train_settings(source, tmp_path / "later", **ONCE)
    with pytest.raises(KeyboardInterrupt):
        train(settings, Breaker("learn", 3))
    folder = find_unfinished(str(tmp_path / "later"))
    with pytest.raises(CheckpointError, match=r"was started with passes = 2, but passes = 3 was given\. Remove it"):
        train(settings.replaced(passes=3), resume=folder)
    shard = next((folder / "data").glob("*.parquet"))
    right = shard.read_bytes()
    shard.write_bytes(right[:400] + bytes(8) + right[408:])
    with pytest.raises(Exception, match=f"{shard.name}"):
        train(settings, resume=folder)
    shard.write_bytes(right)
    run_folder = RunFolder(tmp_path / "later")
    run_folder.reopen(folder)
    with pytest.raises(CheckpointError, match=r"is being written by another process\. Wait until it ends"):
        train(settings, resume=folder)
    run_folder.close()
    with pytest.raises(CheckpointError, match=r"No unfinished run '.*/ruin' .*Runs that can be resumed: later\."):
        find_unfinished(str(tmp_path / "ruin"))
    assert train(settings, resume=folder)["resumed"] == 1


def test_an_unfinished_run_is_named_daily_for_a_week_and_a_diverged_one_is_removed(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(train_settings(source, tmp_path / "later", **ONCE), Breaker("learn", 3))
    folder = find_unfinished(str(tmp_path / "later"))
    for hours, is_named in ((0, True), (1, False), (25, True)):
        caplog.clear()
        if (mark := folder / NAMED).exists():
            os.utime(mark, (time.time() - 3600.0 * hours,) * 2)
        with pytest.raises(DivergedError):
            train(train_settings(source, tmp_path / "wild", loss="logistic", step_size=1e300, checkpoint_rounds=1))
        named = "Earlier unfinished runs can be resumed with okl train --resume NAME: later."
        assert (named in caplog.text) == is_named, hours
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([folder.name, "rows.csv"])
    then = time.time() - KEPT_SECONDS - 60.0
    for checkpoint in checkpoints_in(folder):
        os.utime(checkpoint, (then, then))
    other = RunFolder(tmp_path / "other")
    other.open()
    other.close()
    assert not folder.exists()
