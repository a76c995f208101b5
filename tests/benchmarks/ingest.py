"""Ingest in one process and on workers: seconds, and whether the bytes are the same.

python -m tests.benchmarks.ingest [ROWS]
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.foundation.settings import IngestSettings

FILES, COLUMNS, WORKERS, TIMES = 8, 20, (0, 1, 2), 3
SETTINGS = IngestSettings(holdout=0.2, scale="standard")


def write_source(folder: Path, rows: int) -> None:
    """Write several files of several row groups."""
    folder.mkdir()
    for number in range(FILES):
        inputs = np.random.default_rng(number).normal(size=(COLUMNS, rows // FILES)).astype(np.float32)
        columns = {f"x{j}": column for j, column in enumerate(inputs)} | {"y": (inputs[0] > 0).astype(np.int8)}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=100_000)


def main(rows: int = 3_200_000) -> None:
    """Print a line for each number of workers."""
    with tempfile.TemporaryDirectory(prefix="okl-ingest-") as name:
        folder = Path(name)
        write_source(folder / "source", rows)
        for workers in WORKERS:
            seconds, digests = [], set()
            with open_execution(workers, threads=1) as execution:
                list(execution.map(abs, range(8)))  # workers import their modules
                for number in range(TIMES):
                    out = folder / f"{workers}-{number}"
                    start = time.perf_counter()
                    ingest(folder / "source", out, SETTINGS, execution=execution)
                    seconds.append(time.perf_counter() - start)
                    content = b"".join(path.read_bytes() for path in sorted(out.iterdir()))
                    digests.add(hashlib.sha256(content).hexdigest()[:12])
            best = min(seconds)
            print(f"{workers} workers: {best:.2f} s at best of {TIMES}, {rows / best:,.0f} rows a second, {digests}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
