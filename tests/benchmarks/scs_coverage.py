"""How often the certificate over all rows covers the true excess, and how tight it is.

    python -m tests.benchmarks.scs_coverage DATA_FOLDER [ROWS] [GAP]

covtype_binary (the first ROWS of a seeded order, 200,000 by default), standardised, in four uncompressed
shards, in 64 orthogonal frequencies of the Gaussian kernel, lam = 1e-3: one map, 100 seeds of samples. The optimum is
LIBLINEAR's on all rows in the map, or the bound of Newton's method where LIBLINEAR stopped above it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.svm import LinearSVC

from okl.distributed import open_execution
from okl.features.fourier import draw_map
from okl.foundation.types import FloatArray
from okl.losses import Hinge
from okl.solvers.subgradient.solver import SubgradientSolver
from tests.benchmarks.scs_data import kernel_of, standardised
from tests.benchmarks.scs_shards import GivenMap, all_mapped, in_shards, states
from tests.solvers.subgradient.exact import hinge_optimum

LAM, FREQUENCIES, SEEDS = 1e-3, 64, 100


def main() -> None:
    """Print how often the certificate covers the excess."""
    folder, n_rows = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200_000
    gap = float(sys.argv[3]) if len(sys.argv) > 3 else 0.02
    inputs, targets = standardised(folder, "covtype_binary", n_rows)
    feature_map = draw_map("orthogonal", kernel_of(inputs), inputs.shape[1], FREQUENCIES, 0)
    with tempfile.TemporaryDirectory() as name, open_execution(0) as execution:
        columns = {f"x{j}": inputs[:, j] for j in range(inputs.shape[1])} | {"y": targets.astype(np.int8)}
        pq.write_table(pa.table(columns), Path(name) / "source.parquet")
        data = in_shards(Path(name) / "source.parquet", Path(name) / "data", -(-n_rows // 4))
        rows, signs = all_mapped(data, feature_map)
        exact = hinge_optimum(LAM, rows, signs, gap=1e-6)
        start = time.perf_counter()
        svc = LinearSVC(C=1.0 / (LAM * len(rows)), loss="hinge", fit_intercept=False, tol=1e-3, max_iter=2000)
        weights = svc.fit(rows, signs).coef_[0]
        liblinear, seconds = objective(rows, signs, weights), time.perf_counter() - start
        print(f"{len(rows):,} rows, {rows.shape[1]} columns: LIBLINEAR {liblinear:.7f}, in {seconds:.1f} s;")
        print(f"Newton's method between {exact.bound:.7f} and {exact.objective:.7f}")
        best = min(liblinear, exact.bound)
        covered, excesses, bounds, attempts, sampled, exactly = 0, [], [], [], [], 0
        for seed in range(SEEDS):
            learning = SubgradientSolver(Hinge(), GivenMap(feature_map), lam=LAM, gap=gap, seed=seed)
            *_, last = states(learning, data, execution)
            certificate = learning.certificate(last)
            excesses.append(objective(rows, signs, last.descent.weights) - best)
            bounds.append(certificate["gap"])
            attempts.append(certificate["attempts"])
            sampled.append(certificate["rows_sampled"])
            exactly += certificate["exact"]
            covered += excesses[-1] <= bounds[-1]
    print(f"gap {gap}: covered {covered} of {SEEDS} seeds ({exactly} by all rows, exactly); the rest at 95% confidence")
    print(f"  excess mean {np.mean(excesses):.5f} most {max(excesses):.5f}; bound mean {np.mean(bounds):.5f}")
    print(f"  bound over excess: median {np.median(np.divide(bounds, excesses)):.2f}; attempts most {max(attempts)};")
    print(f"  rows sampled median {np.median(sampled):,.0f} of {len(rows):,}")


def objective(rows: FloatArray, signs: FloatArray, weights: FloatArray) -> float:
    """Return the objective over all rows."""
    scores = np.concatenate([part @ weights for part in np.array_split(rows, 16)])
    return float(np.maximum(0.0, 1.0 - signs * scores).mean() + 0.5 * LAM * weights @ weights)


if __name__ == "__main__":
    main()
