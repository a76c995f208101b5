"""Sparse rows out of core: seconds and memory of `okl ingest` and `okl train` on generated rows of 50 non-zeros.

    python -m tests.benchmarks.sparse [--rows 5000000] [--folder FOLDER] [-- OPTIONS OF OKL TRAIN]

Each row has one value 1 in each of 50 ranges of columns, from 8 to 8,000 columns wide, like frequent and rare words.
The class is the sign of a linear function with noise; the best possible accuracy is printed. The file and the data
set stay in FOLDER and are reused.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NON_ZEROS, CHUNK = 50, 50_000
NOISE = 2.0  # of the sum of 50 standard normal weights


def write_rows(path: Path, n_rows: int) -> float:
    """Write rows as svmlight; return the share of rows whose class is that of the function without noise."""
    random = np.random.default_rng(0)
    widths = np.geomspace(8, 8_000, NON_ZEROS).astype(np.int64)
    starts = np.cumsum(widths) - widths + 1
    weights = random.normal(size=int(widths.sum()) + 1)
    n_right = 0
    with path.open("wb") as out:
        for first in range(0, n_rows, CHUNK):
            rows = min(CHUNK, n_rows - first)
            columns = starts + random.integers(0, widths, (rows, NON_ZEROS))
            clean = weights[columns].sum(axis=1)
            labels = clean + NOISE * random.normal(size=rows) > 0
            n_right += int((labels == (clean > 0)).sum())
            values = pc.binary_join_element_wise(pa.array(columns.ravel()).cast(pa.string()), "1", ":")
            offsets = np.arange(0, rows * NON_ZEROS + 1, NON_ZEROS, dtype=np.int32)
            joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), " ")
            lines = pc.binary_join_element_wise(pa.array(np.where(labels, "1", "0")), joined, " ")
            out.write(("\n".join(lines.to_pylist()) + "\n").encode())
    return n_right / n_rows


def run(name: str, *arguments: str | Path) -> None:
    """Run a command of okl, and print its seconds and the largest resident memory of its process."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "flows.cli", *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    figures = {"command": name, "seconds": round(time.perf_counter() - start), "exit code": status >> 8}
    print(json.dumps(figures | {"CPU seconds": round(usage.ru_utime), "MiB": usage.ru_maxrss // 1024}), flush=True)


def main() -> None:
    """Write the rows, ingest them and train on them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("options", nargs="*")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="okl-sparse-"))
    folder.mkdir(parents=True, exist_ok=True)
    source, data = folder / f"rows-{options.rows}.svm", folder / f"data-{options.rows}"
    if not source.exists():
        print(f"without noise {write_rows(source, options.rows):.2%} are right; {source}", flush=True)
    if not data.exists():
        run("ingest", "ingest", source, data, "--holdout", "0.2")
    run("train", "train", data, "--out", Path(tempfile.mkdtemp(dir=folder)) / "run", *options.options)


if __name__ == "__main__":
    main()
