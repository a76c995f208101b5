"""`okl compare` on real data sets: all nine models on each, at the command line; seconds and winners.

python -m tests.benchmarks.compare DATA [--datasets NAME,...] [--limit SECONDS]

DATA is a folder of NAME.parquet (float columns, label y). Sets are ingested first, with standardised inputs, which is
not timed; a comparison is: the command with the start of its Prefect server, the search, the winner's fit, the report.
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

from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings

DATASETS = ("german", "svmguide3", "spambase", "a9a", "ijcnn1")
LIMIT_SECONDS = 300.0


def compare(folder: Path, home: Path, words: list[str]) -> tuple[dict[str, Any], float]:
    """Run the command in a new process; return its result and its seconds from start to end."""
    start = time.perf_counter()
    outcome = subprocess.run(
        [sys.executable, "-m", "flows.cli", "compare", str(folder), "--models", "all", "--json", *words],
        env=os.environ | {"OKL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode != 0:
        sys.exit(outcome.stderr)
    return json.loads(outcome.stdout.splitlines()[-1]), time.perf_counter() - start


def describe(name: str, result: dict[str, Any], seconds: float) -> str:
    """Return the line of a set."""
    best, *others = result["models"]
    similar = sum(row["p_value"] > 0.05 for row in others)
    gap = max(row["relative_gap"] for row in result["models"])
    test = "" if not result["test"] else f", test {100 * result['test']['accuracy']:.2f} %"
    return (
        f"{name:<12} {result['dataset']['train_rows']:>7,} rows {result['dataset']['features']:>4} columns  "
        f"{best['model']:<12} {100 * best['mean']:.2f} +- {100 * best['spread']:.2f} %{test}, {similar} others alike; "
        f"largest gap {gap:.1e}; {result['search_seconds']:.1f} s of {seconds:.1f} s are the search"
    )


def main() -> None:
    """Compare on every set and print the results; exit with code 1 if it took longer than the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--limit", type=float, default=LIMIT_SECONDS)
    options, words = parser.parse_known_args()
    total = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.datasets.split(","):
            folder = Path(scratch) / name
            ingest(str(options.data / f"{name}.parquet"), str(folder), IngestSettings(scale="standard"))
            result, seconds = compare(folder, Path(scratch) / "home", words)
            total += seconds
            print(describe(name, result, seconds), flush=True)
    print(f"together {total:.1f} s on {len(os.sched_getaffinity(0))} cores, of {options.limit:g} s")
    sys.exit(total > options.limit)


if __name__ == "__main__":
    main()
