from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.tls.make import main as make_certificates
from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.settings import IngestSettings
from tests.distributed.processes import soon

if TYPE_CHECKING:  # imported before pytest has set up logging, Dask would silence its handlers
    from okl.distributed.dask import DaskExecution

BACKENDS = {"local-1": (0, 1), "local-2": (0, 2), "dask-1": (1, 2), "dask-3": (3, 2)}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Eight shards of unequal length in row groups of unequal length, standardised columns of unlike scale."""
    folder = tmp_path_factory.mktemp("execution")
    random = np.random.default_rng(5)
    inputs = random.normal(size=(3700, 6)) * [1, 10, 0.1, 3, 1, 100] + [0, 5, 0, -3, 1, 0]
    columns = {f"x{j}": inputs[:, j] for j in range(6)} | {"y": inputs[:, 0] + random.normal(size=3700)}
    pq.write_table(pa.table(columns), folder / "source.parquet")
    settings = IngestSettings(target="y", scale="standard", scale_target=True, rows_per_shard=500, rows_per_group=128)
    made = ingest(folder / "source.parquet", folder / "data", settings).dataset
    assert len(made.shards) == 8
    assert len({shard.rows for shard in made.shards}) > 1
    return made


@pytest.fixture(scope="package")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of one authority, for each role."""
    folder = tmp_path_factory.mktemp("ours")
    assert make_certificates([str(folder)]) == 0
    return folder


@pytest.fixture(scope="package")
def started(ours: Path) -> Iterator[DaskExecution]:
    """Three workers, started once for all tests of this package that do not need a start or an end of their own.

    They end with the tests of this package: Dask workers take processor time when idle, too.
    """
    from okl.distributed.dask import DaskExecution

    with DaskExecution(3, n_threads=2, tls=str(ours / "client")) as execution:
        yield execution


@pytest.fixture(scope="package")
def alone(started: DaskExecution, ours: Path) -> Iterator[DaskExecution]:
    """The first of the three workers."""
    from okl.distributed.dask import DaskExecution

    with DaskExecution(address=started.address, n_threads=2, most_workers=1, tls=str(ours / "client")) as execution:
        yield execution


def is_complete(execution: DaskExecution, n_workers: int = 3) -> bool:
    """Return whether all workers are there now."""
    execution._transport._run(execution._transport.membership.refresh(0.0))
    execution._transport.refresh()
    return execution.n_workers == n_workers


@pytest.fixture
def cluster(started: DaskExecution) -> DaskExecution:
    """Three workers; the fixture waits until killed ones have been replaced."""
    assert soon(lambda: is_complete(started))
    return started


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Execution]:
    """Every backend."""
    workers, threads = BACKENDS[request.param]
    if workers:
        complete = request.getfixturevalue("cluster")
        yield complete if workers == 3 else request.getfixturevalue("alone")
    else:
        with open_execution(0, threads=threads) as execution:
            yield execution
