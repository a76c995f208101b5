"""What is decided, and refused, before anything is learnt."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.foundation.errors import ConfigError, DataError, ExecutionError
from okl.foundation.settings import ExecutionSettings, SolverName, TrainSettings, settings_from
from okl.runs.plan import (
    LAWS,
    MIB,
    Cluster,
    Forecast,
    Kind,
    Machine,
    MemoryPlan,
    Network,
    Paper,
    Recorder,
    Rehearsed,
    Scene,
    Setting,
    check,
    check_workers,
    described_bytes,
    for_solver,
    forecast,
    learnt_columns,
    make_online_solver,
    make_solver,
    mode_of,
    n_columns,
    on_the_wire,
    outlook,
    outlook_text,
    plan_memory,
    rehearse,
    rows_like,
    run_folder,
    scene_of,
    scene_on_paper,
    write_standin,
)
from okl.solvers.factory import class_weights
from tests.data.sources import settings as ingest_settings
from tests.rows import curved, train_settings, write
from tests.solver_cases import last_state

# What is decided, and refused, before anything is learnt.


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("set")
    return ingest(write(folder, curved(400, "multiclass")), folder / "set", ingest_settings()).dataset


def test_check_leaves_no_trace(data: Dataset, tmp_path: Path) -> None:
    check(train_settings(data.folder, tmp_path / "deep" / "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": "hinge"}, "loss 'hinge' is for a binary task, but 'y' makes this a multiclass task"),
        ({"class_weights": {"9": 1.0}}, r"class_weights names \['9'\], but the labels are \['5', '6', '7'\]"),
        ({"rounds": 3}, "rounds belongs to the modes mix and sum"),
        ({"ingest": {"scale": "minmax"}}, "is a data set already; options of ingest do not apply"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "Give one of them, not both"),
        ({"scheduler": "tcp://127.0.0.1"}, "takes an address like tcp://HOST:8786"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    values: dict[str, Any], message: str, data: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        check(train_settings(data.folder, tmp_path / "run", **values))


def test_a_source_is_checked_by_its_columns(tmp_path: Path) -> None:
    source = write(tmp_path, curved(100))
    check(train_settings(source, tmp_path / "run"))
    with pytest.raises(DataError, match="has no target column 'label'"):
        check(train_settings(source, tmp_path / "run", {"target": "label"}))
    with pytest.raises(DataError, match="does not exist"):
        check(train_settings(tmp_path / "absent.parquet", tmp_path / "run"))


def test_a_scheduler_is_asked_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        check_workers(ExecutionSettings(scheduler=f"127.0.0.1:{listener.getsockname()[1]}"))
    with pytest.raises(ExecutionError, match=r"No Dask scheduler answers at 127\.0\.0\.1:9"):
        check_workers(ExecutionSettings(scheduler="127.0.0.1:9"))


def test_a_run_without_a_place_gets_a_new_one_at_home(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    settings = train_settings(data.folder, tmp_path).model_copy(update={"out": None, "name": "forest"})
    first = run_folder(settings)
    assert first.parent == tmp_path / "runs"
    assert first.name.startswith("forest-20")
    first.mkdir(parents=True)
    assert run_folder(settings) != first
    unnamed = run_folder(settings.model_copy(update={"name": None, "data": "/rows/trees.csv"}))
    assert unnamed.name.startswith("trees-20")


def test_class_weights_follow_the_labels(data: Dataset, tmp_path: Path) -> None:
    def weights(given: Any) -> Any:
        return class_weights(train_settings(data.folder, tmp_path / "run", class_weights=given), data.schema)

    assert weights("none") is None
    assert weights({"6": 2.5}) == (1.0, 2.5, 1.0)
    counts = data.schema.class_counts
    assert weights("balanced") == pytest.approx([sum(counts) / (3 * count) for count in counts])


def test_the_mode_follows_the_workers(data: Dataset, tmp_path: Path) -> None:
    assert mode_of(train_settings(data.folder, tmp_path)) == "stream"
    assert mode_of(train_settings(data.folder, tmp_path, workers=2)) in ("mix", "sum")
    assert mode_of(train_settings(data.folder, tmp_path, workers=2, mode="stream")) == "stream"
    solver = make_online_solver(train_settings(data.folder, tmp_path, mode="mix", rounds=7), data)
    assert (solver.mode, solver.rounds) == ("mix", 7)


# What is foreseen of a run, against the run itself, and against the arithmetic of messages.

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
    monkeypatch.setattr("okl.runs.plan.kept_rehearsal", lambda *_: Rehearsed((KIND,), 5000))
    settings = settings_from(TrainSettings, {"data": "paper", "workers": 100, "frequencies": 300}, "test")
    told = outlook(settings, Paper(10**9, 50), Network(10.0, 0.1), every_solver=True, constants=MACHINE)
    names = {one.solver for one in told.forecasts} | dict(told.refused).keys()
    assert len(names) == 31
    assert dict(told.refused).keys() >= {"perceptron", "ogd"}
    text = outlook_text(told)
    assert all(name in text for name in names)
    assert "7,630 shards" in text
    assert np.isfinite([one.seconds for one in told.forecasts]).all()


# What a run takes of memory, by its configuration alone.

MEMORY_SCENE = scene_on_paper(10_000_000, 50, "binary", 2)
HELD = 256 * MIB


def planned(scene: Scene = MEMORY_SCENE, workers: int = 4, limit: int | None = None, **values: Any) -> MemoryPlan:
    settings = settings_from(TrainSettings, {"data": "paper", "workers": workers} | values, "test")
    return plan_memory(settings, scene, workers, limit, HELD)


def test_every_solver_has_a_law_of_growth() -> None:
    assert set(LAWS) == set(get_args(SolverName))


@pytest.mark.parametrize("solver", get_args(SolverName))
def test_every_solver_has_a_memory_plan(solver: str) -> None:
    plan = planned(solver=solver)
    assert plan.worker == plan.process + plan.block + plan.vectors + plan.messages + plan.held
    assert plan.as_json()["worker_bytes"] == plan.worker > plan.process > 100 * MIB


def test_memory_does_not_grow_with_rows_but_for_vectors_beside_them() -> None:
    ten_times = replace(MEMORY_SCENE, rows=10 * MEMORY_SCENE.rows, shards=10 * MEMORY_SCENE.shards)
    assert planned(ten_times, solver="fogd", mode="mix").block == planned(solver="fogd", mode="mix").block
    few, many = (planned(scene, solver="c-svm") for scene in (MEMORY_SCENE, ten_times))
    assert many.vectors == pytest.approx(10 * few.vectors, rel=0.05)
    assert many.block == few.block


def test_rows_that_do_not_fit_are_read_again_and_nothing_else_changes() -> None:
    roomy, tight = planned(solver="c-svm"), planned(solver="c-svm", limit=750 * MIB)
    assert 0.0 < roomy.missing_share < tight.missing_share <= 1.0
    assert (roomy.block, roomy.vectors, roomy.messages) == (tight.block, tight.vectors, tight.messages)
    assert tight.worker <= 0.9 * 750 * MIB
    assert "read again every round" in tight.sentence(4)
    assert "750 MiB" in tight.sentence(4)


def test_a_run_that_cannot_fit_says_what_it_needs_what_there_is_and_what_to_change() -> None:
    with pytest.raises(ConfigError, match=r"A worker needs .* MiB .*limit of 400 MiB .*Start more workers"):
        planned(solver="c-svm", limit=400 * MIB)
    with pytest.raises(ConfigError, match=r"smaller rows_per_group"):
        planned(solver="fogd", mode="mix", limit=400 * MIB)
    with pytest.raises(ConfigError, match=r"Take fewer frequencies"):
        planned(solver="perceptron", mode="mix", limit=4000 * MIB)


def test_columns_are_those_of_the_map_that_is_meant() -> None:
    def columns(**values: Any) -> int:
        return n_columns(settings_from(TrainSettings, {"data": "paper"} | values, "test"), 7)

    assert columns(solver="fogd", frequencies=30) == 60
    assert columns(solver="nogd", rank=20) == 20
    assert columns(solver="bogd") == columns(solver="c-svm", kernel="linear") == 7
