from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.settings import IngestSettings

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


@pytest.fixture(scope="package", params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Execution]:
    """Every backend, each started once a worker of xdist; tests of one backend run together.

    None outlives the tests of this package: Dask workers take processor time when idle, too.
    """
    workers, threads = BACKENDS[request.param]
    with open_execution(workers, threads=threads) as execution:
        yield execution


@pytest.fixture
def caller_folder(tmp_path: Path) -> Path:
    return tmp_path
