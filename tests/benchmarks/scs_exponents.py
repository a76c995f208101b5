"""Growth of seconds with the rows: `python -m tests.benchmarks.scs_exponents DATA_FOLDER [PICTURE.svg [MOST_SECONDS]]`.

Seconds on one thread until a method is within 1% of the optimum of its OWN objective on ALL rows, on 5,000 to 80,000
rows of covtype_binary, lam = 1e-3, C = 1 / (lam rows): SCS and Newton's method in 256 Fourier features, including
the time to compute those of the rows used; working sets and LIBSVM with the exact kernel, LIBSVM with its bias. LIBSVM
runs once per size, with a cache of 6 GB and the loosest tolerance that reaches .25% on the smallest size, as the same
tolerance gives less accuracy on more rows: the accuracy it reaches is certified by its own dual, and printed below the
seconds, as for the others. The exponent is the slope of a line through the logarithms. A run that would take longer
than MOST_SECONDS (1500), extrapolated by the square of the rows, is left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.svm import SVC

from okl.compiled.jit import one_blas_thread
from okl.foundation.types import FloatArray
from okl.kernels import Gaussian
from okl.report.figures import add_axes, empty_figure, svg
from tests.benchmarks.scs_data import Doubles, kernel_of, mapped, objective, standardised
from tests.benchmarks.scs_rivals import LAM, run, scs
from tests.solvers.subgradient.exact import hinge_optimum

SET, ROWS, NEAR = "covtype_binary", (5_000, 10_000, 20_000, 40_000, 80_000), 0.01
TOLERANCES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
SPARE = 4.0
CACHE_MEGABYTES = 6000
_BLOCK = 1024


class Reached(NamedTuple):
    """Seconds, and a bound on the relative excess over the optimum."""

    seconds: float
    above: float


def scs_seconds(folder: str, n_rows: int) -> Reached:
    """Return the first moment of SCS in the map that is near enough."""
    data = mapped(folder, SET, n_rows)
    best = hinge_optimum(LAM, data.rows, data.targets, gap=1e-6).objective
    for moment in run(scs, data, 10.0, {}):
        above = objective(data, moment.weights, LAM) / best - 1.0
        if above <= NEAR:
            return Reached(moment.seconds + data.seconds_a_row * moment.met, above)
    return Reached(float("nan"), float("nan"))


def newton_seconds(folder: str, n_rows: int) -> Reached:
    """Run Newton's method in the map until the certified gap is 1%."""
    data = mapped(folder, SET, n_rows)
    start = time.perf_counter()
    optimum = hinge_optimum(LAM, data.rows, data.targets, gap=NEAR)
    return Reached(time.perf_counter() - start + data.seconds_a_row * n_rows, optimum.objective / optimum.bound - 1.0)


def kernel_seconds(folder: str, n_rows: int) -> Reached:
    """Run working sets with the kernel, whose rows are computed on demand, until the certified gap is 1%."""
    inputs, targets = standardised(folder, SET, n_rows)
    start = time.perf_counter()
    optimum = hinge_optimum(LAM, inputs, targets, kernel_of(inputs), gap=NEAR)
    return Reached(time.perf_counter() - start, optimum.objective / optimum.bound - 1.0)


def libsvm_seconds(tolerance: float, folder: str, n_rows: int) -> Reached:
    """Run LIBSVM with the kernel and a bias."""
    return libsvm(tolerance, *standardised(folder, SET, n_rows))


def libsvm(tolerance: float, inputs: FloatArray, targets: Doubles) -> Reached:
    """Run LIBSVM to a tolerance; compare its objective and its dual, both in units of mean losses."""
    m, kernel = len(targets), kernel_of(inputs)
    machine = SVC(C=1.0 / (LAM * m), gamma=0.5 / kernel.bandwidth**2, tol=tolerance, cache_size=CACHE_MEGABYTES)
    start = time.perf_counter()
    machine.fit(inputs, targets)
    seconds = time.perf_counter() - start
    points, supports = machine.dual_coef_[0], inputs[machine.support_]
    scores = np.concatenate([kernel.matrix(inputs[k : k + _BLOCK], supports) @ points for k in range(0, m, _BLOCK)])
    mean_hinge = np.maximum(0.0, 1.0 - targets * (scores + machine.intercept_[0])).mean()
    penalty = 0.5 * LAM * points @ scores[machine.support_]
    return Reached(seconds, float((penalty + mean_hinge) / (LAM * np.abs(points).sum() - penalty) - 1.0))


def loosest_tolerance(folder: str) -> float:
    """Return the first of TOLERANCES that is near enough on the smallest size, with a margin."""
    inputs, targets = standardised(folder, SET, ROWS[0])
    return next(t for t in TOLERANCES if libsvm(t, inputs, targets).above <= NEAR / SPARE)


def draw(lines: dict[str, list[tuple[int, float]]], path: str) -> None:
    """Draw seconds against rows, both logarithmic, with the exponents."""
    figure = empty_figure(6.4, 4.2)
    axes = add_axes(figure, (1, 1, 1))
    for label, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=f"{label}: rows^{exponent(points):.2f}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_title(f"{SET}: seconds to 1% of the own optimum", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8.5)
    Path(path).write_text(svg(figure), encoding="utf-8")


def exponent(points: list[tuple[int, float]]) -> float:
    """Return the slope of the line through the logarithms; NaN for one point."""
    if len(points) < 2:
        return float("nan")
    rows, seconds = np.log(np.array(points)).T
    return float(np.polyfit(rows, seconds, 1)[0])


def main(folder: str, picture: str = "", most_seconds: str = "1500") -> None:
    """Print a line per method, and draw them."""
    warm = standardised(folder, SET, 600)
    hinge_optimum(LAM, *warm, Gaussian(3.0))
    scs_seconds(folder, 600)
    tolerance = loosest_tolerance(folder)
    methods: dict[str, Callable[[str, int], Reached]] = {
        "SCS, map": scs_seconds,
        "Newton's method, map": newton_seconds,
        "working sets, kernel": kernel_seconds,
        f"LIBSVM, kernel, tolerance {tolerance:g}": partial(libsvm_seconds, tolerance),
    }
    lines: dict[str, list[tuple[int, float]]] = {}
    print(f"{SET}, seconds to 1% of the own optimum{'':4}", " ".join(f"{m:>8,}" for m in ROWS), "exponent")
    for label, method in methods.items():
        points: list[tuple[int, float]] = []
        above: list[float] = []
        print(f"{label:48}", end="")
        for m in ROWS:
            if not points or points[-1][1] * (m / points[-1][0]) ** 2 <= float(most_seconds):
                reached = method(folder, m)
                points.append((m, reached.seconds))
                above.append(reached.above)
                print(f" {reached.seconds:8.3f}", end="", flush=True)
        print(" " * 9 * (len(ROWS) - len(points)), f"{exponent(points):8.2f}")
        print(f"{'  above the optimum, at most':48}", " ".join(f"{share:8.3%}" for share in above), flush=True)
        lines[label] = points
    if picture:
        draw(lines, picture)


if __name__ == "__main__":
    with one_blas_thread():
        main(*sys.argv[1:])
