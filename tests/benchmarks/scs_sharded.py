"""covtype_binary in eight shards, 1,000 columns: objective beside the optimum, rounds, bytes, seconds, bits on workers.

    python -m tests.benchmarks.scs_sharded DATA_FOLDER [bits|optimum] [ROWS]

"optimum": all rows (unless fewer are asked for) to a gap of 1e-3 in one process, beside exact dual coordinate descent
on the same features, and LIBLINEAR with it on 60,000 of them, which is what its memory takes. "bits": to a gap of .02
in one process and on 1, 2 and 4 workers, and with a worker killed. lam = 1e-3, standardised inputs, 500 frequencies.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.svm import LinearSVC

os.environ.setdefault("OKL_RESIDENT_BYTES", str(3 * 2**30))

from okl.execution import open_execution
from okl.execution.protocol import Execution
from okl.features.drawing import draw_map
from okl.features.fourier import FourierFeatures
from okl.features.structured import StructuredFeatures
from okl.store.dataset import Dataset
from okl.subgradient.dualdescent import DualDescent
from okl.subgradient.losses import Hinge
from okl.subgradient.solver import SubgradientSolver
from okl.subgradient.state import SubgradientState
from okl.types import FloatArray
from tests.accelerated.sharded_cases import worker_killed
from tests.benchmarks.scs_data import kernel_of, standardised
from tests.benchmarks.scs_shards import GivenMap, all_mapped, in_shards, states
from tests.subgradient.sharded_cases import Seeing, bits

LAM, FREQUENCIES, N_SHARDS, ALL_ROWS, LIBLINEAR_ROWS = 1e-3, 500, 8, 581_012, 60_000
KILLED_ROUND = 30


def solved(learning: SubgradientSolver, data: Dataset, execution: Execution, label: str) -> SubgradientState:
    """The last state, with a line about how it came."""
    begun, before = time.perf_counter(), execution.traffic
    *_, last = states(learning, data, execution)
    seconds, after = time.perf_counter() - begun, execution.traffic
    certificate, rounds = learning.certificate(last), after.rounds - before.rounds
    kept = "exact" if certificate["exact"] else "95%"
    sent, received = (after.bytes_sent - before.bytes_sent) / 1e6, (after.bytes_received - before.bytes_received) / 1e6
    print(
        f"{label:12} objective {certificate['objective']:.6f} gap {certificate['gap']:.6f} ({kept}) {seconds:7.2f} s "
        f"{certificate['iterations']:4} iterations {rounds:4} rounds, sent {sent:.2f} MB, "
        f"received {received:.2f} MB, read {certificate['bytes_read'] / 1e6:.1f} MB of files, "
        f"samples {certificate['samples']}",
        flush=True,
    )
    return last


def optimum(data: Dataset, feature_map: FourierFeatures | StructuredFeatures) -> None:
    """The objective beside exact ones."""
    learning = SubgradientSolver(Hinge(), GivenMap(feature_map), lam=LAM, gap=1e-3)
    with open_execution(0) as execution:
        last = solved(learning, data, execution, "one process")
    rows, signs = all_mapped(data, feature_map)
    begun = time.perf_counter()
    exact = DualDescent(LAM, relative_gap=1e-5).solve_rows(rows, signs)
    seconds = time.perf_counter() - begun
    print(f"dual coordinate descent: between {exact.bound:.6f} and {exact.objective:.6f}, {seconds:.1f} s")
    here = objective(rows, signs, last.descent.weights)
    print(f"the point over all rows {here:.6f}, above the bound by {here - exact.bound:.6f}")
    some, labels = rows[:LIBLINEAR_ROWS], signs[:LIBLINEAR_ROWS]
    judge = DualDescent(LAM, relative_gap=1e-5).solve_rows(some, labels)
    svc = LinearSVC(C=1.0 / (LAM * len(some)), loss="hinge", fit_intercept=False, tol=1e-4, max_iter=1000)
    weights = svc.fit(some, labels).coef_[0]
    print(f"on {len(some):,} rows LIBLINEAR {objective(some, labels, weights):.6f}, the judge {judge.objective:.6f}")


def objective(rows: FloatArray, signs: FloatArray, weights: FloatArray) -> float:
    """Over the rows."""
    return float(np.maximum(0.0, 1.0 - signs * (rows @ weights)).mean() + 0.5 * LAM * weights @ weights)


def same_bits(data: Dataset, feature_map: FourierFeatures | StructuredFeatures, folder: Path) -> None:
    """The same run wherever it runs."""
    learning = SubgradientSolver(Hinge(), GivenMap(feature_map), lam=LAM, gap=0.02)
    with open_execution(0) as execution:
        solved(learning, data, execution, "(compiles)")
        expected = bits(learning, solved(learning, data, execution, "one process"))
    for workers in (1, 2, 4):
        with open_execution(workers, threads=1) as execution:
            execution.sum(_nothing, data.split("train"), 0, sum)
            found = solved(learning, data, execution, f"{workers} workers")
            print(f"  same bits: {bits(learning, found) == expected}", flush=True)
            if workers == 2:
                watched = Seeing(execution, {KILLED_ROUND}, worker_killed(folder))
                begun = time.perf_counter()
                *_, last = states(learning, data, watched)  # type: ignore[arg-type]
                killed = (folder / str(KILLED_ROUND) / "killed").exists()
                print(
                    f"  a worker killed: {killed}, same bits: {bits(learning, last) == expected}, "
                    f"{time.perf_counter() - begun:.2f} s",
                    flush=True,
                )


def _nothing(shard: object, value: int) -> int:
    return value


def main() -> None:
    """Run what is asked for."""
    folder, what = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "optimum"
    inputs, targets = standardised(folder, "covtype_binary", int(sys.argv[3]) if len(sys.argv) > 3 else ALL_ROWS)
    feature_map = draw_map("orthogonal", kernel_of(inputs), inputs.shape[1], FREQUENCIES, 0)
    with tempfile.TemporaryDirectory() as name:
        columns = {f"x{j}": inputs[:, j] for j in range(inputs.shape[1])} | {"y": targets.astype(np.int8)}
        pq.write_table(pa.table(columns), Path(name) / "source.parquet")
        data = in_shards(Path(name) / "source.parquet", Path(name) / "data", -(-len(targets) // N_SHARDS))
        print([shard.rows for shard in data.split("train")], "rows,", feature_map.n_columns, "columns")
        if what == "bits":
            same_bits(data, feature_map, Path(name))
        else:
            optimum(data, feature_map)


if __name__ == "__main__":
    main()
