"""covtype_binary in eight shards, 1,000 columns: objective against LIBLINEAR's, rounds, bytes, time, bits on workers.

    python -m tests.benchmarks.scs_sharded DATA_FOLDER [optimum|bits|both] [ROWS]

All 581,012 rows by default, standardised, in 500 orthogonal frequencies of the Gaussian kernel, lam = 1e-3. "optimum":
to a gap of 1e-3 over all rows in one process, compared with LIBLINEAR and Newton's method on the same features, each
alone in a separate process: LIBLINEAR needs 24 bytes per value, 14 GB for all rows. "bits": the same run in one process
and on 1, 2 and 4 workers, and on two of which one is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.svm import LinearSVC

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed import open_execution
from okl.features.fourier import FourierFeatures, StructuredFeatures, draw_map
from okl.foundation.types import FloatArray
from okl.losses import Hinge
from okl.solvers.subgradient.sharded import SubgradientState
from okl.solvers.subgradient.solver import SubgradientSolver
from tests.benchmarks.scs_data import kernel_of, standardised
from tests.benchmarks.scs_shards import GivenMap, all_mapped, in_shards, mapped_parts, objectives, states
from tests.solvers.accelerated.sharded_cases import worker_killed
from tests.solvers.subgradient.exact import hinge_optimum
from tests.solvers.subgradient.sharded_cases import Seeing, bits

os.environ.setdefault("OKL_RESIDENT_BYTES", str(3 * 2**30))


LAM, GAP, FREQUENCIES, N_SHARDS, ALL_ROWS = 1e-3, 1e-3, 500, 8, 581_012
TOLERANCE = 1e-3  # of LIBLINEAR's multipliers' slopes, where a margin is 1
KILLED_ROUND = 70

FeatureMap = FourierFeatures | StructuredFeatures


class Judged(NamedTuple):
    """Weights, with the objective over all rows; a lower bound, NaN of none; seconds of it alone; passes; peak GB."""

    weights: FloatArray
    bound: float
    seconds: float
    passes: int
    peak_gigabytes: float


def solved(learning: SubgradientSolver, data: Dataset, execution: Execution, label: str) -> SubgradientState:
    """Print a line about a run, and return its last state."""
    start, before = time.perf_counter(), execution.traffic
    *_, last = states(learning, data, execution)
    seconds, after = time.perf_counter() - start, execution.traffic
    certificate, rounds = learning.certificate(last), after.rounds - before.rounds
    level = "exact" if certificate["exact"] else "95%"
    sent, received = (after.bytes_sent - before.bytes_sent) / 1e6, (after.bytes_received - before.bytes_received) / 1e6
    print(
        f"{label:12} objective {certificate['objective']:.6f} gap {certificate['gap']:.6f} ({level}) {seconds:7.2f} s "
        f"{certificate['iterations']:4} iterations {rounds:4} rounds, sent {sent:.2f} MB, "
        f"received {received:.2f} MB, read {certificate['bytes_read'] / 1e6:.1f} MB of files, "
        f"samples {certificate['samples']}",
        flush=True,
    )
    return last


def alone(work: Callable[..., Judged], *arguments: object) -> Judged:
    """Run work in a separate process, whose memory is freed afterwards."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def by_liblinear(data: Dataset, feature_map: FeatureMap) -> Judged:
    """Run LIBLINEAR's dual on all rows without a bias; features are those of the shards, as float64."""
    rows, signs, first = np.empty((data.rows("train"), feature_map.n_columns)), np.empty(data.rows("train")), 0
    for part, part_signs in mapped_parts(data, feature_map):
        rows[first : first + len(part_signs)], signs[first : first + len(part_signs)] = part, part_signs
        first += len(part_signs)
    svc = LinearSVC(C=1.0 / (LAM * len(rows)), loss="hinge", fit_intercept=False, tol=TOLERANCE, max_iter=1000)
    start = time.perf_counter()
    svc.fit(rows, signs)
    return Judged(svc.coef_[0], float("nan"), time.perf_counter() - start, int(svc.n_iter_), _peak())


def by_newton(data: Dataset, feature_map: FeatureMap) -> Judged:
    """Run Newton's method on all rows, to a certified relative gap of 1e-5."""
    rows, signs = all_mapped(data, feature_map)
    start = time.perf_counter()
    solution = hinge_optimum(LAM, rows, signs, gap=1e-5)
    return Judged(solution.weights, solution.bound, time.perf_counter() - start, solution.reads, _peak())


def optimum(data: Dataset, feature_map: FeatureMap) -> None:
    """Compare the objective over all rows with exact ones."""
    with open_execution(0) as execution:
        learning = SubgradientSolver(Hinge(), GivenMap(feature_map), lam=LAM, gap=GAP)
        last = solved(learning, data, execution, "one process")
    newton = alone(by_newton, data, feature_map)
    print(f"a lower bound by Newton's method {newton.bound:.7f}")
    rivals = {"Newton's method": newton, f"LIBLINEAR, tolerance {TOLERANCE:g}": alone(by_liblinear, data, feature_map)}
    points = [last.descent.weights, *(rival.weights for rival in rivals.values())]
    ours, *theirs = objectives(data, feature_map, points, LAM)
    print(f"{'over all rows':28} objective  SCS's above it    seconds alone  passes  peak memory")
    print(f"{'SCS':28} {ours:.7f}")
    for (label, rival), value in zip(rivals.items(), theirs, strict=True):
        print(
            f"{label:28} {value:.7f} {ours - value:15.7f} {rival.seconds:13.1f} s {rival.passes:6} "
            f"{rival.peak_gigabytes:9.1f} GB"
        )
    print(f"within 1e-3 of LIBLINEAR: {ours - theirs[-1] <= 1e-3}", flush=True)


def same_bits(data: Dataset, feature_map: FeatureMap, folder: Path) -> None:
    """Compare the bits of the same run in one process and on workers."""
    learning = SubgradientSolver(Hinge(), GivenMap(feature_map), lam=LAM, gap=GAP)
    with open_execution(0) as execution:
        expected = bits(learning, solved(learning, data, execution, "one process"))
    for workers in (1, 2, 4):
        with open_execution(workers, threads=1) as execution:
            execution.sum(_nothing, data.split("train"), 0, sum)
            state = solved(learning, data, execution, f"{workers} workers")
            print(f"  same bits: {bits(learning, state) == expected}", flush=True)
    with open_execution(2, threads=1) as execution:
        observed = Seeing(execution, {KILLED_ROUND}, worker_killed(folder))
        start = time.perf_counter()
        *_, last = states(learning, data, observed)  # type: ignore[arg-type]
        killed, seconds = (folder / str(KILLED_ROUND) / "killed").exists(), time.perf_counter() - start
        same = bits(learning, last) == expected
        print(f"2 workers, one killed in round {KILLED_ROUND}: {killed}, {seconds:.2f} s\n  same bits: {same}")


def _nothing(shard: object, value: int) -> int:
    return value


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(folder: str, part: str = "both", rows: str = str(ALL_ROWS)) -> None:
    """Run the requested parts."""
    inputs, targets = standardised(folder, "covtype_binary", int(rows))
    feature_map = draw_map("orthogonal", kernel_of(inputs), inputs.shape[1], FREQUENCIES, 0)
    with tempfile.TemporaryDirectory() as name:
        columns = {f"x{j}": inputs[:, j] for j in range(inputs.shape[1])} | {"y": targets.astype(np.int8)}
        pq.write_table(pa.table(columns), Path(name) / "source.parquet")
        data = in_shards(Path(name) / "source.parquet", Path(name) / "data", -(-len(targets) // N_SHARDS))
        print([shard.rows for shard in data.split("train")], "rows,", feature_map.n_columns, "columns", flush=True)
        if part in ("optimum", "both"):
            optimum(data, feature_map)
        if part in ("bits", "both"):
            same_bits(data, feature_map, Path(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
