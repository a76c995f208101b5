"""Whether the time to a small excess over ALL rows, and the bytes read, grow with the rows.

    python -m tests.benchmarks.scs_growth [ROWS ...]

Generated rows of 20 columns (1e4, 1e5, 1e6, 4e6 by default) in uncompressed shards of 131,072, through 128 frequencies,
lam = 1e-3, samples from 2,000 rows on. Time starts with the first access to the data, including maps and reading, and
ends when the excess over all rows is .01, computed afterwards; and when the bound at 95% shows it. Bytes are those read
from the files: values of the sampled rows, the rows that the map is chosen by, footers and headers of pages of at most
eight files per sample. Medians of nine seeds, with as many threads as cores; files are in the system's cache, as they
were just written. The optimum is taken to be the certified lower bound of a run to a gap of 1e-3, so the true excess is
smaller by at most that gap.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.distributed import open_execution
from okl.losses import Hinge
from okl.solvers.online.maps import FourierChoice
from okl.solvers.subgradient.sharded import SubgradientState
from okl.solvers.subgradient.solver import SubgradientSolver
from tests.benchmarks.scs_shards import in_shards, objectives, states, write_made_up

ROWS, COLUMNS, SEEDS = (10_000, 100_000, 1_000_000, 4_000_000), 20, 9
EXCESS, LAM, FREQUENCIES, BANDWIDTH = 0.01, 1e-3, 128, 5.0
FIRST_SAMPLE = 2000  # four times as many suffice here, which the smallest set has, too
BYTES_A_ROW = 4 * COLUMNS + 8


class Run(NamedTuple):
    """Seconds after each step, and the states."""

    seconds: list[float]
    states: list[SubgradientState]


def of(gap: float, seed: int) -> SubgradientSolver:
    """Return a solver whose map has the frequencies of its seed."""
    maps = FourierChoice("gaussian", BANDWIDTH, FREQUENCIES)
    return SubgradientSolver(Hinge(), maps, lam=LAM, gap=gap, first_sample=FIRST_SAMPLE, seed=seed)


def timed(learning: SubgradientSolver, data: Dataset, execution: Execution) -> Run:
    """Run to the end, and return times and states."""
    start, run = time.perf_counter(), Run([], [])
    for state in states(learning, data, execution):
        run.seconds.append(time.perf_counter() - start)
        run.states.append(state)
    return run


def measured(n_rows: int, folder: Path) -> tuple[float, ...]:
    """Print a line; return seconds and bytes to the excess, and to the bound."""
    source = write_made_up(folder, n_rows, COLUMNS)
    data = in_shards(source, folder / "data", 131_072)
    source.unlink()
    figures = []
    for seed in range(SEEDS):
        with open_execution(0) as execution:  # a new one, without cached rows of the previous seed
            run = timed(of(EXCESS, seed), data, execution)
            feature_map = run.states[-1].rows.feature_map
            reference = timed(of(0.1 * EXCESS, seed), data, execution).states[-1]
        points = [state.descent.weights for state in run.states]
        values = objectives(data, feature_map, [*points, reference.descent.weights], LAM)
        assert reference.proof is not None
        best = values[-1] - reference.proof.gap
        place = int(np.argmax(values[:-1] - best <= EXCESS))
        assert values[place] - best <= EXCESS
        at, last = run.states[place], run.states[-1]
        at_excess, at_end = (at.bytes_read, at.samples[-1], at.drawn_rows), (last.bytes_read, last.drawn_rows)
        figures.append((run.seconds[place], *at_excess, run.seconds[-1], *at_end))
    median = tuple(float(value) for value in np.median(figures, axis=0))
    print(
        f"{n_rows:>9,} rows: excess {EXCESS} after {median[0]:.3f} s, {median[1] / 2**20:.3f} MiB, "
        f"{BYTES_A_ROW * median[3] / 2**20:.3f} of them values of {median[3]:,.0f} rows, sample of {median[2]:,.0f}; "
        f"certified after {median[4]:.3f} s, {median[5] / 2**20:.2f} MiB, {median[6]:,.0f} rows",
        flush=True,
    )
    return median


def main() -> None:
    """Print a line per size, and the ratio of the last to the first."""
    sizes = [int(float(word)) for word in sys.argv[1:]] or list(ROWS)
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "warm").mkdir()
        warm = in_shards(write_made_up(Path(name) / "warm", 20_000, COLUMNS), Path(name) / "warm" / "data", 8192)
        with open_execution(0) as execution:
            timed(of(0.05, 0), warm, execution)  # loads and compiles
        lines = []
        for size in sizes:
            with tempfile.TemporaryDirectory(dir=name) as folder:
                lines.append(measured(size, Path(folder)))
    first, last = lines[0], lines[-1]
    print(f"last over first: time {last[0] / first[0]:.2f}, bytes {last[1] / first[1]:.2f}")
    print(f"certified: time {last[4] / first[4]:.2f}, bytes {last[5] / first[5]:.2f}")


if __name__ == "__main__":
    main()
