"""20 million rows through two workers of 1 GiB each: whether it completes, what spills, peak memory, rows a second.

    python -m tests.benchmarks.limited [ROWS] [FOLDER]

Makes ROWS rows (20,000,000 by default) x 50 float32 in pieces, by numpy, in a temporary folder (inside
FOLDER if given; it takes about 9 GB for 20 million rows, and is deleted), brings them through `okl ingest`, and runs
`okl train --mode mix` on two workers that Dask's own command starts with --memory-limit 1GiB. Where the kernel allows
it, a control group limits both workers to 2 GiB together, and the system kills a process that exceeds it. Spilled bytes
are those that Dask reports; peaks are VmHWM.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client

ROWS, COLUMNS, PIECE, WORKERS, LIMIT = 20_000_000, 50, 500_000, 2, 2**30
GROUPS = Path("/sys/fs/cgroup/memory")
OKL = [sys.executable, "-m", "flows.cli"]


def make_rows(folder: Path, n_rows: int) -> None:
    """Write two overlapping classes with a curved boundary, piece by piece."""
    folder.mkdir()
    direction = np.random.default_rng(0).standard_normal(COLUMNS, dtype=np.float32)
    for number, first in enumerate(range(0, n_rows, PIECE)):
        random = np.random.default_rng((1, number))
        inputs = random.standard_normal((min(PIECE, n_rows - first), COLUMNS), dtype=np.float32)
        scores = np.sin(inputs @ direction / 4.0) + 0.5 * random.standard_normal(len(inputs), dtype=np.float32)
        columns = {f"x{j}": inputs[:, j] for j in range(COLUMNS)} | {"y": (scores > 0).astype(np.int8)}
        pq.write_table(pa.table(columns), folder / f"piece-{number:04d}.parquet", compression="none")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start a scheduler and two workers by Dask's commands, one process each; yield the scheduler's address."""
    dask = str(Path(sys.executable).with_name("dask"))
    file, quiet = folder / "scheduler.json", subprocess.DEVNULL
    options = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    processes = [subprocess.Popen([dask, "scheduler", *options, "--port", "0"], stdout=quiet, stderr=quiet)]
    try:
        while not file.exists():
            time.sleep(0.1)
        worker = [dask, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--memory-limit", "1GiB"]
        worker += ["--host", "127.0.0.1", "--no-dashboard", "--local-directory", str(folder)]
        processes += [subprocess.Popen(worker, stdout=quiet, stderr=quiet) for _ in range(WORKERS)]
        yield json.loads(file.read_text())["address"]
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def own_pid() -> int:
    """Return the pid of a worker."""
    return os.getpid()


@contextmanager
def memory_limit_group(limit_bytes: int, pids: list[int]) -> Iterator[Path | None]:
    """Move processes into a control group with a memory limit; yield the group, or None if not supported."""
    group = GROUPS / f"okl-limited-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit_bytes))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        for pid in pids:
            with suppress(OSError):
                (GROUPS / "cgroup.procs").write_text(str(pid))
        with suppress(OSError):
            group.rmdir()


def peak_bytes(pid: int) -> int:
    """Return the peak resident memory of a process."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return 1024 * int(match[1])


def learn(data: Path, folder: Path, rows: int) -> None:
    """Run `okl train` on the workers and print the outcome."""
    with cluster(folder) as address, Client(address, set_as_default=False) as client:
        client.wait_for_workers(WORKERS, timeout=60)
        pids = sorted(client.run(own_pid).values())
        with memory_limit_group(WORKERS * LIMIT, pids) as group:
            start = time.perf_counter()
            command = [*OKL, "train", str(data), "--mode", "mix", "--rounds", "4", "--frequencies", "200"]
            command += ["--bandwidth", "8", "--scheduler", address, "--out", str(folder / "run")]
            done = subprocess.run(command, capture_output=True, text=True)
            seconds = time.perf_counter() - start
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            limits = [worker["memory_limit"] for worker in workers]
            spilled = [worker["metrics"]["spilled_bytes"] for worker in workers]
            alive = sorted(client.run(own_pid).values()) == pids
            peaks = [peak_bytes(pid) for pid in pids] if alive else []
            refused = int((group / "memory.failcnt").read_text()) if group else None
    result = json.loads((folder / "run" / "result.json").read_text()) if done.returncode == 0 else {}
    error_text = "" if done.returncode == 0 else done.stderr[-2000:]
    print(f"okl train: exit {done.returncode}, {seconds:.1f} s in all {error_text}")
    print(f"workers: the same two processes at the end: {alive}; limits {limits}; spilled {spilled}")
    print(f"peak memory of workers: {', '.join(f'{peak / 2**20:.0f} MiB' for peak in peaks)} of {LIMIT / 2**20:.0f}")
    print(f"control group of {WORKERS} GiB: {'none here' if group is None else f'{refused} times at its limit'}")
    if result:
        train = float(result["seconds"])
        print(f"learning {train:.1f} s: {result['rows'] / train:,.0f} rows a second; test {result['test']}")


def main(rows: str = str(ROWS), parent: str | None = None) -> None:
    """Generate, ingest and train; print the seconds of each step."""
    with tempfile.TemporaryDirectory(dir=parent, prefix="okl-limited-") as name:
        folder = Path(name)
        os.environ |= {"OKL_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).parents[2])}
        start = time.perf_counter()
        make_rows(folder / "source", int(rows))
        ingest_start = time.perf_counter()
        data = folder / "data"
        command = [*OKL, "ingest", str(folder / "source"), str(data), "--target", "y", "--holdout", "0.05"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - ingest_start
        print(f"{int(rows):,} rows made in {ingest_start - start:.1f} s, ingested in {seconds:.1f} s", flush=True)
        learn(data, folder, int(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
