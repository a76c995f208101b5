"""A window solved again after a tenth of its rows have changed: from the solution before, against from the beginning.

    python -m tests.benchmarks.warmstarts FOLDER [NAME ...]      (FOLDER/NAME.parquet, last column y, two classes)

Both solve the same problem in the same feature map to the same certified gap. Printed are iterations, reads of the rows
and seconds of either, the relative gaps and how far the objectives are apart.

On 20,000 rows, 200 frequencies and a gap of 1e-3, iterations cold and warm were: ijcnn1 c-svm 146 and 70, l2-svm 256
and 80, logistic 50 and 20, l1-logistic 1153 and 792, l1-l2-svm 3653 and 4053, scs 15 and 9; electricity, in its order,
c-svm 542 and 281, l2-svm 409 and 409 (its own point was lower), logistic 146 and 50, l1-logistic 1353 and 720,
l1-l2-svm 5253 and 3853, scs 18 and 13. Reads go with iterations; the objectives were within the gaps.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from okl.data.ingest.run import ingest
from okl.distributed import open_execution
from okl.features.base import FeatureMap
from okl.features.predictors import LinearPredictor
from okl.foundation.settings import IngestSettings
from okl.runs.loop import run_loop
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.factory import make_solver
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.solver import SubgradientSolver

ROWS, COLUMNS = 20_000, 200
SOLVERS = ("c-svm", "l2-svm", "logistic", "l1-logistic", "l1-l2-svm", "scs")


@dataclass(frozen=True)
class Kept:
    """A map that is there already."""

    feature_map: FeatureMap

    def draw(self, *_: Any) -> tuple[FeatureMap, dict[str, Any]]:
        """It."""
        return self.feature_map, {}


def main(folder: str, *names: str) -> None:
    """Print a line a data set and solver."""
    for name in names or ("ijcnn1", "covtype_binary", "electricity"):
        content = pq.read_table(Path(folder) / f"{name}.parquet")
        content = content.drop_columns([c for c in ("split",) if c in content.schema.names])
        order = np.random.default_rng(0).permutation(content.num_rows)[: ROWS + ROWS // 10]
        content = content.take(np.sort(order) if name == "electricity" else order)
        with tempfile.TemporaryDirectory() as place, open_execution(threads=1) as execution:
            made: list[Any] = []
            for part in (content.slice(0, ROWS), content.slice(ROWS // 10, ROWS)):
                path = Path(place) / f"{len(made)}.parquet"
                pq.write_table(part, path)
                reference = made[0].schema if made else None
                settings = IngestSettings(target="y", scale="standard", rows_per_group=4096)
                made.append(ingest(path, Path(place) / str(len(made)), settings, reference=reference).dataset)
            for solver in SOLVERS:
                print(name, solver, _compared(solver, made, execution), flush=True)


def _compared(name: str, data: list[Any], execution: Any) -> str:
    stop = {} if name == "scs" else {"tol": 1e-3}
    given = {"data": "none", "solver": name, "frequencies": COLUMNS, "seed": 1} | stop
    first, second = (make_solver(TrainSettings.model_validate(given), one) for one in data)
    assert isinstance(second, AcceleratedSolver | SubgradientSolver)
    before = run_loop(first, first.start(data[0], execution), data[0], execution).predictor
    assert isinstance(before, LinearPredictor)
    told, objectives = [], []
    for solver, warm in ((replace(second, maps=Kept(before.feature_map)), None), (second, before)):
        start = time.perf_counter()
        state: Any = solver.start(data[1], execution, warm)
        done: Any = run_loop(solver, state, data[1], execution)
        seconds, proof = time.perf_counter() - start, solver.certificate(done.state)
        objectives.append(proof["objective"])
        accelerated = isinstance(solver, AcceleratedSolver)
        reads = done.state.solved[0].method_state.history[-1].reads if accelerated else done.state.drawn_rows / ROWS
        gap = proof.get("relative_gap", proof.get("gap"))
        told.append(f"{proof['iterations']} iterations, {reads:.1f} reads, {seconds:.2f} s, gap {gap:.1e}")
    apart = abs(objectives[0] - objectives[1]) / abs(objectives[0])
    return f"cold {told[0]}; warm {told[1]}; objectives apart {apart:.1e}"


if __name__ == "__main__":
    main(*sys.argv[1:])
