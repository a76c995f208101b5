"""Every model on many sets over the range of its parameter: certified to 1e-4, or listed as a miss with its reason.

OKL_DATA=... python -m tests.benchmarks.solved [--sets heart,german] [--models c-svm,dwd] [--rows 2000] [--method auto]

A miss counts if an independent solver solves the same problem: clarabel for hinges, LIBLINEAR for smooth losses. A
tenth of the solved problems are compared with that solver as well. Problems for which it takes longer than --seconds
are counted separately.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import clarabel
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from okl.compiled.jit import one_blas_thread
from okl.foundation.errors import ConfigError, DataError
from okl.solvers.accelerated.choice import MethodChoice, solve
from okl.solvers.accelerated.models import MODEL_NAMES, make_model, model_class, parameter_of
from okl.solvers.accelerated.operators import DenseRows, SparseRows
from tests.benchmarks.accelerated_data import Doubles, scaled, shared_rows

TOLERANCE, SHARES, COSTS = 1e-4, (0.05, 0.3, 0.6, 0.95), tuple(2.0**k for k in (-5, 0, 5, 10, 15))
NUS = (1e-4, 1e-2, 1.0)
SMALL = ("heart", "german", "diabetes", "australian", "ionosphere", "sonar", "spambase", "svmguide3", "a9a", "w7a")


def generated() -> Iterator[tuple[str, Doubles, Doubles]]:
    """Yield sets with an unscaled row number, repeated rows, a class of three rows, more columns than rows."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(400) < 0.4, 1.0, -1.0)
    inputs = rng.standard_normal((400, 12)) + 0.5 * labels[:, np.newaxis]
    yield "identity", np.column_stack([inputs, 1e6 + np.arange(400.0)]), labels
    yield "repeated", np.repeat(inputs[:50], 8, axis=0), np.repeat(labels[:50], 8)
    rare = np.where(np.arange(400) < 3, 1.0, -1.0)
    yield "rare", inputs + rare[:, np.newaxis], rare
    wide = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    yield "wide", rng.standard_normal((60, 400)) + 0.1 * wide[:, np.newaxis], wide


def data_sets(names: list[str], n_rows: int) -> Iterator[tuple[str, Any, Doubles]]:
    """Yield name, dense or sparse inputs, and labels."""
    for name in names:
        inputs, labels = shared_rows(name)
        order = np.random.default_rng(0).permutation(len(labels))[:n_rows]
        rows: Doubles = np.ascontiguousarray(inputs[order], dtype=np.float64)
        yield f"{name} raw", rows, labels[order]
        yield f"{name} scaled", scaled(rows), labels[order]
        yield f"{name} csr", sparse.csr_array(rows), labels[order]
    yield from generated()


def parameters(name: str, rows: Any) -> tuple[float, ...]:
    """Return values over the valid range; none if the model does not accept such rows."""
    if parameter_of(name) == "C":
        return COSTS
    if name == "dwd":
        return NUS
    try:
        low, high = model_class(name).valid_range(rows)
    except (ConfigError, DataError, AttributeError):
        return ()
    if not np.isfinite(high) or high <= low:
        return ()
    return tuple(low + share * (high - low) for share in SHARES)


def independent(name: str, value: float, inputs: Any, labels: Doubles) -> float | None:
    """Return the optimal objective by another solver, or None if it fails or the model has none."""
    dense = inputs.toarray() if sparse.issparse(inputs) else inputs
    if name == "c-svm":
        m, n = dense.shape
        quadratic = sparse.diags_array(np.concatenate([np.ones(n), np.zeros(1 + m)])).tocsc()
        linear = np.concatenate([np.zeros(n + 1), np.full(m, value)])
        margins = np.hstack([-labels[:, None] * dense, labels[:, None]])
        matrix = sparse.block_array([[sparse.csc_array(margins), -sparse.eye_array(m)], [None, -sparse.eye_array(m)]])
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.time_limit = False, 20.0
        limits, cones = np.concatenate([-np.ones(m), np.zeros(m)]), [clarabel.NonnegativeConeT(2 * m)]
        solution = clarabel.DefaultSolver(quadratic, linear, sparse.csc_matrix(matrix), limits, cones, settings).solve()
        return float(solution.obj_val) if solution.status == clarabel.SolverStatus.Solved else None
    penalty = "l1" if name.startswith("l1-") else "l2"
    # LIBLINEAR does not reach more on raw columns at a large C
    common: dict[str, Any] = {"C": value, "tol": 1e-8 if penalty == "l2" else 1e-5, "max_iter": 3000}
    if name in ("l1-l2-svm", "l1-logistic"):
        kind: Any = LinearSVC if name == "l1-l2-svm" else LogisticRegression
        squared: dict[str, Any] = {"dual": False, "penalty": "l1"}
        more = squared if kind is LinearSVC else {"solver": "liblinear", "l1_ratio": 1.0}
        machine = kind(fit_intercept=False, **common, **more)
    elif name == "logistic":
        machine = LogisticRegression(solver="newton-cholesky", **common)
    else:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            machine.fit(dense, labels)
        except (Warning, ValueError):
            return None
    margins, weights = labels * machine.decision_function(dense), machine.coef_[0]
    losses = np.maximum(0.0, 1.0 - margins) ** 2 if name == "l1-l2-svm" else np.logaddexp(0.0, -margins)
    size = np.abs(weights).sum() if penalty == "l1" else 0.5 * weights @ weights
    return float(size + value * losses.sum())


def within(seconds: float, *arguments: Any) -> float | None:
    """Return what `independent` returns, from a process that is killed after so many seconds.

    Raises
    ------
    TimeoutError : the process had not ended
    """
    processes = get_context("fork")
    receiving, sending = processes.Pipe(duplex=False)
    process = processes.Process(target=lambda: sending.send(independent(*arguments)))
    process.start()
    sending.close()
    try:
        if not receiving.poll(seconds):
            raise TimeoutError
        result: float | None = receiving.recv()
        return result
    except EOFError:  # the solver failed
        return None
    finally:
        process.kill()
        process.join()


@one_blas_thread()
def main() -> None:
    """Print each miss, and the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default=",".join(SMALL))
    parser.add_argument("--models", default=",".join(MODEL_NAMES))
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the independent solver, a problem")
    options = parser.parse_args()
    names = [
        name for name in options.sets.split(",") if name and (Path(os.environ["OKL_DATA"]) / f"{name}.parquet").exists()
    ]
    counts: dict[str, list[int]] = {name: [0, 0, 0, 0] for name in options.models.split(",")}
    seconds = dict.fromkeys(counts, 0.0)
    method = MethodChoice(options.method, TOLERANCE, options.iterations)
    for title, inputs, labels in data_sets(names, options.rows):
        rows = SparseRows(inputs, labels) if sparse.issparse(inputs) else DenseRows(inputs, labels)
        for name in counts:
            for value in parameters(name, rows) if not (sparse.issparse(inputs) and name.startswith("mm-")) else ():
                setting: Any = {parameter_of(name): value}
                problem = make_model(name, **setting).problem(rows)
                start = perf_counter()
                state, outcome, _ = solve(problem, method)
                seconds[name] += perf_counter() - start
                certificate = state.best_record.certificate
                counts[name][0] += 1
                # no run that ends above the tolerance reports convergence
                assert outcome.converged == (certificate.relative_gap <= TOLERANCE or "optimum is 0" in outcome.reason)
                if outcome.converged and counts[name][0] % 10:
                    continue
                peer = "no peer"
                try:
                    optimum = within(options.seconds, name, value, inputs, labels)
                except TimeoutError:
                    counts[name][3] += 1
                    peer, optimum = f"the peer took over {options.seconds:g} s", None
                slack = 1e-6 * max(abs(certificate.primal), 1e-12)
                wrong = optimum is not None and not (certificate.dual - slack <= optimum)
                if outcome.converged and not wrong:
                    continue
                counts[name][1 if optimum is not None else 2] += 1
                peer = peer if optimum is None else f"peer {optimum:.8g}"
                print(
                    f"miss: {name} {value:.4g} on {title}: {outcome.reason}; dual {certificate.dual:.8g}; {peer}",
                    flush=True,
                )
    for name, (total, missed, unknown, slow) in counts.items():
        print(
            f"{name:12} {total:4} problems, {missed} missed, {unknown} unsolved without a peer, {slow} peers too "
            f"slow, {seconds[name]:.1f} s"
        )


if __name__ == "__main__":
    main()
