"""Growth of update time and memory: exponents of the budget, or of the rows, compared with the paper's Table 1.

Labels are random, so that the share of rows that are learnt is the same for every budget; each state is full before it
is timed. An exponent is the slope of a least squares line through logarithms. A learner that grows more slowly than the
table says meets it. For those that it leaves out, the order is that of their docstring.

Source: Lu et al., JMLR 17(47), 2016, Table 1.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from okl.data.execution import Rows
from okl.features.fourier import draw_fourier_map
from okl.kernels import Gaussian
from okl.losses import Hinge
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy, GrowingLearner
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.nystrom import NOGDLearner, NOGDState
from okl.solvers.online.strategies import STRATEGIES
from tests.benchmarks.online_data import random_rows
from tests.benchmarks.online_lines import Contestant, Line, Timing, time_in_turns
from tests.benchmarks.steadiness import verdict

N_INPUTS, RANK = 54, 20
KERNEL = Gaussian(0.7 * N_INPUTS**0.5)
TOLERANCE = 0.25  # of an exponent
BUDGETS = (128, 256, 512, 1024)
ROWS_BEFORE = (8192, 16384, 32768, 65536)
TRIED_ROWS, MOST_ROWS, SECONDS = 512, 65_536, 0.03  # of a timing: long enough that its start-up is negligible


class Growing(NamedTuple):
    """A learner: name, exponents of time and memory in Table 1, their variable, and a function that makes it."""

    name: str
    time: int
    memory: int
    sizes: tuple[int, ...]
    of: str
    make: Callable[[int], Any]


def _with_budget(name: str, budget: int) -> BudgetLearner:
    strategy = STRATEGIES[name]()
    assert isinstance(strategy, BudgetStrategy)
    return BudgetLearner(KERNEL, strategy, "binary", N_INPUTS, budget)


def _without(name: str, rows: int) -> GrowingLearner:
    strategy = STRATEGIES[name]()
    assert not isinstance(strategy, BudgetStrategy)
    return GrowingLearner(KERNEL, strategy, "binary", N_INPUTS)


def _fogd(n_frequencies: int) -> LinearLearner:
    return LinearLearner(draw_fourier_map(KERNEL, N_INPUTS, n_frequencies, 0), Hinge(), 0.1)


def _nogd(rank: int | None, budget: int) -> NOGDLearner:
    return NOGDLearner(KERNEL, N_INPUTS, Hinge(), 0.1, budget, rank or budget // 5)


TABLE_1 = {  # update time, space
    "budget-perceptron": (2, 1),
    "rbp": (1, 1),
    "forgetron": (1, 1),
    "bogd": (1, 1),
    "bpa-s": (1, 1),
    "projectron": (2, 2),
    "bpa-p": (3, 2),
    "bpa-nn": (1, 1),
    "tvm": (2, 2),
}
NOT_IN_TABLE_1 = {
    "projectron++": (2, 2),
    "norma": (1, 1),
    "bogd++": (1, 1),
    "bsgd-removal": (1, 1),
    "bsgd-merging": (1, 1),
}
WITHOUT_BUDGET = ("perceptron", "ogd")
CASES = (
    *(
        Growing(name, *orders, BUDGETS, "B", partial(_with_budget, name))
        for name, orders in (TABLE_1 | NOT_IN_TABLE_1).items()
    ),
    Growing("nogd, rank 20", 1, 1, BUDGETS, "B", partial(_nogd, RANK)),
    Growing("nogd, rank B/5", 2, 2, BUDGETS, "B", partial(_nogd, None)),
    Growing("fogd", 1, 1, BUDGETS, "D", _fogd),
    *(Growing(name, 1, 1, ROWS_BEFORE, "rows", partial(_without, name)) for name in WITHOUT_BUDGET),
)


def measure_growth(repeats: int, patience: float) -> list[Line]:
    """Return two lines per learner: the exponents of time and of memory."""
    rows = random_rows(2 * MOST_ROWS, N_INPUTS)
    prepared = [[_prepared(case, size, rows) for size in case.sizes] for case in CASES]
    groups = [[contestant for contestant, _ in each] for each in prepared]
    lines = []
    for case, timings, each in zip(CASES, time_in_turns(groups, repeats, patience), prepared, strict=True):
        lines += _lines_of(case, list(timings.values()), [state_bytes for _, state_bytes in each])
    return lines


def _prepared(case: Growing, size: int, rows: Rows) -> tuple[Contestant, int]:
    """Return a contestant that trains on further rows from a state of this size, and the bytes of that state."""
    learner = case.make(size)
    n_before = size if case.of == "rows" else 4 * size
    state = learner.learn(learner.start(), _part(rows, 0, n_before))
    assert case.of != "B" or _supports_of(state) == size
    if case.of == "rows":  # the same share for all sizes, because the time in the middle of a part counts
        n_after = size // 8
    else:
        start = perf_counter()
        learner.learn(state, _part(rows, n_before, TRIED_ROWS))
        n_after = int(np.clip(TRIED_ROWS * SECONDS / (perf_counter() - start), TRIED_ROWS, MOST_ROWS))
    work = partial(learner.learn, state, _part(rows, n_before, n_after))
    return Contestant(str(size), work, n_after), len(pickle.dumps(state))


def _part(rows: Rows, first: int, n_rows: int) -> Rows:
    return Rows(rows.inputs[first : first + n_rows], rows.targets[first : first + n_rows])


def _supports_of(state: Any) -> int:
    return len(state.supports.inputs) if isinstance(state, NOGDState) else int(state.n_supports)


def _lines_of(case: Growing, timings: list[Timing], bytes_of: list[int]) -> list[Line]:
    """Return the lines of a case; mine, other : at the largest and at the smallest size."""
    setting = f"{case.of} = {case.sizes[0]} to {case.sizes[-1]}"
    busy = max(timing.busy for timing in timings)
    lines = []
    state_bytes = [float(size) for size in bytes_of]
    for quantity, order, values, least, unit in (
        ("time", case.time, [timing.ns for timing in timings], [timing.least_ns for timing in timings], "ns a row"),
        ("memory", case.memory, state_bytes, state_bytes, "bytes"),
    ):
        exponent = slope(case.sizes, values)
        # how much the growth over all sizes differs between medians and least times
        spread = (case.sizes[-1] / case.sizes[0]) ** abs(exponent - slope(case.sizes, least))
        verdict_text = verdict(
            exponent, [spread], busy if quantity == "time" else 0.0, at_most=order + TOLERANCE
        ).strip(" ()")
        source = "its docstring" if case.name in (*NOT_IN_TABLE_1, *WITHOUT_BUDGET) else "Table 1"
        note = f"{quantity} ~ {case.of}^{exponent:.2f}, {source}: {case.of}^{order}"
        lines.append(Line("growth", case.name, setting, values[-1], values[0], unit, exponent, verdict_text, note))
    return lines


def slope(sizes: tuple[int, ...], values: list[float]) -> float:
    """Return the exponent of a power law through these points."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
