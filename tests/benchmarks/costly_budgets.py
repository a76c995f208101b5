"""How fast the strategies with a costly budget learn: against tight numpy of the same steps, one row after the other.

    python -m tests.benchmarks.costly_budgets [--rows 20000] [--budget 100] [--precision float64]

Rows have 54 inputs and two classes, a tenth of them wrong; both sides see the same rows in the same precision, and
make the same number of mistakes, but for merging, where numpy looks at a grid of places only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from okl.compiled.door import one_blas_thread
from okl.execution.protocol import Rows
from okl.kernels import Gaussian
from okl.online.budget import BPASimple, BSGDMerging, BSGDRemoval, BudgetLearner, Projectron, ProjectronPlus
from okl.types import FloatArray, Precision

BANDWIDTH, N_INPUTS, REGULARISATION = 6.0, 54, 1e-5
GRID = np.arange(9) / 8.0


class Supports:
    """Rows, squared norms and coefficients in arrays of the budget and one more."""

    def __init__(self, budget: int, dtype: Any) -> None:
        self.budget, self.count = budget, 0
        self.rows = np.zeros((budget + 1, N_INPUTS), dtype=dtype)
        self.norms, self.a = np.zeros(budget + 1, dtype=dtype), np.zeros(budget + 1, dtype=dtype)
        self.inverse = np.zeros((budget + 1, budget + 1))
        self.gamma = np.asarray(0.5 / BANDWIDTH**2, dtype=dtype)

    def kernel(self, x: FloatArray, norm: float) -> FloatArray:
        n = self.count
        squares = self.norms[:n] + norm - 2.0 * (self.rows[:n] @ x)
        values: FloatArray = np.exp(-self.gamma * np.maximum(squares, 0.0))
        return values

    def put(self, slot: int, x: FloatArray, norm: float, a: float) -> None:
        self.rows[slot], self.norms[slot], self.a[slot] = x, norm, a
        self.count += slot == self.count

    def drop(self, slot: int) -> None:
        last = self.count - 1
        self.rows[slot], self.norms[slot], self.a[slot] = self.rows[last], self.norms[last], self.a[last]
        self.count = last


Update = Callable[[Supports, FloatArray, float, float, FloatArray, float], None]


def learn(update: Update, rows: Rows, budget: int, steps: bool = False) -> int:
    """Score, count and update row by row; the number of mistakes. steps : coefficients are those of Pegasos."""
    supports, mistakes = Supports(budget, rows.inputs.dtype), 0
    norms = np.einsum("ij,ij->i", rows.inputs, rows.inputs)
    for t, (x, y, norm) in enumerate(zip(rows.inputs, rows.targets, norms, strict=True)):
        k = supports.kernel(x, norm)
        f = float(supports.a[: supports.count] @ k)
        if steps:
            f /= REGULARISATION * max(t, 1)
        mistakes += (f >= 0) != (y > 0)
        update(supports, x, norm, y, k, f)
    return mistakes


def projectron(s: Supports, x: FloatArray, norm: float, y: float, k: FloatArray, f: float) -> None:
    if (f >= 0) != (y > 0):
        _project_or_put(s, x, norm, y, k)


def projectron_plus(s: Supports, x: FloatArray, norm: float, y: float, k: FloatArray, f: float) -> None:
    if (f >= 0) != (y > 0):
        _project_or_put(s, x, norm, y, k)
    elif y * f < 1.0 and s.count:
        n, loss = s.count, 1.0 - y * f
        place = s.inverse[:n, :n] @ k
        length = float(k @ place)
        tau = min(loss / length, 1.0) if length > 0 else 0.0
        reach = 0.25 * np.sqrt((s.budget + 1) / np.log(s.budget + 1))
        if tau > 0 and 2 * loss - tau * length - 2 * reach * np.sqrt(max(0.0, 1.0 - length)) >= 0:
            s.a[:n] += y * tau * place


def _project_or_put(s: Supports, x: FloatArray, norm: float, y: float, k: FloatArray) -> None:
    n = s.count
    place = s.inverse[:n, :n] @ k
    left = 1.0 - float(k @ place)
    if n == s.budget or left <= 1e-5:
        s.a[:n] += y * place
        return
    s.inverse[:n, :n] += np.outer(place, place / left)
    s.inverse[:n, n] = s.inverse[n, :n] = -place / left
    s.inverse[n, n] = 1.0 / left
    s.put(n, x, norm, y)


def bpa_simple(s: Supports, x: FloatArray, norm: float, y: float, k: FloatArray, f: float) -> None:
    if y * f >= 1.0:
        return
    step = y * min(1.0, 1.0 - y * f)
    if s.count < s.budget:
        s.put(s.count, x, norm, step)
        return
    slot = int(np.argmin(s.a[: s.count] ** 2 * np.maximum(0.0, 1.0 - k * k)))
    s.put(slot, x, norm, s.a[slot] * k[slot] + step)


def bsgd_removal(s: Supports, x: FloatArray, norm: float, y: float, k: FloatArray, f: float) -> None:
    if y * f < 1.0:
        # all coefficients are +-1: the oldest goes, and slots are used in turn
        slot = int(s.inverse[0, 0]) % s.budget
        s.inverse[0, 0] += 1
        s.put(slot, x, norm, y)


def bsgd_merging(s: Supports, x: FloatArray, norm: float, y: float, k: FloatArray, f: float) -> None:
    if y * f >= 1.0:
        return
    s.put(s.count, x, norm, y)
    if s.count <= s.budget:
        return
    n, m = s.count, int(s.count - 1 - np.argmin(np.abs(s.a[: s.count])[::-1]))
    logs = np.log(np.maximum(s.kernel(s.rows[m], s.norms[m]), 1e-300)).astype(np.float64)
    a, own = s.a[:n].astype(np.float64), float(s.a[m])
    p, q = np.exp(np.outer((1 - GRID) ** 2, logs)), np.exp(np.outer(GRID**2, logs))
    gains = (own * p + a * q) ** 2
    lost = own**2 + a**2 + 2.0 * np.exp(logs) * own * a - gains.max(axis=0)
    lost[m] = np.inf
    j = int(np.argmin(lost))
    h = GRID[int(np.argmax(gains[:, j]))]
    for _ in range(10):  # Newton's steps of the chosen one only, where okl takes two of every candidate
        p1, q1 = np.exp(logs[j] * (1 - h) ** 2), np.exp(logs[j] * h * h)
        total, slope = own * p1 + a[j] * q1, 2 * logs[j] * (-(1 - h) * own * p1 + h * a[j] * q1)
        bend = (4 * (logs[j] * (1 - h)) ** 2 + 2 * logs[j]) * own * p1 + (4 * (logs[j] * h) ** 2 + 2 * logs[j]) * a[
            j
        ] * q1
        curve = slope * slope + total * bend
        h = min(1.0, max(0.0, h - np.clip(total * slope / curve, -0.125, 0.125))) if curve < 0 else h
    z = h * s.rows[m] + (1 - h) * s.rows[j]
    value = own * np.exp(logs[j] * (1 - h) ** 2) + a[j] * np.exp(logs[j] * h * h)
    s.put(j, z, float(z @ z), value)
    s.drop(m)


class Pair(NamedTuple):
    strategy: Any
    update: Update
    steps: bool


PAIRS = {
    "projectron": Pair(Projectron(), projectron, False),
    "projectron++": Pair(ProjectronPlus(), projectron_plus, False),
    "bpa-s": Pair(BPASimple(), bpa_simple, False),
    "bsgd-removal": Pair(BSGDRemoval(REGULARISATION), bsgd_removal, True),
    "bsgd-merging": Pair(BSGDMerging(REGULARISATION), bsgd_merging, True),
}


def some_rows(n_rows: int, precision: Precision) -> Rows:
    """Two classes that a kernel tells apart, a tenth of the labels wrong."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((n_rows, N_INPUTS)).astype(precision)
    targets = np.where(inputs[:, 0] * inputs[:, 1] + inputs[:, 2] > 0, 1.0, -1.0)
    return Rows(inputs, np.where(rng.random(n_rows) < 0.1, -targets, targets))


def main() -> None:
    """Print rows a second of both, the ratio and the mistakes."""
    parser = argparse.ArgumentParser(description="Speed of strategies with a costly budget.")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--precision", choices=["float32", "float64"], default="float32")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rows = some_rows(arguments.rows, arguments.precision)
    for name, pair in PAIRS.items():
        learner = BudgetLearner(
            Gaussian(BANDWIDTH), pair.strategy, "binary", N_INPUTS, arguments.budget, precision=arguments.precision
        )
        learner.learn(learner.start(), Rows(rows.inputs[:300], rows.targets[:300]))  # compiles
        mine, theirs = [], []
        for _ in range(arguments.repeats):
            began = perf_counter()
            state = learner.learn(learner.start(), rows)
            mine.append(perf_counter() - began)
        for _ in range(2):
            began = perf_counter()
            with one_blas_thread():
                mistakes = learn(pair.update, rows, arguments.budget, pair.steps)
            theirs.append(perf_counter() - began)
        speeds = [arguments.rows / min(seconds) for seconds in (mine, theirs)]
        shown = f"okl {speeds[0]:11,.0f} rows/s  numpy {speeds[1]:8,.0f} rows/s  {speeds[0] / speeds[1]:5.1f} times"
        updates = state.progress.updates / arguments.rows
        print(f"{name:13} {shown}  mistakes {state.progress.mistakes} / {mistakes}  updates {updates:.0%}", flush=True)


if __name__ == "__main__":
    main()
