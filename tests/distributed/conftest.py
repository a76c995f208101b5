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

if TYPE_CHECKING:  # if Dask were imported before pytest sets up logging, Dask would silence its handlers
    from okl.distributed.dask import DaskExecution

BACKENDS = {"local-1": (0, 1), "local-2": (0, 2), "dask-1": (1, 2), "dask-3": (3, 2)}


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Eight shards and row groups of different lengths, standardised columns of different scales."""
    folder = tmp_path_factory.mktemp("execution")
    random = np.random.default_rng(5)
    inputs = random.normal(size=(3700, 6)) * [1, 10, 0.1, 3, 1, 100] + [0, 5, 0, -3, 1, 0]
    columns = {f"x{j}": inputs[:, j] for j in range(6)} | {"y": inputs[:, 0] + random.normal(size=3700)}
    pq.write_table(pa.table(columns), folder / "source.parquet")
    settings = IngestSettings(target="y", scale="standard", scale_target=True, rows_per_shard=500, rows_per_group=128)
    dataset = ingest(folder / "source.parquet", folder / "data", settings).dataset
    assert len(dataset.shards) == 8
    assert len({shard.rows for shard in dataset.shards}) > 1
    return dataset


@pytest.fixture(scope="package")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of one authority for every role."""
    folder = tmp_path_factory.mktemp("ours")
    assert make_certificates([str(folder)]) == 0
    return folder


@pytest.fixture(scope="package")
def three_workers(certificates: Path) -> Iterator[DaskExecution]:
    """Three workers, started once for all tests of this package that do not start or end workers themselves.

    They end with the tests of this package, because Dask workers use processor time even when idle.
    """
    from okl.distributed.dask import DaskExecution

    with DaskExecution(3, n_threads=2, tls=str(certificates / "client")) as execution:
        yield execution


@pytest.fixture(scope="package")
def first_worker(three_workers: DaskExecution, certificates: Path) -> Iterator[DaskExecution]:
    """The first of the three workers."""
    from okl.distributed.dask import DaskExecution

    with DaskExecution(
        address=three_workers.address, n_threads=2, most_workers=1, tls=str(certificates / "client")
    ) as execution:
        yield execution


def is_complete(execution: DaskExecution, n_workers: int = 3) -> bool:
    """Return whether all workers are connected now."""
    execution._transport._run(execution._transport.membership.refresh(0.0))
    execution._transport.refresh()
    return execution.n_workers == n_workers


@pytest.fixture
def cluster(three_workers: DaskExecution) -> DaskExecution:
    """Three workers; the fixture waits until killed ones have been replaced."""
    assert soon(lambda: is_complete(three_workers))
    return three_workers


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Execution]:
    """Every backend."""
    workers, threads = BACKENDS[request.param]
    if workers:
        all_workers = request.getfixturevalue("cluster")
        yield all_workers if workers == 3 else request.getfixturevalue("first_worker")
    else:
        with open_execution(0, threads=threads) as execution:
            yield execution
