"""Tables of text, dates and gaps, and sparse text folded into few columns: accuracy and cost.

python -m tests.benchmarks.tables [ROWS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import scipy.sparse as sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import LinearSVC

from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.foundation.settings import IngestSettings, settings_from
from okl.runs.evaluate import EvaluateSettings, evaluate_model
from okl.solvers.settings import TrainSettings
from tests.data.mixed import mixed
from tests.rows import train

SPARSE_ROWS, SPARSE_COLUMNS, SPARSE_VALUES = 20_000, 47_236, 75
TIMES = 3


def seconds_of(work: Callable[[int], Any]) -> float:
    """Return the least of a few times, in seconds."""
    times = []
    for number in range(TIMES):
        start = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - start)
    return min(times)


def ingest_into(source: Path, folders: list[Path], number: int) -> None:
    """Ingest into the folder of this repetition."""
    ingest(source, folders[number], IngestSettings())


def compare_text_and_codes(folder: Path, rows: int) -> None:
    """Print seconds and bytes of rows with text, and with its 50 values as numbers, as Parquet and as CSV."""
    random = np.random.default_rng(0)
    numbers = {f"x{j}": np.round(random.normal(size=rows), 6) for j in range(20)} | {"y": random.integers(0, 2, rows)}
    code = random.integers(0, 50, rows)
    tables = {"numbers": pa.table(numbers | {"c": code}), "text": pa.table(numbers | {"c": [f"v{i}" for i in code]})}
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
        pacsv.write_csv(table, folder / f"{name}.csv")
        for ending in ("parquet", "csv"):
            source = folder / f"{name}.{ending}"
            folders = [folder / f"{name}-{ending}-{number}" for number in range(TIMES)]
            seconds = seconds_of(partial(ingest_into, source, folders))
            data = open_dataset(folders[0])
            size = sum(shard.size_bytes for shard in data.shards) / rows
            print(
                f"{name} as {ending}: {data.schema.n_features} inputs, {seconds:.2f} s, {rows / seconds:,.0f} rows a "
                f"second, {size:.0f} bytes a row"
            )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


def compare_mixed_and_numbers(folder: Path) -> None:
    """Print the test accuracy on generated rows of all kinds, and on their numbers alone."""
    mixed(20_000).to_csv(folder / "mixed.csv", index=False)
    for name, drop in (("all columns", ()), ("numbers alone", ("city", "job", "at"))):
        ingest_settings = {"target": "label", "missing": "mean", "dates": "parts", "scale": "standard", "drop": drop}
        values = {"data": str(folder / "mixed.csv"), "out": str(folder / name), "ingest": ingest_settings}
        result = train(settings_from(TrainSettings, values, "tables"))
        print(f"{name}: {result['test']['accuracy']:.3f} of the test rows right")


def folded(folder: Path) -> None:
    """Compare a linear C-SVM on sparse rows folded into few columns with LinearSVC on the rows themselves."""
    random = np.random.default_rng(0)
    share = np.arange(1, SPARSE_COLUMNS + 1) ** -0.9
    columns = random.permutation(SPARSE_COLUMNS)[
        random.choice(SPARSE_COLUMNS, size=(SPARSE_ROWS, SPARSE_VALUES), p=share / share.sum())
    ]
    values, row = random.random(columns.shape) + 0.3, np.repeat(np.arange(SPARSE_ROWS), SPARSE_VALUES)
    rows = sparse.csr_matrix((values.ravel(), (row, columns.ravel())), (SPARSE_ROWS, SPARSE_COLUMNS))
    rows = sparse.csr_matrix(sparse.diags(1.0 / np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())) @ rows)
    signal = rows @ random.normal(size=SPARSE_COLUMNS) + 0.1 * random.normal(size=SPARSE_ROWS)
    target, cut = np.where(signal > np.median(signal), 1, -1), SPARSE_ROWS * 4 // 5
    peer = LinearSVC().fit(rows[:cut], target[:cut]).score(rows[cut:], target[cut:])
    print(f"LinearSVC on {SPARSE_COLUMNS:,} sparse columns: {peer:.3f} of the test rows right")
    for name, part in (("learn", slice(cut)), ("test", slice(cut, None))):
        dump_svmlight_file(rows[part], target[part], str(folder / f"{name}.svm"), zero_based=False)
    for n_columns in (256, 1024, 4096):
        ingest_settings = {"hash_columns": n_columns}
        out = folder / f"folded-{n_columns}"
        options = {"solver": "c-svm", "kernel": "linear", "data": str(folder / "learn.svm"), "out": str(out)}
        start = time.perf_counter()
        train(settings_from(TrainSettings, options | {"ingest": ingest_settings}, "tables"))
        seconds = time.perf_counter() - start
        evaluation = {"model": str(out / "model"), "source": str(folder / "test.svm")}
        accuracy = evaluate_model(settings_from(EvaluateSettings, evaluation, "tables"))["metrics"]["accuracy"]
        size = sum(shard.size_bytes for shard in open_dataset(out / "data").shards) / cut
        print(f"folded into {n_columns}: {accuracy:.3f} right, {seconds:.1f} s, {size:.0f} bytes a row")


def main(rows: int = 1_000_000) -> None:
    """Run the three comparisons."""
    with tempfile.TemporaryDirectory(prefix="okl-tables-") as name:
        compare_text_and_codes(Path(name), rows)
        compare_mixed_and_numbers(Path(name))
        folded(Path(name))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
