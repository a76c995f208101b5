"""Peak resident memory of ingest, train and predict on 1 and on 10 million generated rows of 50 columns.

    python -m tests.benchmarks.memory [--rows 1000000,10000000] [--folder DIR]

Each command runs in a separate process, which prints its peak at its end: the Prefect server is another process
and does not count. Expected: every peak below 700 MiB, and the peaks of one command within 10%.
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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_FEATURES = 50
GROUP_ROWS = 100_000

MEASURED = """
import atexit, resource, sys
def report():
    print(f"peak_kib={resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}", file=sys.stderr)
atexit.register(report)
from flows.cli import main
if __name__ == "__main__":
    main()
"""


def generate(path: Path, rows: int) -> None:
    """Write rows from two overlapping classes, group by group."""
    rng = np.random.default_rng(0)
    centre = rng.standard_normal(N_FEATURES).astype(np.float32) * 0.15
    schema = pa.schema([*((f"f{j}", pa.float32()) for j in range(N_FEATURES)), ("y", pa.int8())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, rows, GROUP_ROWS):
            count = min(GROUP_ROWS, rows - first)
            labels = rng.choice(np.array([-1, 1], dtype=np.int8), count)
            inputs = rng.standard_normal((N_FEATURES, count), dtype=np.float32) + np.outer(centre, labels)
            columns = [pa.array(column.astype(np.float32)) for column in inputs]
            writer.write_batch(pa.record_batch([*columns, pa.array(labels)], schema=schema))


def measure(words: list[str], home: Path) -> dict[str, Any]:
    """Run `okl WORDS --json` in a new process; return its JSON, its peak and its seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words, "--json"],
        env=os.environ | {"OKL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"okl {' '.join(words)}\n{done.stderr}")
    peak = next(line for line in reversed(done.stderr.splitlines()) if line.startswith("peak_kib="))
    figures = {"peak_mib": int(peak.split("=")[1]) / 1024, "wall_seconds": time.perf_counter() - start}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result | figures


def main() -> None:
    """Measure and print one row per command and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000")
    parser.add_argument("--folder", help="where generated data go; none: a temporary folder")
    options = parser.parse_args()
    sizes = [int(size) for size in options.rows.split(",")]
    peaks: dict[str, list[float]] = {"ingest": [], "train": [], "predict": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        measure(["train", "data/covtype", "--out", str(folder / "warm")], folder / "home")  # compiles; not counted
        for rows in sizes:
            source, data, run = folder / f"{rows}.parquet", folder / f"data-{rows}", folder / f"run-{rows}"
            generate(source, rows)
            commands = {
                "ingest": ["ingest", str(source), str(data), "--holdout", "0.01"],
                "train": ["train", str(data), "--out", str(run)],
                "predict": ["predict", str(run / "model"), str(source), "--out", str(folder / f"scores-{rows}")],
            }
            for command, words in commands.items():
                result = measure(words, folder / "home")
                peaks[command].append(result["peak_mib"])
                learning = f", learning {result['seconds']:.1f} s" if command == "train" else ""
                print(
                    f"{command:8} {rows:>11,} rows  peak {result['peak_mib']:6.0f} MiB  "
                    f"wall {result['wall_seconds']:6.1f} s{learning}",
                    flush=True,
                )
            source.unlink()
    for command, values in peaks.items():
        print(f"{command:8} largest {max(values):.0f} MiB, spread {max(values) / min(values) - 1:.1%}")


if __name__ == "__main__":
    main()
