"""What is foreseen of a run, against the run itself, and against the arithmetic of messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.configuration import TrainSettings, settings_from
from okl.planning import learnt_columns, make_solver
from okl.planning.forecast import Forecast, forecast
from okl.planning.kinds import Kind, Rehearsed
from okl.planning.machine import Machine
from okl.planning.memory import plan_memory
from okl.planning.network import Network, described_bytes, on_the_wire
from okl.planning.outlook import Paper, for_solver, outlook
from okl.planning.recorder import Recorder
from okl.planning.rehearsal import rehearse
from okl.planning.rounds import Cluster, Setting
from okl.planning.standin import rows_like, scene_of, scene_on_paper, write_standin
from okl.planning.wording import outlook_text
from tests.solver_cases import last_state

MACHINE = Machine("made up", 2, 2**33, 2**28, 0.001, 0.015, 0.0005, 1e-9, 1e-9)
KIND = Kind("sum Work", 0.0, 1.0, 0.0, 100.0, ((0.0, 1000.0, 2000.0),), 1e-5, 1e-7, 1e-6, 1e-7)
SCENE = scene_on_paper(2_000_000, 20, "binary", 2)


def test_each_solver_is_foreseen_in_the_precision_that_it_would_have() -> None:
    settings = settings_from(TrainSettings, {"data": "rows", "solver": "fogd", "step_size": 0.5}, "test")
    told = {name: for_solver(settings, name).precision for name in ("ridge", "nogd")}
    assert told == {"ridge": "float64", "nogd": "float32"}
    asked = settings_from(TrainSettings, {"data": "rows", "solver": "fogd", "precision": "float32"}, "test")
    assert for_solver(asked, "ridge").precision == "float32"


def foreseen(workers: int, network: Network, **values: Any) -> Forecast:
    options = {"data": "paper", "mode": "sum", "rounds": 50, "frequencies": 100} | values
    settings = settings_from(TrainSettings, options, "test")
    setting = Setting(
        settings,
        SCENE,
        Rehearsed((KIND,), 5000),
        lambda n: plan_memory(settings, SCENE, n, None, 2**33),
        described_bytes(None),
    )
    return forecast(setting, Cluster(workers, 2, network, MACHINE))


def test_latency_is_waited_for_once_a_round_and_thrice_by_a_task() -> None:
    near, far = (foreseen(4, Network(10.0, latency)) for latency in (0.0, 5.0))
    assert far.rounds == 50
    assert far.seconds - near.seconds == pytest.approx((49 + 3) * 0.010)


def test_bytes_are_values_to_workers_and_parts_of_shards() -> None:
    one, eight = (foreseen(workers, Network(1.0)) for workers in (1, 8))
    assert SCENE.shards == 16
    of_shards = SCENE.shards * described_bytes(None)[1]
    assert one.bytes_sent == pytest.approx(5000 + 50 * (1000 + described_bytes(None)[0] + of_shards))
    assert eight.bytes_received == pytest.approx(50 * (8 * 100 + 16 * 2000))
    assert one.bytes_sent < one.wire_sent < 2 * one.bytes_sent + 50 * 1000
    assert on_the_wire(1448.0) == 1500.0


def test_workers_divide_work_until_messages_take_longer() -> None:
    network = Network(0.01, 1.0)
    found = foreseen(2, network)
    assert found.stops_at is not None
    for workers in range(1, 17):
        at = foreseen(workers, network)
        assert (at.communication_seconds >= at.compute_seconds) == (workers >= found.stops_at)
    assert foreseen(0, Network()).bytes_sent == foreseen(0, Network()).communication_seconds == 0.0


def test_rows_are_loaded_once_and_memory_for_them_is_claimed_once() -> None:
    settings = settings_from(TrainSettings, {"data": "paper", "solver": "c-svm", "frequencies": 100}, "test")
    memory = plan_memory(settings, SCENE, 4, None, 2**33)

    def load(first_row: float, claim: float, iterations: int) -> float:
        rehearsed = Rehearsed((replace(KIND, first_row_seconds=first_row, first_shard_seconds=0.01),))
        setting = Setting(settings, SCENE, rehearsed, lambda _: memory, described_bytes(None), iterations)
        machine = replace(MACHINE, claim_byte_seconds=claim)
        return forecast(setting, Cluster(4, 2, Network(10.0), machine)).load_seconds

    assert load(1e-6, 0.0, 50) == pytest.approx(SCENE.shards / 4 * 0.01 + SCENE.rows / 4 * 1e-6)
    assert load(1e-6, 1e-9, 50) - load(1e-6, 0.0, 50) == pytest.approx(1e-9 * (memory.held + memory.vectors))
    assert load(1e-6, 1e-9, 500) == load(1e-6, 1e-9, 50)


@pytest.mark.parametrize(
    "values",
    [
        {"solver": "fogd", "mode": "mix", "rounds": 6, "step_size": 0.1, "frequencies": 30},
        {"solver": "bogd", "mode": "mix", "rounds": 6, "step_size": 0.1, "budget": 20},
        {"solver": "wolfe", "max_iterations": 12, "gap": 1e-9, "frequencies": 30},
    ],
    ids=lambda values: values["solver"],
)
def test_a_rehearsal_foresees_rounds_and_bytes_of_the_run(values: dict[str, Any], tmp_path: Path) -> None:
    options = {"data": "paper", "bandwidth": 2.0} | values
    settings = settings_from(TrainSettings, options | {"workers": 2}, "test")
    scene = replace(scene_on_paper(12_000, 5, "binary", 2), shards=3, shard_rows=4000, group_rows=4000)
    data = write_standin(tmp_path, scene, rows_like(scene, None, 12_000), 4000)
    columns = learnt_columns(settings, data)
    with Recorder() as recorder:
        last_state(make_solver(settings, columns), columns, recorder)
    rehearsed = rehearse(settings, scene_of(data), data)
    setting = Setting(
        settings, scene_of(data), rehearsed, lambda n: plan_memory(settings, scene, n, None, 2**30),
        described_bytes(data.split("train")),
    )  # fmt: skip
    told = forecast(setting, Cluster(1, 1, Network(), MACHINE))
    received = sum(one.reply_bytes + len(one.seconds) * one.part_bytes for one in recorder.asked)
    assert told.rounds == pytest.approx(len(recorder.asked), rel=0.02)
    assert told.bytes_received == pytest.approx(received, rel=0.05)
    assert told.compute_seconds > 0.0


def test_a_table_on_paper_has_a_line_for_each_solver_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    monkeypatch.setattr("okl.planning.outlook.kept_rehearsal", lambda *_: Rehearsed((KIND,), 5000))
    settings = settings_from(TrainSettings, {"data": "paper", "workers": 100, "frequencies": 300}, "test")
    told = outlook(settings, Paper(10**9, 50), Network(10.0, 0.1), every_solver=True, constants=MACHINE)
    names = {one.solver for one in told.forecasts} | dict(told.refused).keys()
    assert len(names) == 31
    assert dict(told.refused).keys() >= {"perceptron", "ogd"}
    text = outlook_text(told)
    assert all(name in text for name in names)
    assert "7,630 shards" in text
    assert np.isfinite([one.seconds for one in told.forecasts]).all()
