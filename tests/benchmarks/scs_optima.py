"""Optima of whole sets compared with second-order methods, and the tightness of the lower bounds.

    OKL_DATA=... python -m tests.benchmarks.scs_optima

All sets in a map, those of up to 2,000 rows also by the exact kernel. Inputs are standardised, the kernel is gaussian
with the median distance as bandwidth, seeds are fixed.
"""

from __future__ import annotations

import time

import numpy as np

from okl.features.bandwidth import kernel_with_bandwidth
from okl.features.base import transform_rows
from okl.features.fourier import draw_fourier_map
from okl.foundation.types import FloatArray
from okl.solvers.subgradient.scs import Scs, solve_sample
from okl.solvers.subgradient.spaces import ExplicitRows, KernelRows, KernelValues, SampleSpace
from tests.benchmarks.accelerated_data import shared_rows
from tests.solvers.subgradient.exact import HingeOptimum, hinge_optimum

SETS = ("wdbc", "australian", "magic", "a9a", "svmguide3", "diabetes")
LAMS = (0.1, 0.01, 0.001)
N_FREQUENCIES, MOST_KERNEL_ROWS, RELATIVE = 128, 2000, 1e-4
_HEADER = "set         space   rows    lam    exact      SCS        relative  bound/gap iterations seconds"


def main() -> None:
    """Print a line per set, space and lam."""
    print(_HEADER)
    for name in SETS:
        rows, targets = shared_rows(name)
        rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-9)
        kernel, _ = kernel_with_bandwidth("gaussian", None, rows[:: max(1, len(rows) // 2000)])
        mapped = transform_rows(draw_fourier_map(kernel, rows.shape[1], N_FREQUENCIES, 0, "float64"), rows)
        for lam in LAMS:
            exact = hinge_optimum(lam, mapped, targets, gap=1e-7)
            report(name, "map", lam, exact, ExplicitRows(mapped, n_threads=2), targets)
            if len(rows) <= MOST_KERNEL_ROWS:
                exact = hinge_optimum(lam, rows, targets, kernel, gap=1e-7)
                report(name, "kernel", lam, exact, KernelRows(KernelValues(kernel, rows), len(rows)), targets)


def report(
    name: str, space_name: str, lam: float, exact: HingeOptimum, space: SampleSpace, targets: FloatArray
) -> None:
    """Solve to 1e-4 of the optimum, and print the excess and the tightness of its bound."""
    start = time.perf_counter()
    solved = solve_sample(space, targets, Scs(lam=lam, gap=RELATIVE * exact.objective))
    seconds = time.perf_counter() - start
    assert solved.lower_bound <= exact.objective, "a lower bound above an objective"
    excess = solved.objective - exact.objective
    # the optimum is in [bound, objective] of the exact solver, so the tightness is uncertain by its gap
    tightness = solved.gap / excess if excess > 10.0 * exact.gap else float("nan")
    print(
        f"{name:11s} {space_name:7s} {space.n_rows:6d} {lam:6.3f} {exact.objective:.8f} {solved.objective:.8f} "
        f"{excess / exact.objective:9.1e} {tightness:9.1f} {solved.iterations:6d} {seconds:9.3f}"
    )


if __name__ == "__main__":
    main()
