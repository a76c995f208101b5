"""ONNX files of every solver against okl's own scores: `python -m tests.benchmarks.exported --data FOLDER`.

Every solver of `okl train`, every map and every kernel that models keep, learns magic (two classes), letter (several)
or cadata (a regression) at a size of use, and is exported. Prints the largest difference of scores over all rows
of the set, of the largest score, or of 1 if that is less; rows a second of onnxruntime and of okl, both in one thread
and blocks of 4,096 rows, each the median of five turns that alternate; the file's size. Models past 1e-5 are marked,
and refused ones are reported: large weights that cancel in single precision have no reliable digits, and are learnt in
double precision, too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from onnxruntime import InferenceSession, SessionOptions

from okl.data.dataset import Dataset
from okl.data.ingest.run import ingest
from okl.foundation.errors import OklError
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.types import FloatArray, Task
from okl.models.export import TOLERANCE, export, largest_difference
from okl.models.file import load_model
from okl.solvers.accelerated.models import MODEL_NAMES
from okl.solvers.online.budget import BudgetStrategy
from okl.solvers.online.strategies import STRATEGIES
from okl.solvers.settings import TrainSettings
from tests.rows import train

SETS: dict[Task, str] = {"binary": "magic", "multiclass": "letter", "regression": "cadata"}
BATCH, TURNS = 4096, 5
QUICK = {"frequencies": 400, "max_iterations": 50}
CUTS = {"max_iterations": 20, "gap": 0.05}
SMALL_CUTS = CUTS | {"frequencies": 200}
CANCELLING = ("projectron", "projectron++", "tvm")


def cases() -> Iterator[tuple[str, Task, dict[str, Any]]]:
    """Yield solver, task and options."""
    tasks: tuple[Task, ...] = ("binary", "multiclass", "regression")
    for task in tasks:
        yield "fogd", task, {"frequencies": 400}
        yield "nogd", task, {"budget": 200}
        yield "ridge", task, {"n_landmarks": 1000}
        yield "ridge", task, {"kernel": "linear"}
        yield "scs", task, SMALL_CUTS
    yield "wolfe", "binary", SMALL_CUTS
    yield "pegasos", "multiclass", {"frequencies": 400}
    for name in ("orthogonal", "quasi", "structured"):
        yield "fogd", "binary", {"map": name, "frequencies": 400}
    yield "scs", "binary", CUTS | {"kernel": "polynomial", "degree": 2, "map": "exact"}
    for kernel in ("laplacian", "matern32", "matern52", "polynomial"):
        yield "ridge", "binary", {"kernel": kernel, "n_landmarks": 400, "precision": "float64"}
    for name, strategy in STRATEGIES.items():
        yield name, "binary", {"budget": 200} if issubclass(strategy, BudgetStrategy) else {}
    for name in CANCELLING:
        yield name, "binary", {"budget": 200, "precision": "float64"}
    for name in MODEL_NAMES:
        yield name, "binary", QUICK


def measure(data: Dataset, rows: FloatArray, solver: str, options: dict[str, Any], folder: Path) -> str:
    """Train, export and time one solver; return its line of the table."""
    values = {"data": str(data.folder), "solver": solver, "out": str(folder / "runs")} | options
    run = train(settings_from(TrainSettings, values, solver))
    exported = export(run["model"], folder / "model.onnx")
    model = load_model(run["model"])
    threads = SessionOptions()
    threads.intra_op_num_threads = 1
    session = InferenceSession(str(folder / "model.onnx"), threads, providers=["CPUExecutionProvider"])

    def onnx_scores(block: FloatArray) -> FloatArray:
        return np.asarray(session.run(["scores"], {"rows": block})[0])

    difference = largest_difference(scored(model.scores, rows), scored(onnx_scores, rows), 1.0)
    seconds: dict[str, list[float]] = {"onnx": [], "okl": []}
    for _ in range(TURNS):
        for name, score in (("onnx", onnx_scores), ("okl", model.scores)):
            start = time.perf_counter()
            scored(score, rows[: 4 * BATCH])
            seconds[name].append(time.perf_counter() - start)
    n_rows = len(rows[: 4 * BATCH])
    speed = {name: n_rows / statistics.median(times) for name, times in seconds.items()}
    mark = "" if difference <= TOLERANCE else "  PAST 1e-5"
    return (
        f"{difference:9.1e} {speed['onnx']:>11,.0f} {speed['okl']:>11,.0f} {exported['bytes'] / 1024:>8,.0f} KiB{mark}"
    )


def scored(score: Callable[[FloatArray], FloatArray], rows: FloatArray) -> FloatArray:
    """Return the scores of all rows, computed block by block."""
    return np.concatenate([score(rows[first : first + BATCH]) for first in range(0, len(rows), BATCH)])


def read(data: Dataset) -> FloatArray:
    """Return all raw rows in float64."""
    tables = [pq.read_table(str(data.path(shard)), columns=list(data.schema.features)) for shard in data.split("train")]
    return np.concatenate(
        [np.column_stack([column.to_numpy() for column in table.columns]) for table in tables]
    ).astype(np.float64)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of magic, letter and cadata as Parquet")
    parser.add_argument("solvers", nargs="*", help="none: all")
    options = parser.parse_args()
    past = refused = 0
    with tempfile.TemporaryDirectory() as folder:
        data = {
            task: ingested(options.data / f"{name}.parquet", Path(folder) / name, task) for task, name in SETS.items()
        }
        rows = {task: read(dataset) for task, dataset in data.items()}
        print(f"{'solver':<18} {'task':<11} {'difference':>9} {'onnx rows/s':>11} {'okl rows/s':>11} {'file':>12}")
        for number, (solver, task, values) in enumerate(cases()):
            if options.solvers and solver not in options.solvers:
                continue
            try:
                line = measure(data[task], rows[task], solver, values, _empty(Path(folder) / str(number)))
            except OklError as error:
                line, refused = f"REFUSED: {error}", refused + 1
            past += "PAST" in line
            print(f"{solver:<18} {task:<11} {line}  {values}", flush=True)
    print(f"{past} past 1e-5, {refused} refused")


def ingested(source: Path, folder: Path, task: Task) -> Dataset:
    """Ingest a set without its own split, so that all rows are training rows."""
    drop = ("split",) if "split" in pq.read_schema(source).names else ()
    settings = IngestSettings(task=task, scale="standard", scale_target=task == "regression", drop=drop)
    return ingest(source, folder, settings).dataset


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
