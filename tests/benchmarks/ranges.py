"""kappa_max and Lipschitz constants against Tables 5 and 10 of Ito et al., the range of nu against linear programs.

    python -m tests.benchmarks.ranges DATA_FOLDER

DATA_FOLDER holds NAME.parquet for the sets of the paper. "digits" are the significant ones that agree with the table,
which prints three. The linear program for nu_min is the dual one of its pair: the least mean hinge loss over w, b.
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from okl.foundation.types import FloatArray
from okl.papers.base import DataFolder, read_records
from okl.papers.ito2017.work import PACKAGE, ItoDataset, ito_datasets
from okl.solvers.accelerated.models.minimax import MMMPM
from okl.solvers.accelerated.models.nusvm import nu_max, nu_min
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import class_moments

_MOST_ENTRIES = 3e6  # of a set whose linear programs are solved; larger ones take minutes


def main(data: str) -> None:
    """Print a line per available set."""
    folder = DataFolder(data)
    folder.check()
    printed_kappa = {row["data"]: row for row in read_records(PACKAGE, "table10.csv") if row["solver"] == "FAPG"}
    printed_lipschitz = {row["data"]: row for row in read_records(PACKAGE, "table5.csv") if row["kernel"] == "linear"}
    print(
        f"{'set':16}{'rows':>8}{'cols':>5} | kappa_max, table, digits | MM L_f, table, digits | nu L_f, table, digits"
    )
    available = [case for case in ito_datasets().values() if folder.has(case.file)]
    agreed = np.zeros(3, dtype=int)
    for case in available:
        stored = case.rows(folder, "float64")
        rows = DenseRows(stored.inputs, np.where(stored.targets > 0, 1.0, -1.0))
        kappa, row = printed_kappa[case.printed], printed_lipschitz[case.printed]
        moments = class_moments(rows)
        pairs = [
            (MMMPM.kappa_max(moments), float(kappa["kappa_max"])),
            (float(np.linalg.eigvalsh(moments.total_covariance)[-1]), float(kappa["L_f"])),
            (signed_norm(case, rows.rows, np.asarray(stored.targets, dtype=np.float64)), float(row["L_f"])),
        ]
        agreed += [digits(ours, table) >= 3 for ours, table in pairs]
        cells = " | ".join(f"{ours:9.4g} {table:9.3g} {digits(ours, table):2d}" for ours, table in pairs)
        print(f"{case.printed:16}{rows.n_points:8}{rows.n_image:5} | {cells}", flush=True)
    print(f"three digits: kappa_max {agreed[0]}, MM L_f {agreed[1]}, nu L_f {agreed[2]} of {len(available)} sets\n")
    print(f"{'set':16}   nu_max       LP difference |   nu_min       LP difference, seconds")
    for case in available:
        nu_line(case, folder)


def nu_line(case: ItoDataset, folder: DataFolder) -> None:
    """Print the range of nu of a set, and its linear programs."""
    stored = case.rows(folder, "float64")
    rows = DenseRows(stored.inputs, np.where(stored.targets > 0, 1.0, -1.0))
    if rows.rows.size > _MOST_ENTRIES:
        print(f"{case.printed:16} {nu_max(rows.signs, np.ones(rows.n_points)):.6f}: too large for linear programs here")
        return
    largest, largest_lp = nu_max(rows.signs, np.ones(rows.n_points)), largest_by_program(rows)
    start = time.perf_counter()
    least = nu_min(rows)
    seconds = time.perf_counter() - start
    least_lp = least_hinge(rows)
    print(
        f"{case.printed:16} {largest:.6f} {largest_lp:.6f} {largest - largest_lp:9.1e} | "
        f"{least:.6f} {least_lp:.6f} {least - least_lp:9.1e} {seconds:8.1f}",
        flush=True,
    )


def signed_norm(case: ItoDataset, inputs: FloatArray, targets: NDArray[np.float64]) -> float:
    """Return ||A||^2 under the labels that the paper computed with, from the eigenvalues of A A'."""
    signed = inputs * case.coded(targets)[:, np.newaxis]
    return float(np.linalg.eigvalsh(signed.T @ signed)[-1])


def least_hinge(rows: DenseRows) -> float:
    """Return the minimum over w and b of the mean of max(0, 1 - s_i (<w, z_i> - b))."""
    m, n = rows.rows.shape
    signed = sparse.csr_array(rows.rows).multiply(rows.signs[:, np.newaxis])
    unequal = sparse.hstack([-signed, sparse.csr_array(rows.signs[:, np.newaxis]), -sparse.eye_array(m)]).tocsr()
    bounds = [(None, None)] * (n + 1) + [(0, None)] * m
    costs = np.concatenate([np.zeros(n + 1), np.full(m, 1.0 / m)])
    return float(linprog(costs, A_ub=unequal, b_ub=-np.ones(m), bounds=bounds, method="highs-ipm").fun)


def largest_by_program(rows: DenseRows) -> float:
    """Return the largest sum of 0 <= a_i <= 1 / m with equal sums in both classes."""
    ones, signs = np.ones(rows.n_points), rows.signs[np.newaxis]
    return -float(linprog(-ones, A_eq=signs, b_eq=[0.0], bounds=(0.0, 1.0)).fun) / rows.n_points


def digits(ours: float, table: float) -> int:
    """Return to how many significant digits a value rounds to the table's, at most the three that it prints."""
    if table == 0.0 or not math.isfinite(ours):
        return 0
    return max((places + 1 for places in range(3) if f"{ours:.{places}e}" == f"{table:.{places}e}"), default=0)


if __name__ == "__main__":
    main(sys.argv[1])
