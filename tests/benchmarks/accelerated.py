"""The accelerated method and its peers, and its growth: `python -m tests.benchmarks.accelerated [PART ...]`.

Parts: margins and l1 (against LIBLINEAR and scikit-learn), biases (models with a bias against LIBSVM), kernels (working
sets against LIBSVM), methods (Newton's method against FAPG), iterations (against reads of the rows), covtype, growth;
all by default. Data are the paper's generator's, and sets of the folder OKL_DATA. iterations, covtype and growth hold
rows in float32, the others in float64; sums are float64.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from time import perf_counter, process_time
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.svm import SVC, LinearSVC, NuSVC

from okl.compiled.jit import one_blas_thread
from okl.compiled.products import add_listed_rows, multiply_rows
from okl.kernels import Gaussian
from okl.solvers.accelerated.base import CompositeProblem
from okl.solvers.accelerated.choice import MethodChoice, MethodName
from okl.solvers.accelerated.choice import solve as choose
from okl.solvers.accelerated.fapg import Fapg, solve
from okl.solvers.accelerated.models.l1 import L1LogisticRegression, L1SquaredHinge
from okl.solvers.accelerated.models.logistic import LogisticRegression
from okl.solvers.accelerated.models.minimax import MMMPM
from okl.solvers.accelerated.models.nusvm import NuSVM
from okl.solvers.accelerated.models.svm import CSVM, L2SVM
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from okl.solvers.accelerated.problem import class_moments
from tests.benchmarks.accelerated_data import Doubles, dense, paper_rows, scaled, shared_rows
from tests.solvers.accelerated.model_cases import kernel_matrix

ROWS, COLUMNS, ROUNDS, WITHIN = 10_000, 1_000, 3, 1e-4
LONG = 5.0  # processor seconds from which one measurement is enough


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    start = perf_counter()
    work()
    return perf_counter() - start


def arithmetic_milliseconds(rows: DenseRows) -> tuple[float, float]:
    """Return ms of the dot products and of the sum of all rows by all threads if rows were in cache: a lower bound."""
    block, signs, image = rows.rows[:64], rows.signs[:64], np.ones(rows.n_image)
    listed, products, sums = np.arange(64), np.empty(64), np.zeros(rows.n_image)

    def least(work: Callable[[], object]) -> float:
        return 1e3 * min(seconds_of(work) for _ in range(200)) * (rows.n_points / 64) / rows.n_threads

    work = (
        lambda: multiply_rows(products, block, signs, image),
        lambda: add_listed_rows(sums, block, listed, signs),
    )
    return least(work[0]), least(work[1])


def iterations() -> None:
    """Print the time of an iteration at the size of the other parts, and at ten times that (larger than any cache)."""
    for n_points in (ROWS, 10 * ROWS):
        _iterations(n_points)


def _iterations(n_points: int) -> None:
    """Print seconds of an iteration divided by the seconds of its reads of the rows, in the same run."""
    inputs, labels = paper_rows(n_points, COLUMNS)
    rows = dense(inputs, labels)
    products, image = np.empty(n_points), np.random.default_rng(0).standard_normal(COLUMNS)
    cases = {
        "c-svm, no bias: one read": (CSVM(1.0, fit_intercept=False).problem(rows), 1),
        "logistic, no bias: one read": (LogisticRegression(1.0, fit_intercept=False).problem(rows), 1),
        "c-svm: two reads": (CSVM(1.0).problem(rows), 2),
        "nu-svm: two reads": (NuSVM(0.5).problem(rows), 2),
    }
    method = Fapg(tolerance=1e-15, max_iterations=10**9, check_every=40, shrinking=False)
    times: dict[str, list[float]] = {name: [] for name in cases}
    reads_per_step: dict[str, list[float]] = {name: [] for name in cases}
    states = {name: method.advance(method.start(problem), problem) for name, (problem, _) in cases.items()}
    reads: list[float] = []
    for _ in range(7):
        start = perf_counter()
        for _ in range(40):
            rows.adjoint(products, image)
        reads.append((perf_counter() - start) / 40)
        for name, (problem, _) in cases.items():
            before, start = states[name], perf_counter()
            after = states[name] = method.advance(before, problem)
            seconds, steps = perf_counter() - start, after.history[-1].iteration - before.history[-1].iteration
            times[name].append(seconds / steps)
            reads_per_step[name].append((after.reads - before.reads) / steps)
    products_alone, sums_alone = arithmetic_milliseconds(rows)
    print(
        f"a read of the rows {1e3 * statistics.median(reads):.2f} ms "
        f"({rows.rows.nbytes / 2**20:.0f} MiB, two threads); "
        f"of as many in cache, dot products {products_alone:.2f} ms, sums {sums_alone:.2f} ms"
    )
    for name, (_, n_reads) in cases.items():
        ratio = statistics.median(a / (n_reads * b) for a, b in zip(times[name], reads, strict=True))
        count = statistics.median(reads_per_step[name])
        print(
            f"{name:28} {1e3 * statistics.median(times[name]):6.2f} ms an iteration, {ratio:5.2f} of its reads; with "
            f"those of backtracking and checks {count:.2f} reads, {ratio * n_reads / count:5.2f} of them"
        )


def covtype() -> None:
    """Seconds of nu-SVM on 581,012 rows to a certified gap of 1e-4, at the nu of the paper; there it took 60.75.

    At nu = 0.5 the hulls of the classes intersect and w = 0 is optimal, so a relative gap has no meaning.
    """
    inputs, labels = shared_rows("covtype_binary", "float32")
    rows = dense(inputs, labels)
    solve(NuSVM(0.62).problem(rows), Fapg(max_iterations=20))  # compile before timing
    start = perf_counter()
    state, outcome = solve(NuSVM(0.62).problem(rows), Fapg(tolerance=1e-4))
    print(
        f"nu-SVM, nu = 0.62, covtype_binary {inputs.shape}: {perf_counter() - start:.1f} s, "
        f"{state.history[-1].iteration} iterations; {outcome.reason}"
    )


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Return the slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def grow(title: str, sizes: list[float], problem_of: Callable[[float], CompositeProblem]) -> None:
    """Print seconds and iterations to a gap of 1e-4 of one problem for each size, and the exponent."""
    seconds, steps = [], []
    for size in sizes:
        problem = problem_of(size)
        start = perf_counter()
        steps.append(solve(problem, Fapg(tolerance=1e-4, max_iterations=6000))[0].history[-1].iteration)
        seconds.append(perf_counter() - start)
    cells = "  ".join(f"{size:g}: {s:.2f} s/{k}" for size, s, k in zip(sizes, seconds, steps, strict=True))
    print(f"{title}: {cells}; exponent {exponent(sizes, seconds):.2f}", flush=True)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and its processor seconds."""
    start = process_time()
    result = work()
    return result, process_time() - start


def race(
    title: str, model: Any, rows: Callable[[], Any], fit: Callable[[float], Any], value: Callable[[Any], float]
) -> None:
    """Print processor seconds to 1e-4 of the optimum, interleaved, and the median ratio, above 1 where okl is faster.

    rows : makes the operator; fit : the peer by its tolerance; value : its objective
    """
    chooser = MethodChoice(tolerance=WITHIN)
    target = choose(model.problem(rows()), MethodChoice(tolerance=0.01 * WITHIN))[0].best_record.certificate.primal
    target += WITHIN * abs(target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for tolerance in (1e-2, 1e-3, 1e-4):
            peer, seconds = timed(lambda: fit(tolerance))  # noqa: B023  (called at once)
            if value(peer) <= target:
                break
        peer_times, okl_times = [seconds], []
        while True:
            problem = model.problem(rows())
            (state, _, _), seconds = timed(lambda: choose(problem, chooser))  # noqa: B023
            okl_times.append(seconds)
            if len(okl_times) == ROUNDS or max(sum(peer_times), sum(okl_times)) >= LONG:
                break
            peer_times.append(timed(lambda: fit(tolerance))[1])
    ratio = statistics.median(a / b for a, b in zip(peer_times, okl_times, strict=True))
    missed, gap = ", missed" if value(peer) > target else "", state.best_record.certificate.relative_gap
    their_seconds, our_seconds = statistics.median(peer_times), statistics.median(okl_times)
    print(
        f"{title:56} {their_seconds:8.3f} s (tol {tolerance:g}{missed})   okl {our_seconds:8.3f} s (gap {gap:.1e})   "
        f"{ratio:6.2f} times faster",
        flush=True,
    )


@one_blas_thread()
def margins() -> None:
    """Models without a bias against LIBLINEAR and scikit-learn: dense rows of 54 to 1,000 columns, and w7a as CSR."""
    covtype, signs = shared_rows("covtype_binary")
    some = np.random.default_rng(0).permutation(len(signs))[:20_000]
    w7a, labels = shared_rows("w7a")
    sets: list[tuple[str, Any, Doubles]] = [
        ("covtype 20,000 x 54", scaled(covtype[some]), signs[some]),
        ("generated 5,000 x 300", *paper_rows(5000, 300)),
        ("generated 5,000 x 1,000", *paper_rows(5000, 1000)),
        ("w7a CSR", sparse.csr_array(w7a), labels),
    ]
    peers: list[tuple[Any, str, Callable[..., Any]]] = [
        (CSVM, "LIBLINEAR", partial(LinearSVC, loss="hinge", max_iter=1000)),
        (L2SVM, "LIBLINEAR", partial(LinearSVC, max_iter=1000)),
        (LogisticRegression, "LIBLINEAR", partial(SklearnLogistic, solver="liblinear", max_iter=1000)),
        (LogisticRegression, "lbfgs", partial(SklearnLogistic, solver="lbfgs", max_iter=1000)),
        (LogisticRegression, "newton-cholesky", partial(SklearnLogistic, solver="newton-cholesky")),
    ]
    for (title, inputs, of), C, (kind, name, machine) in product(sets, (0.1, 1.0), peers):
        if name == "newton-cholesky" and sparse.issparse(inputs):
            continue
        rows = SparseRows if sparse.issparse(inputs) else DenseRows
        problem: Any = kind(C, False).problem(rows(inputs, of))

        def fit(tol: float, machine: Any = machine, C: float = C, data: Any = (inputs, of)) -> Any:
            return machine(C=C, tol=tol, fit_intercept=False).fit(*data).coef_[0].astype(np.float64)

        def value(weights: Doubles, problem: Any = problem) -> float:
            return float(0.5 * weights @ weights + problem.risk.value(problem.rows.margins(weights), 0.0))

        race(f"{kind.NAME} {title} C = {C:g}, {name}", kind(C, False), partial(rows, inputs, of), fit, value)


@one_blas_thread()
def biases() -> None:
    """Models with a bias against LIBSVM on explicit columns."""
    covtype, signs = shared_rows("covtype_binary")
    some = np.random.default_rng(0).permutation(len(signs))
    few, many = some[:4000], some[:20_000]
    sets = [
        ("covtype 4,000 x 54", scaled(covtype[few]), signs[few]),
        ("covtype 20,000 x 54", scaled(covtype[many]), signs[many]),
        ("generated 3,000 x 300", *paper_rows(3000, 300)),
    ]
    models: list[tuple[Any, Any, str]] = [(NuSVM, NuSVC, "nu"), (CSVM, SVC, "C")]
    for (title, inputs, of), (kind, machine, name) in product(sets, models):
        _, highest = NuSVM.valid_range(rows := DenseRows(inputs, of))
        for parameter in (0.7 * highest, 0.9 * highest) if name == "nu" else (0.1, 1.0):
            model = kind(parameter)
            problem: Any = model.problem(rows)

            def fit(tol: float, machine: Any = machine, own: Any = {name: parameter}, data: Any = (inputs, of)) -> Any:  # noqa: B006
                return machine(kernel="linear", tol=tol, cache_size=1000, **own).fit(*data)

            def value(machine: Any, problem: Any = problem, name: str = name) -> float:
                point, image = np.zeros(problem.n_points), np.empty(problem.n_image)
                point[machine.support_] = np.abs(machine.dual_coef_[0])
                point *= problem.start().sum() / point.sum() if name == "nu" else 1.0  # LIBSVM's sums to nu m
                problem.apply(image, point)
                return float(problem.certificate(point, image, problem.rows.margins(image)).primal)

            race(f"{kind.NAME} {title} {name} = {parameter:.2g}", model, partial(DenseRows, inputs, of), fit, value)


@one_blas_thread()
def l1() -> None:
    """l1 models against LIBLINEAR: spambase and the paper's generator, dense, and w7a in CSR form.

    At larger C LIBLINEAR takes minutes on spambase.
    """
    spambase, labels = shared_rows("spambase")
    generated, their_labels = paper_rows(3000, 300)
    w7a, signs = shared_rows("w7a")
    sets: list[tuple[str, Any, Doubles]] = [
        ("spambase scaled", scaled(spambase), labels),
        ("generated 3,000 x 300", generated, their_labels),
        ("w7a CSR", sparse.csr_array(w7a), signs),
    ]
    for (title, inputs, of), C in product(sets, (0.1, 1.0)):
        for model in (L1LogisticRegression(C), L1SquaredHinge(C)):
            kind: Any = LinearSVC if isinstance(model, L1SquaredHinge) else SklearnLogistic
            more: dict[str, Any] = {"solver": "liblinear", "l1_ratio": 1.0}
            more = {"penalty": "l1", "dual": False} if kind is LinearSVC else more
            rows = SparseRows if sparse.issparse(inputs) else DenseRows
            problem: Any = model.problem(rows(inputs, of))

            def fit(tol: float, kind: Any = kind, more: Any = more, C: float = C, data: Any = (inputs, of)) -> Any:
                return kind(C=C, tol=tol, max_iter=100, fit_intercept=False, **more).fit(*data).coef_[0]

            def value(weights: Doubles, problem: Any = problem) -> float:
                margins = np.empty(problem.n_image)
                problem.apply(margins, weights)
                return float(problem.smooth(weights, margins) + problem.penalty(weights))

            race(f"{model.NAME} {title} C = {C:g}", model, partial(rows, inputs, of), fit, value)


@one_blas_thread()
def kernels() -> None:
    """Exact Gaussian kernels of 4,000 and 16,000 rows against LIBSVM with a cache of 1 GB, C-SVM at C = 1 and 100."""
    for n_rows, name, C in product((4000, 16_000), ("ijcnn1", "covtype_binary", "a9a"), (1.0, 100.0)):
        inputs, labels = shared_rows(name)
        chosen = np.random.default_rng(0).permutation(len(labels))[:n_rows]
        data: Any = (scaled(inputs[chosen]), labels[chosen])
        kernel, model = Gaussian(float(np.sqrt(0.5 * inputs.shape[1]))), CSVM(C)
        problem: Any = model.problem(kernel_matrix(kernel, *data))

        def fit(tol: float, kernel: Any = kernel, C: float = C, data: Any = data) -> Any:
            return SVC(C=C, tol=tol, gamma=kernel.rule.scale, cache_size=1000).fit(*data)

        def value(machine: Any, problem: Any = problem) -> float:
            point = np.zeros(problem.n_points)
            point[machine.support_] = np.abs(machine.dual_coef_[0])
            image = np.zeros(problem.n_points)
            problem.rows.tiles.row_cache.add(image, machine.support_, machine.dual_coef_[0])
            image *= problem.rows.signs
            return float(problem.certificate(point, image, image).primal)

        race(f"c-svm {name}, {n_rows:,} rows, C = {C:g}", model, partial(kernel_matrix, kernel, *data), fit, value)


def growth() -> None:
    """Figures 5, 7 and 9: m, n, and nu, C, kappa; seconds / iterations."""

    def rows(m: float, n: float) -> DenseRows:
        return dense(*paper_rows(int(m), int(n)))

    ms, ns = [1000.0, 3000.0, 9000.0, 27000.0], [30.0, 100.0, 300.0, 1000.0]
    grow("figure 5, nu-SVM, seconds by m (n = 100)", ms, lambda m: NuSVM(0.5).problem(rows(m, 100)))
    grow("figure 5, nu-SVM, by n (m = 3000)", ns, lambda n: NuSVM(0.5).problem(rows(3000, n)))
    fixed = rows(5000, 100)
    grow("figure 5, nu-SVM, by nu", [0.1, 0.2, 0.4, 0.8], lambda nu: NuSVM(nu).problem(fixed))
    grow("figure 7, logistic, by m (n = 100)", ms, lambda m: LogisticRegression(10.0).problem(rows(m, 100)))
    grow("figure 7, logistic, by n (m = 3000)", ns, lambda n: LogisticRegression(10.0).problem(rows(3000, n)))
    grow("figure 7, logistic, by C", [0.1, 1.0, 10.0, 100.0], lambda c: LogisticRegression(c).problem(fixed))
    by_moments = {n: class_moments(rows(3000, n)) for n in (*ns[:3], 600.0)}
    grow(
        "figure 9, MM-MPM at half of kappa_max, by n (m = 3000)",
        list(by_moments),
        lambda n: MMMPM(0.5 * MMMPM.kappa_max(by_moments[n])).problem_of(by_moments[n]),
    )
    moments = by_moments[300.0]
    grow(
        "figure 9, MM-MPM, by share of kappa_max (n = 300)",
        [0.1, 0.2, 0.4, 0.8],
        lambda share: MMMPM(share * MMMPM.kappa_max(moments)).problem_of(moments),
    )


MOST_STEPS = 3000  # iterations of a method


@one_blas_thread()
def methods() -> None:
    """Print a line of the table of a set and model: seconds of Newton / FAPG by C and tolerance, and their steps."""
    covtype, signs = shared_rows("covtype_binary")
    some = np.random.default_rng(0).permutation(len(signs))[:20_000]
    w7a, labels = shared_rows("w7a")
    frequencies = np.random.default_rng(1).normal(size=(covtype.shape[1], 300)) / np.sqrt(covtype.shape[1])
    angles = scaled(covtype[some[:6000]]) @ frequencies
    mapped = np.hstack([np.sin(angles), np.cos(angles)]) / np.sqrt(300)
    sets: list[tuple[str, Any]] = [
        ("covtype 20,000 x 54", DenseRows(scaled(covtype[some]), signs[some])),
        ("covtype 6,000 x 600 Fourier", DenseRows(mapped, signs[some[:6000]])),
        ("generated 5,000 x 300", DenseRows(*paper_rows(5000, 300))),
        ("generated 5,000 x 1,000", DenseRows(*paper_rows(5000, 1000))),
        (f"w7a CSR {w7a.shape[0]:,} x {w7a.shape[1]}", SparseRows(sparse.csr_array(w7a), labels)),
    ]
    columns = list(product((1e-4, 1e-8), (0.01, 1.0, 100.0)))
    losses: list[float] = []
    method_cell(CSVM(0.01).problem(sets[0][1]), 1e-4)  # compile before timing
    print("| rows | model | " + " | ".join(f"{tol:g}, C = {C:g}" for tol, C in columns) + " |", flush=True)
    for (title, rows), kind in product(sets, (CSVM, L2SVM, LogisticRegression)):
        cells = [method_cell(kind(C).problem(rows), tol) for tol, C in columns]
        losses += [loss for _, loss in cells]
        print(f"| {title} | {kind.NAME} | " + " | ".join(cell for cell, _ in cells) + " |", flush=True)
    within = sum(loss <= 1.3 for loss in losses)
    print(f"auto takes at most 1.3 times the better one in {within} of {len(losses)}, at most {max(losses):.2g} times")


def method_cell(problem: CompositeProblem, tolerance: float) -> tuple[str, float]:
    """Return a cell, and what auto takes in units of the better method.

    A cell has medians of interleaved processor seconds of Newton / FAPG, that of auto in bold, and steps; > where a
    method did not converge.
    """
    seconds: dict[MethodName, list[float]] = {"newton": [], "fapg": []}
    ends: dict[MethodName, tuple[str, int]] = {}
    chosen = MethodChoice("auto", tolerance, MOST_STEPS).choose(problem)
    auto: MethodName = "fapg" if isinstance(chosen, Fapg) else "newton"
    while len(seconds["fapg"]) < ROUNDS and max(map(sum, seconds.values())) < LONG:
        for name, measured in seconds.items():
            start = process_time()
            state, outcome, _ = choose(problem, MethodChoice(name, tolerance, MOST_STEPS))
            measured.append(process_time() - start)
            ends[name] = ("" if outcome.kind == "done" else ">", state.history[-1].iteration)
    medians = {name: statistics.median(measured) for name, measured in seconds.items()}
    solved = [median for name, median in medians.items() if not ends[name][0]] or list(medians.values())
    shown = {name: f"{ends[name][0]}{median:.2g}" for name, median in medians.items()}
    shown[auto] = f"**{shown[auto]}**"
    cell = f"{' / '.join(shown.values())} ({ends['newton'][1]} / {ends['fapg'][1]})"
    return cell, float("inf") if ends[auto][0] else medians[auto] / min(solved)


if __name__ == "__main__":
    parts = {"margins": margins, "l1": l1, "biases": biases, "kernels": kernels, "methods": methods}
    parts |= {"iterations": iterations, "covtype": covtype, "growth": growth}
    for name in sys.argv[1:] or parts:
        print(f"-- {name}", flush=True)
        parts[name]()
