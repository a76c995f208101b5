"""Does a stochastic start pay? Seconds and reads of the data to a certified gap, with it and without.

    OKL_DATA=../shared/data python -m tests.benchmarks.stochastic [SET,...] [MODEL,...] [ROUNDS] [ROWS]

Standardised inputs of real sets, the first ROWS of a random order (30,000 unless said otherwise), two threads. C-models
at C = 10,000 / rows (a regularisation of 1e-4), nu-svm at 0.97 of its largest nu, dwd at 0.5, minimax models at half of
their largest kappa. A round of the start reads every row once from memory, and its steps find them in cache. A run ends
at the last gap or after LIMIT_SECONDS, the start and the moments of minimax models included; "-" was not reached.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from okl.solvers.accelerated.base import Classifier
from okl.solvers.accelerated.catalogue import make_model, parameter_of, valid_range
from okl.solvers.accelerated.method import Fapg, StochasticStart
from okl.solvers.accelerated.models.nusvm import nu_max
from okl.solvers.accelerated.operators import DenseRows
from tests.benchmarks.accelerated_data import dense, shared_rows

SETS = ("ijcnn1", "covtype_binary", "a9a", "w7a")
MODELS = ("c-svm", "l2-svm", "logistic", "nu-svm", "dwd", "mm-fda", "mm-mpm", "l1-logistic", "l1-l2-svm")
GAPS = (1e-2, 1e-3)
LIMIT_SECONDS = 6.0


def prepared(name: str, n_rows: int) -> DenseRows:
    """Rows of a set in a random order, each column of mean 0 and spread 1."""
    inputs, labels = shared_rows(name, "float32")
    chosen = np.random.default_rng(0).permutation(len(labels))[:n_rows]
    inputs = inputs[chosen]
    spread = inputs.std(axis=0)
    return dense((inputs - inputs.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), labels[chosen])


def model_for(name: str, rows: DenseRows) -> Classifier:
    """The model at the parameter that the benchmark goes by."""
    if parameter_of(name) == "C":
        return make_model(name, C=1e4 / rows.n_points)
    if name == "nu-svm":
        return make_model(name, nu=0.97 * nu_max(rows.signs, np.ones(rows.n_points)))
    return make_model(name, nu=0.5) if name == "dwd" else make_model(name, kappa=0.5 * valid_range(name, rows)[1])


def timed(model: Classifier, rows: DenseRows, start: StochasticStart | None) -> str:
    """Seconds, then reads, to each gap; the reads of the start come first."""
    method = Fapg(tolerance=GAPS[-1])
    started = time.perf_counter()
    problem = model.problem(rows)
    point = None if start is None else start.point(problem, rows)
    first = time.perf_counter() - started
    state = method.start(problem, point)
    before = 0 if start is None else start.rounds
    opening = state.best_record.certificate.relative_gap
    reached: list[str] = []
    while True:
        while len(reached) < len(GAPS) and state.best_record.certificate.relative_gap <= GAPS[len(reached)]:
            reached.append(f"{time.perf_counter() - started:6.2f} s {before + state.reads:5d} reads")
        late = time.perf_counter() - started > LIMIT_SECONDS
        if late or method.finished(state) is not None:
            break
        state = method.advance(state, problem)
    reached += ["     -             "] * (len(GAPS) - len(reached))
    last = state.best_record.certificate.relative_gap
    return (
        f"{first:6.2f} s before the first check, gap {opening:8.1e} | " + " | ".join(reached) + f" | last {last:8.1e}"
    )


def main() -> None:
    """Print a line a set, model and start."""
    words = sys.argv[1:] + [""] * 4
    sets, models = words[0].split(",") if words[0] else SETS, words[1].split(",") if words[1] else MODELS
    start, n_rows = StochasticStart(rounds=int(words[2] or 5)), int(words[3] or 30_000)
    print("seconds and reads to a relative gap of " + " | ".join(f"{gap:g}" for gap in GAPS))
    for name in sets:
        rows = prepared(name, n_rows)
        for model_name in models:
            model = model_for(model_name, rows)
            start.point(model.problem(rows), rows)  # compiled by then
            for label, one in (("own", None), ("stochastic", start)):
                print(f"{name:15} {model_name:12} {label:11} {timed(model, rows, one)}", flush=True)


if __name__ == "__main__":
    main()
