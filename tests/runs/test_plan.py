"""Plans and checks before training."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.distributed.cache import process_cache
from okl.distributed.cluster_file import check_execution_options
from okl.foundation.errors import ConfigError, DataError, ExecutionError
from okl.foundation.settings import ExecutionSettings, settings_from
from okl.runs.memory import MIB, AssumedData, MemoryPlan, Workload, plan_memory, workload_of
from okl.runs.plan import check, plan_run, plan_text
from okl.runs.run import run_folder
from okl.runs.select import choose_solver
from okl.solvers.options import ClassWeightOptions, MemoryModel
from okl.solvers.settings import SOLVER_NAMES, TrainSettings, solver_settings
from tests.data.sources import settings as ingest_settings
from tests.rows import curved, train_settings, write
from tests.runs.small_choice import make_choice_small
from tests.solver_cases import make_online_solver

# Plans and checks before training.


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
        ({"loss": "hinge"}, "loss 'hinge' is for binary tasks, but 'y' makes this a multiclass task"),
        ({"class_weights": {"9": 1.0}}, r"class_weights names \['9'\], but the labels are \['5', '6', '7'\]"),
        ({"rounds": 3}, "rounds applies to the modes mix and sum"),
        ({"ingest": {"scale": "minmax"}}, "is already a data set. Remove the options of ingest"),
        ({"workers": 1, "scheduler": "tcp://127.0.0.1:1"}, "workers and scheduler exclude each other"),
        ({"scheduler": "tcp://127.0.0.1"}, "Expected an address such as tcp://HOST:8786"),
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


def test_a_scheduler_is_contacted_before_training_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        check_execution_options(ExecutionSettings(scheduler=f"127.0.0.1:{listener.getsockname()[1]}"))
    with pytest.raises(ExecutionError, match=r"No Dask scheduler answers at 127\.0\.0\.1:9"):
        check_execution_options(ExecutionSettings(scheduler="127.0.0.1:9"))


def test_a_run_without_a_folder_gets_a_new_one_in_the_home_folder(
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
        options = train_settings(data.folder, tmp_path / "run", class_weights=given).options
        assert isinstance(options, ClassWeightOptions)
        return options.weights_of_classes(data.schema)

    assert weights("none") is None
    assert weights({"6": 2.5}) == (1.0, 2.5, 1.0)
    counts = data.schema.class_counts
    assert weights("balanced") == pytest.approx([sum(counts) / (3 * count) for count in counts])


def test_the_mode_follows_the_workers(data: Dataset, tmp_path: Path) -> None:
    assert train_settings(data.folder, tmp_path).training_mode == "stream"
    assert train_settings(data.folder, tmp_path, workers=2).training_mode in ("mix", "sum")
    assert train_settings(data.folder, tmp_path, workers=2, mode="stream").training_mode == "stream"
    solver = make_online_solver(train_settings(data.folder, tmp_path, mode="mix", rounds=7), data)
    assert (solver.mode, solver.rounds) == ("mix", 7)


# The plan of a run: for a data set or for assumed data, of one solver or of all.


def plan_settings(**values: Any) -> TrainSettings:
    return settings_from(TrainSettings, {"data": "paper"} | values, "test")


def test_each_solver_is_planned_in_the_precision_that_it_would_have() -> None:
    settings = plan_settings(solver="fogd", step_size=0.5)
    precisions = {name: settings.replaced(solver=name).precision for name in ("ridge", "nogd")}
    assert precisions == {"ridge": "float64", "nogd": "float32"}
    float32_settings = plan_settings(solver="fogd", precision="float32")
    assert float32_settings.replaced(solver="ridge").precision == "float32"


def test_the_plan_of_a_data_set_is_the_memory_of_its_shards(data: Dataset, tmp_path: Path) -> None:
    settings = train_settings(data.folder, tmp_path, solver="wolfe", workers=2)
    report = plan_run(settings, worker_memory_bytes=2**31)
    (plan,) = report.plans
    assert (plan.solver, plan.mode, plan.workers) == ("wolfe", "sum", 2)
    assert plan.memory == plan_memory(settings, workload_of(data), 2, 2**31, process_cache().limit_bytes)
    assert report.workload.rows == data.rows("train")
    assert report.workload.shards == len(data.split("train"))
    content = report.as_json()
    assert (content["rows"], content["columns"]) == (data.rows("train"), data.schema.n_features)
    assert content["plans"][0]["worker_bytes"] == plan.memory.worker
    text = plan_text(report)
    assert "wolfe, mode sum, 2 workers" in text
    assert "2,048 MiB" in text
    assert not (tmp_path / "run").exists()


def test_a_plan_chooses_the_solver_that_training_would_choose(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_choice_small(monkeypatch)
    settings = TrainSettings(data=str(data.folder), out=str(tmp_path), solver="auto", budget_seconds=0.05)
    (plan,) = plan_run(settings).plans
    assert plan.solver == choose_solver(settings, data).settings.solver
    (assumed,) = plan_run(plan_settings(solver="auto"), AssumedData(1000, 3)).plans
    assert assumed.solver == "fogd"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": "hinge"}, "loss 'hinge' is for binary tasks, but 'y' makes this a multiclass task"),
        ({"rounds": 3}, "rounds applies to the modes mix and sum"),
        ({"solver": "fogd", "certify": True, "passes": 2}, "certify conflicts with passes = 2"),
        ({"solver": "c-svm", "class_weights": {"9": 1.0}}, r"class_weights names \['9'\]"),
    ],
)
def test_a_plan_and_training_refuse_the_same_settings(
    values: dict[str, Any], message: str, data: Dataset, tmp_path: Path
) -> None:
    settings = train_settings(data.folder, tmp_path / "run", **values)
    for refuses in (check, plan_run):
        with pytest.raises(ConfigError, match=message):
            refuses(settings)


def test_a_plan_of_assumed_data_refuses_settings_that_do_not_fit_it() -> None:
    with pytest.raises(ConfigError, match="loss 'hinge' is for binary tasks"):
        plan_run(plan_settings(solver="fogd", loss="hinge"), AssumedData(1000, 3, "regression"))
    with pytest.raises(ConfigError, match="rows = 0, columns = 3, classes = 3: expected at least 1 row"):
        plan_run(plan_settings(), AssumedData(0, 3))


def test_a_plan_states_that_mode_stream_uses_one_process() -> None:
    report = plan_run(plan_settings(solver="fogd", mode="stream", workers=3), AssumedData(10_000, 4))
    assert "mode stream trains in one process" in plan_text(report)


def test_a_table_of_assumed_data_has_a_line_for_each_solver_that_fits() -> None:
    settings = plan_settings(workers=100, frequencies=300)
    report = plan_run(settings, AssumedData(10**9, 50), every_solver=True, worker_memory_bytes=2**33)
    refused = dict(report.refused)
    assert {plan.solver for plan in report.plans} | refused.keys() == set(SOLVER_NAMES)
    assert refused.keys() >= {"perceptron", "ogd"}
    assert not refused.keys() & {plan.solver for plan in report.plans}
    lines = plan_text(report).splitlines()
    assert "7,630 shards" in lines[0]
    for plan in report.plans:
        assert sum(line.split()[0] == plan.solver for line in lines[2:] if line) == 1
    for name, why in refused.items():
        assert f"{name}: {why}" in lines


# Memory of a run, from its configuration alone.

MEMORY_WORKLOAD = AssumedData(10_000_000, 50).workload()
HELD_BYTES = 256 * MIB


def planned(
    workload: Workload = MEMORY_WORKLOAD, workers: int = 4, limit: int | None = None, **values: Any
) -> MemoryPlan:
    settings = settings_from(TrainSettings, {"data": "paper", "workers": workers} | values, "test")
    return plan_memory(settings, workload, workers, limit, HELD_BYTES)


def test_every_solver_has_a_memory_model() -> None:
    assert all(isinstance(solver_settings(name).MEMORY, MemoryModel) for name in SOLVER_NAMES)
    assert {solver_settings(name).MEMORY.unit for name in SOLVER_NAMES} == {
        *("pass", "iteration", "sample", "moment", "kernel")
    }


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_every_solver_has_a_memory_plan(solver: str) -> None:
    plan = planned(solver=solver)
    assert plan.worker == plan.process + plan.block + plan.vectors + plan.messages + plan.held
    assert plan.as_json()["worker_bytes"] == plan.worker > plan.process > 100 * MIB


def test_only_vectors_grow_with_the_rows() -> None:
    ten_times = replace(MEMORY_WORKLOAD, rows=10 * MEMORY_WORKLOAD.rows, shards=10 * MEMORY_WORKLOAD.shards)
    assert planned(ten_times, solver="fogd", mode="mix").block == planned(solver="fogd", mode="mix").block
    few, many = (planned(workload, solver="c-svm") for workload in (MEMORY_WORKLOAD, ten_times))
    assert many.vectors == pytest.approx(10 * few.vectors, rel=0.05)
    assert many.block == few.block


def test_rows_beyond_the_memory_limit_are_read_again_with_the_same_result() -> None:
    roomy, tight = planned(solver="c-svm"), planned(solver="c-svm", limit=750 * MIB)
    assert 0.0 < roomy.missing_share < tight.missing_share <= 1.0
    assert (roomy.block, roomy.vectors, roomy.messages) == (tight.block, tight.vectors, tight.messages)
    assert tight.worker <= 0.9 * 750 * MIB
    assert "read again every round" in tight.sentence(4)
    assert "750 MiB" in tight.sentence(4)


def test_a_run_beyond_the_memory_limit_names_need_limit_and_remedy() -> None:
    with pytest.raises(ConfigError, match=r"A worker needs .* MiB .*limit of 400 MiB.*Use more workers"):
        planned(solver="c-svm", limit=400 * MIB)
    with pytest.raises(ConfigError, match=r"smaller rows_per_group"):
        planned(solver="fogd", mode="mix", limit=400 * MIB)
    with pytest.raises(ConfigError, match=r"Use fewer frequencies"):
        planned(solver="perceptron", mode="mix", limit=4000 * MIB)


def test_the_number_of_columns_is_that_of_the_solver_s_map() -> None:
    def columns(**values: Any) -> int:
        return settings_from(TrainSettings, {"data": "paper"} | values, "test").options.n_columns(7)

    assert columns(solver="fogd", frequencies=30) == 60
    assert columns(solver="nogd", rank=20) == 20
    assert columns(solver="bogd") == columns(solver="c-svm", kernel="linear") == 7
