"""Another command resumes a killed command, and a retried flow run resumes from its checkpoint."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import stages
from flows.artifacts import ArtifactObserver
from flows.records import wait_for_records
from flows.runs import okl_train
from flows.server import TemporaryServer
from flows.stages import Started
from tests.flows.commandline import Terminal, end_started, start
from tests.flows.conftest import query
from tests.rows import curved, train, train_settings, write


@pytest.fixture(autouse=True)
def _end_started_commands() -> Iterator[None]:
    yield
    end_started()


def test_another_command_resumes_a_killed_one(
    unrecorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, home, terminal = write(tmp_path, curved(1000)), Path(os.environ["OKL_HOME"]), Terminal(capsys, monkeypatch)
    words = ["--passes", "25", "--frequencies", "40", "--checkpoint-rounds", "1", "--threads", "1", "--name", "long"]
    process = start(home, "train", data, *words)
    while not any(int(checkpoint.name[-6:]) > 2 for checkpoint in home.glob("runs/.*.unfinished-*/checkpoint/[!.]*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (unfinished,) = (home / "runs").iterdir()
    name = unfinished.name[1:].split(".unfinished-")[0]
    listed = terminal.okl("runs")
    assert f"unfinished: {name}; to resume it: okl train --resume {name}\n" in listed.out
    assert terminal.okl_json("runs")["unfinished"] == [name]
    for given in (name, "long"):
        predicted = terminal.okl("predict", given, data)
        assert predicted.code == 2
        assert f"The run {name} is unfinished. Resume it: okl train --resume {name}." in predicted.sentence
    refused = terminal.okl("train", "--resume", name, "--seed", "1")
    assert refused.code == 2
    assert f"{name} was started with seed = 0, but seed = 1 was given. Remove it" in refused.sentence
    resumed = terminal.okl_json("train", "--resume", "long", "--threads", "2", "--checkpoint-seconds", "0")
    assert resumed["resumed"] == 1
    assert resumed["run"] == str(home / "runs" / name)
    assert [path.name for path in (home / "runs").iterdir()] == [name]
    assert "unfinished" not in terminal.okl("runs").out
    uninterrupted = train(train_settings(data, tmp_path / "whole", passes=25))
    assert (resumed["weights_sha256"], resumed["curve"]) == (uninterrupted["weights_sha256"], uninterrupted["curve"])
    for given in (name, "long"):
        again = terminal.okl("train", "--resume", given)
        assert (again.code, "is complete: there is nothing left to resume" in again.sentence) == (2, True)


class BreaksOnce(ArtifactObserver):
    """An observer that makes the first attempt fail after some steps."""

    left = 5

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        BreaksOnce.left -= 1
        if self.left == 0:
            raise OSError("the network is gone")


def test_a_retried_flow_run_resumes_from_its_checkpoint(
    configured: TemporaryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path, curved(1000))
    settings = train_settings(data, tmp_path / "run", passes=3, checkpoint_rounds=1)
    monkeypatch.setattr(stages, "ArtifactObserver", BreaksOnce)
    try:
        result = okl_train.with_options(retries=1, retry_delay_seconds=0)(settings)
    finally:
        wait_for_records(Started(), 20.0)  # closes the connection, because the next test has another server
    assert isinstance(result, dict)
    assert result["resumed"] == 1
    assert result["weights_sha256"] == train(train_settings(data, tmp_path / "whole", passes=3))["weights_sha256"]
    # schedules may add runs at any time
    ours = "from flow_run where deployment_id is null order by created desc limit 1"
    assert query(configured.home, f"select run_count, state_type {ours}") == [(2, "COMPLETED")]
