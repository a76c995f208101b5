"""Speed on one core: NOGD against scikit-learn, strategies against their kernel row, every baseline against numpy."""

from __future__ import annotations

from functools import partial
from typing import Any

from okl.compiled.budget import COUNT
from okl.data.execution import Rows
from okl.features.bandwidth import median_distance
from okl.foundation.types import Precision
from okl.kernels import Gaussian
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy, GrowingLearner, Strategy, support_arrays
from okl.solvers.online.strategies import STRATEGIES, Norma
from tests.benchmarks.fogd_data import in_precision
from tests.benchmarks.fogd_peers import Run, tuned_step_size
from tests.benchmarks.online_data import read_covtype
from tests.benchmarks.online_lines import Contestant, Line, Timing, ratio_line, time_in_turns
from tests.benchmarks.online_numpy import SIMPLE, run_numpy
from tests.benchmarks.online_numpy_costly import COSTLY
from tests.benchmarks.online_numpy_twins import TWINS
from tests.benchmarks.online_peers import nogd_peer, nystroem_peer, rows_alone

N_ROWS, FEW_ROWS, BUDGET, RANK = 131_072, 16_384, 100, 20
PRECISIONS: tuple[Precision, ...] = ("float32", "float64")
AGAINST_SKLEARN, AGAINST_ROW, AGAINST_NUMPY = 6.0, 1.5, 5.0  # required ratios
LINEAR_COST = ("rbp", "bogd")  # little more than a kernel row
PEERS = SIMPLE | COSTLY | TWINS


def measure_speed(repeats: int, patience: float) -> list[Line]:
    """Return all lines on forest cover types, 54 inputs."""
    rows = read_covtype(N_ROWS)
    bandwidth = median_distance(rows.inputs[:4096])
    narrow = in_precision(rows, "float32")
    lines = against_sklearn(rows, bandwidth, repeats, patience)
    lines += against_kernel_row(narrow, bandwidth, repeats, patience)
    few = Rows(narrow.inputs[:FEW_ROWS], narrow.targets[:FEW_ROWS])
    return lines + against_numpy(few, bandwidth, repeats, patience)


def against_sklearn(rows: Rows, bandwidth: float, repeats: int, patience: float) -> list[Line]:
    """Return lines of NOGD with the paper's rank and with scikit-learn's; step sizes are tuned on the first rows."""
    peers = {
        f"rank {RANK}": nogd_peer(bandwidth, BUDGET, RANK),
        f"rank {BUDGET}": nogd_peer(bandwidth, BUDGET, BUDGET),
        "scikit-learn": nystroem_peer(bandwidth, BUDGET),
    }
    groups = []
    for precision in PRECISIONS:
        typed = in_precision(rows, precision)
        steps = {name: tuned_step_size(peer, typed) for name, peer in peers.items()}
        groups.append([Contestant(name, partial(peer, typed, steps[name]), N_ROWS) for name, peer in peers.items()])
    lines = []
    for precision, timings in zip(PRECISIONS, time_in_turns(groups, repeats, patience), strict=True):
        sklearn_timing = timings.pop("scikit-learn")
        for name, okl_timing in timings.items():
            note = f"accuracy {_accuracy(okl_timing):.4f} / {_accuracy(sklearn_timing):.4f}"
            setting = f"B={BUDGET}, {name}, {precision}"
            lines.append(
                ratio_line("sklearn", "nogd", setting, (okl_timing, sklearn_timing), note, at_least=AGAINST_SKLEARN)
            )
    return lines


def _accuracy(timing: Timing) -> float:
    assert isinstance(timing.last, Run)
    return 1.0 - timing.last.error


def against_kernel_row(rows: Rows, bandwidth: float, repeats: int, patience: float) -> list[Line]:
    """Return lines of learners that should cost little more than their kernel row, with a full budget."""
    kernel = Gaussian(bandwidth)
    learners = {name: learner_of(name, STRATEGIES[name](), rows, bandwidth) for name in LINEAR_COST}
    full = support_arrays(learners["rbp"].learn(learners["rbp"].start(), Rows(rows.inputs[:4096], rows.targets[:4096])))
    assert full.integers[COUNT] == BUDGET
    group = [Contestant("kernel row", partial(rows_alone, full, rows.inputs, kernel.rule), N_ROWS)]
    group += [
        Contestant(name, partial(learner.learn, learner.start(), rows), N_ROWS) for name, learner in learners.items()
    ]
    timings = time_in_turns([group], repeats, patience)[0]
    row_timing = timings.pop("kernel row")
    note = f"{1e3 / row_timing.ns:.1f} million rows a second"
    setting = f"B={BUDGET}, d={rows.inputs.shape[1]}"
    lines = [Line("kernel row", "kernel row alone", setting, row_timing.ns, 0.0, "ns a row", 1.0, "", note)]
    for name, okl_timing in timings.items():
        note = f"{1e3 / okl_timing.ns:.1f} million rows a second"
        lines.append(ratio_line("kernel row", name, setting, (okl_timing, row_timing), note, at_most=AGAINST_ROW))
    return lines


def learner_of(name: str, strategy: Strategy, rows: Rows, bandwidth: float) -> Any:
    """Return the learner of a strategy, with a budget if it has one."""
    n_inputs = rows.inputs.shape[1]
    if isinstance(strategy, BudgetStrategy):
        return BudgetLearner(Gaussian(bandwidth), strategy, "binary", n_inputs, BUDGET)
    return GrowingLearner(Gaussian(bandwidth), strategy, "binary", n_inputs)


def against_numpy(rows: Rows, bandwidth: float, repeats: int, patience: float) -> list[Line]:
    """Return lines of every baseline and its numpy version on the same rows, with the mistakes of both."""
    groups = []
    for name, kind in STRATEGIES.items():
        strategy = Norma(nu=None) if kind is Norma else kind()
        learner = learner_of(name, strategy, rows, bandwidth)
        budget = BUDGET if isinstance(strategy, BudgetStrategy) else len(rows.targets)
        numpy_run = partial(run_numpy, PEERS[name], rows, budget, bandwidth)
        groups.append(
            [
                Contestant("okl", partial(learner.learn, learner.start(), rows), len(rows.targets)),
                Contestant("numpy", numpy_run, len(rows.targets)),
            ]
        )
    lines = []
    for name, timings in zip(STRATEGIES, time_in_turns(groups, repeats, patience), strict=True):
        state: Any = timings["okl"].last
        note = f"mistakes {state.progress.mistakes} / {timings['numpy'].last}"
        bounded = issubclass(STRATEGIES[name], BudgetStrategy)
        setting = f"B={BUDGET}" if bounded else f"{len(rows.targets):,} rows, no budget"
        both = timings["okl"], timings["numpy"]
        lines.append(ratio_line("numpy", name, setting, both, note, at_least=AGAINST_NUMPY))
    return lines
