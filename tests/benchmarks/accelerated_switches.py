"""Effect of the switches bt, re, dec, st and mt: `python -m tests.benchmarks.accelerated_switches [SET ...]`.

Figures 6 (nu-SVM) and 10 (MM-MPM) of Ito et al. in numbers, on sets of the folder OKL_DATA and the paper's artificial
rows: iterations and seconds of the practical method to a duality gap, for each set of switches, and for the proven one.
"""

from __future__ import annotations

import sys
from time import perf_counter

from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.fapg import Fapg, Switches, solve
from okl.solvers.accelerated.models.minimax import MMMPM
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.accelerated.problem import class_moments
from tests.benchmarks.accelerated_data import dense, paper_rows, shared_rows

MOST, GAPS = 3000, (1e-2, 1e-4, 1e-6)
SETS = ("artificial", "german", "spambase", "a9a")
STEPS = ("bt", "bt+re", "bt+re+dec", "bt+re+dec+st", "bt+re+dec+st+mt")


def switches_of(names: str) -> Switches:
    """Return switches in which the named ones of bt, re, dec, st and mt are on."""
    on = set(names.split("+"))
    return Switches(**{name: name in on for name in ("bt", "re", "dec", "st", "mt")})


def rows_of(name: str) -> DenseRows:
    """Return at most 10,000 rows of a set, columns scaled to [0, 1], or the artificial set."""
    if name == "artificial":
        return dense(*paper_rows(5000, 500))
    inputs, labels = shared_rows(name)
    inputs, labels = inputs[:10_000], labels[:10_000]
    spread = inputs.max(axis=0) - inputs.min(axis=0)
    varying = spread > 0.0
    return dense((inputs - inputs.min(axis=0))[:, varying] / spread[varying], labels)


def show(title: str, problem: CompositeProblem, method: Fapg) -> None:
    """Print a line with iterations and seconds to each gap, the least gap, restarts, and the Lipschitz estimates."""
    start, reached = perf_counter(), dict.fromkeys(GAPS, "-")
    state = method.start(problem)
    outcome = method.finished(state)
    while outcome is None:
        state = method.advance(state, problem)
        outcome = method.finished(state)
        gap, record = state.best_record.certificate.relative_gap, state.history[-1]
        for target_gap in GAPS:
            if gap <= target_gap and reached[target_gap] == "-":
                reached[target_gap] = f"{record.iteration} / {perf_counter() - start:.2f} s"
    estimates = [record.lipschitz for record in state.history]
    cells = "".join(f"{reached[target_gap]:>17}" for target_gap in GAPS)
    print(
        f"  {title:22}{cells}   gap {state.best_record.certificate.relative_gap:8.1e}   {record.restarts:4} restarts   "
        f"L {min(estimates):.3g} to {max(estimates):.3g}",
        flush=True,
    )


def compare(title: str, problem: CompositeProblem) -> None:
    """Print a line for each set of switches."""
    print(f"{title}; iterations / seconds to a gap of " + ", ".join(f"{gap:g}" for gap in GAPS))
    solve(problem, Fapg(max_iterations=20))  # compile before timing
    for names in STEPS:
        show(
            names,
            problem,
            Fapg(switches=switches_of(names), tolerance=GAPS[-1], max_iterations=MOST, check_every=20, shrinking=False),
        )
    show(
        "proven, all",
        problem,
        Fapg(method="proven", tolerance=GAPS[-1], max_iterations=MOST, check_every=20, shrinking=False),
    )


def main(names: list[str]) -> None:
    """Compare both models on every set."""
    for name in names:
        rows = rows_of(name)
        share = 0.9 * 2.0 * min((rows.signs > 0).mean(), (rows.signs < 0).mean())
        compare(f"figure 6: nu-SVM, nu = {share:.3g}, {name} {rows.rows.shape}", NuSVM(float(share)).problem(rows))
        moments = class_moments(rows)
        kappa = min(0.5 * MMMPM.kappa_max(moments), 1.0)
        compare(f"figure 10: MM-MPM, kappa = {kappa:.3g}, {name}", MMMPM(kappa).problem_of(moments))


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
