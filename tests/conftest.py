"""Small data sets with structure, created once for all tests; Dask workers; an S3 server."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from _pytest.doctest import DoctestModule

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.locations import RemotePath
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Task
from okl.report.blocks import Figure
from tests.sharing import UnitScheduling, place_of, unit_of

if TYPE_CHECKING:
    from tests.objectstore import Faulty

# before anything imports scipy: scikit-learn then runs its array-API checks too, instead of skipping them
os.environ["SCIPY_ARRAY_API"] = "1"

# test processes import okl about two hundred times: without bytecode, which may be off, half a second each
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# with more threads than processors, OpenMP threads spin while waiting: a boosted forest took 23 s instead of 4
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

# compiling creates millions of short-lived objects: with default thresholds, garbage collection took one second
# in seven
gc.set_threshold(50_000, 20, 50)

ROWS, N_INPUTS, N_CLASSES = 3000, 4, 4

# tests that check figures; other tests do not draw them, which would take longer than the rest of a run
CHECK_FIGURES = (
    "tests/report/",
    "tests/flows/test_cli_compare",
    "tests/flows/test_cli_reproduce",
    "tests/flows/test_cli_tracking",
    "tests/foundation/test_telemetry",
    "tests/lifecycle/test_report",
    "tests/papers/test_zhang2024",
    "tests/runs/compare/test_run",
)
EMPTY = '<svg xmlns="http://www.w3.org/2000/svg"/>'

_workers, _opened = ExitStack(), list[Execution]()  # processes that `two_workers` has started


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> UnitScheduling | None:
    """Run tests that share something in one process if --dist loadfile is given."""
    return UnitScheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Skip doctests in tests, which have none; the search would take a second in each process."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw figures only for tests that check them."""
    checks_figures = item.nodeid.startswith(CHECK_FIGURES)
    setattr(Figure, "svg", drawn if checks_figures else property(lambda figure: EMPTY))  # noqa: B010  it is read-only


drawn = vars(Figure)["svg"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with tests that mostly wait and tests that compile code for others."""
    items.sort(key=place_of)


def pytest_collection_finish() -> None:
    """Exclude modules and tests, which are never freed, from later garbage collections."""
    gc.collect()
    gc.freeze()


def learnable_table(task: Task, rows: int = ROWS, by_target: bool = False) -> pa.Table:
    """Return inputs of different scales and a noisy nonlinear target; sorted by target on request, as in many files."""
    rng = np.random.default_rng(20)
    inputs = rng.standard_normal((rows, N_INPUTS))
    signal = np.sin(2 * inputs[:, 0]) + inputs[:, 1] ** 2 - 1 + 0.1 * rng.standard_normal(rows)
    target = {
        "binary": np.where(signal > 0.4, 1, -1),
        "multiclass": np.digitize(signal, [-1.2, -0.4, 0.8]),
        "regression": 50 + 10 * signal,
    }[task]
    order = np.argsort(target, kind="stable") if by_target else np.arange(rows)
    columns = {f"x{j}": (inputs * [1.0, 10.0, 0.1, 5.0])[order, j].astype(np.float32) for j in range(N_INPUTS)}
    split = np.where(rng.random(rows) < 0.25, "test", "train")
    return pa.table(columns | {"y": target[order], "split": split})


def make_learnable(folder: Path, task: Task, by_target: bool = False, unit: float | None = None) -> Dataset:
    """Write several shards of different lengths for each split, in row groups that are not multiples of a block.

    unit : unit of an unscaled regression target; None: the target is scaled
    """
    table = learnable_table(task, by_target=by_target)
    if unit is not None:
        table = table.set_column(table.column_names.index("y"), "y", pa.array(table["y"].to_numpy() * unit))
    pq.write_table(table, folder / f"{task}.parquet")
    scaled = task == "regression" and unit is None
    settings = IngestSettings(task=task, scale="standard", scale_target=scaled, rows_per_shard=500, rows_per_group=150)
    return ingest(folder / f"{task}.parquet", folder / task, settings).dataset


@pytest.fixture(scope="session")
def learnable(tmp_path_factory: pytest.TempPathFactory) -> dict[Task, Dataset]:
    """Return a data set for each task, each with five training shards."""
    folder = tmp_path_factory.mktemp("learnable")
    tasks: tuple[Task, ...] = ("binary", "multiclass", "regression")
    made = {task: make_learnable(folder, task) for task in tasks}
    for task, data in made.items():
        assert len(data.split("train")) == 5
        assert len({shard.rows for shard in data.split("train")}) > 1
        assert data.rows("test") > 600
        assert len(data.schema.labels) == {"binary": 2, "multiclass": N_CLASSES, "regression": 0}[task]
        assert task == "regression" or min(data.schema.class_counts) > 200
    return made


@pytest.fixture(scope="module")
def here() -> Iterator[Execution]:
    """Yield an execution in this process with two threads."""
    with open_execution(threads=2) as execution:
        yield execution


@pytest.fixture(scope="module")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    """Run a server of s3://bucket, and set the environment to it."""
    from tests.objectstore import bucket_served  # importing moto takes seconds, and few modules need it

    with bucket_served("bucket", tmp_path_factory.mktemp("home")) as app:
        yield app


@pytest.fixture
def server(object_store: Faulty) -> Iterator[Faulty]:
    """Yield the server of s3://bucket; failures that a test sets end with the test."""
    object_store.reset()
    yield object_store
    object_store.reset()


@pytest.fixture
def bucket(server: Faulty, request: pytest.FixtureRequest) -> RemotePath:
    """Return a separate folder in s3://bucket for each test."""
    return RemotePath(f"s3://bucket/{abs(hash(request.node.nodeid))}")


@pytest.fixture
def two_workers() -> Execution:
    """Start two Dask worker processes once for all files that share them; they end with the last file.

    Idle workers until the end of all tests would cost more than starting.
    """
    if not _opened:
        _opened.append(_workers.enter_context(open_execution(workers=2, threads=2)))
        _workers.callback(_opened.clear)
    return _opened[0]


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the two workers if the next test does not share them."""
    if nextitem is None or unit_of(nextitem.nodeid) != unit_of(item.nodeid):
        _workers.close()
