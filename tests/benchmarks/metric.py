"""Generated rows in which few of many inputs matter: `okl train` with and without a learnt metric, and boosting.

    python -m tests.benchmarks.metric --out FOLDER [--rows 300000] [--inputs 30]

The class is the sign of a curved function of the first five inputs, all of which are normal; noise bounds the accuracy.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier

import okl
from tests.benchmarks.defaults_data import read_split

N_RELEVANT = 5


def write_rows(path: Path, rows: int, inputs: int, seed: int = 0) -> Path:
    """Write rows of normal inputs, of which the first five decide the class."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, inputs)).astype(np.float32)
    signal = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] ** 2 + x[:, 4] * (x[:, 0] > 0)
    signal += 0.3 * random.normal(size=rows)
    columns = {f"f{index}": column for index, column in enumerate(x.T)}
    pq.write_table(pa.table(columns | {"y": (signal > np.median(signal)).astype(int)}), path)
    return path


def main() -> None:
    """Write the rows, train three models on one split, and print an object for each."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks.metric", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--inputs", type=int, default=30)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    source = write_rows(options.out / "rows.parquet", options.rows, max(N_RELEVANT, options.inputs))
    data = okl.ingest(source, options.out / "data", task="binary", holdout=0.2)
    for metric in ("none", "auto"):
        start = perf_counter()
        result = okl.train(data.folder, metric=metric, out=options.out / f"run-{metric}")
        seconds, accuracy = perf_counter() - start, result["test"]["accuracy"]
        shutil.rmtree(options.out / f"run-{metric}")
        print(json.dumps({"method": f"okl, metric {metric}", "accuracy": accuracy, "seconds": seconds}), flush=True)
    (inputs, labels), (test_inputs, test_labels) = (read_split(data, split) for split in ("train", "test"))
    start = perf_counter()
    boosting = HistGradientBoostingClassifier(random_state=0).fit(inputs, labels)
    accuracy, seconds = float(boosting.score(test_inputs, test_labels)), perf_counter() - start
    print(json.dumps({"method": "HistGradientBoosting", "accuracy": accuracy, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
