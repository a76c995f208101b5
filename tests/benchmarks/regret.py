"""Regret of FOGD in a ball on real rows, against the best weights of the ball in hindsight, and what theory allows.

    python -m tests.benchmarks.regret [BANDWIDTH]

OKL_DATA names the folder that holds ijcnn1.parquet and covtype_binary.parquet. All rows of a set, of both splits, in
one order drawn beforehand: covtype's lie sorted by place, and a learner that follows rows as they change loses less
than weights that stay. The map: 400 frequencies of the Gaussian kernel, of bandwidth BANDWIDTH or the median distance.
Steps R / sqrt(2 t). Asked: at every horizon 0 < regret < 1.5 sqrt(2) R sqrt(T), a bound at most 20 times the regret and
a comparator within 1%; growth exponent at most .5; and without a ball no figure at all.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from okl.foundation.settings import settings_from
from okl.foundation.telemetry import NullObserver
from okl.solvers.settings import TrainSettings
from tests.rows import train

SETS, RADII = ("ijcnn1", "covtype_binary"), (10.0, 30.0)
SHARE, MOST_RATIO, MOST_GROWTH, MOST_GAP = 1.5, 20.0, 0.5, 0.01


class Stages(NullObserver):
    """Seconds of each stage of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began, self._name = time.perf_counter(), ""

    def stage(self, name: str) -> None:
        """Another stage begins."""
        self.finish()
        self._name = name

    def finish(self) -> None:
        """The last one is over."""
        now = time.perf_counter()
        if self._name:
            self.seconds[self._name] = now - self._began
        self._began, self._name = now, ""


def main(bandwidth: float | str) -> None:
    """Print every horizon of every run, and whether each limit is kept."""
    source = Path(os.environ["OKL_DATA"])
    kept = True
    with tempfile.TemporaryDirectory() as scratch:
        for name in SETS:
            shuffled = shuffle(source / f"{name}.parquet", Path(scratch))
            for radius in RADII:
                kept &= run(name, shuffled, Path(scratch) / f"{name}-{radius:g}", radius, bandwidth)
        settings = {"data": str(shuffled), "out": str(Path(scratch) / "free"), "certify": True, "step_size": 0.5}
        proof = train(settings_from(TrainSettings, settings, "benchmark"))["certificate"]
        kept &= not proof["shown"] and "regret" not in proof
        print(f"without a ball: {proof['reason']}")
    print("every limit is kept" if kept else "A LIMIT IS BROKEN")


def shuffle(path: Path, scratch: Path) -> Path:
    """Write all rows of a set in one order drawn from a seed, without their split."""
    rows = pq.read_table(path)
    rows = rows.select([name for name in rows.column_names if name != "split"])
    out = scratch / path.name
    pq.write_table(rows.take(np.random.default_rng(0).permutation(rows.num_rows)), out)
    return out


def run(name: str, data: Path, out: Path, radius: float, bandwidth: float | str) -> bool:
    """Certify one run and print it; whether all limits are kept."""
    values = {"data": str(data), "out": str(out), "radius": radius, "certify": True, "bandwidth": bandwidth}
    stages = Stages()
    result = train(settings_from(TrainSettings, values, "benchmark"), stages)
    proof, mistakes = result["certificate"], result["progressive"]["mistake_rate"]
    print(
        f"{name}, R = {radius:g}, bandwidth {result['chosen']['bandwidth']:.3g}: mistakes {mistakes:.4f}; "
        f"learning {stages.seconds['learn']:.1f} s, certifying {stages.seconds['certify']:.1f} s, "
        f"everything {result['total_seconds']:.1f} s"
    )
    print(
        f"{'rows':>9}{'loss':>9}{'regret':>8}{'at most':>9}{'limit':>8}{'bound':>8}{'ratio':>7}{'gap':>7}{'iters':>6}"
    )
    kept = [line(one, radius) for one in proof["horizons"]]
    growth, kernel = proof["growth_exponent"], proof["kernel_bound"]
    grown = growth is not None and growth <= MOST_GROWTH
    print(
        f"  growth exponent {'-' if growth is None else f'{growth:.3f}'}{verdict(grown)}; Theorem 1 allows "
        f"{kernel['bound']:.3g}{', vacuous' if kernel['vacuous'] else ''}\n",
        flush=True,
    )
    return all(kept) and grown and len(kept) == 5


def line(one: dict[str, Any], radius: float) -> bool:
    """Print a horizon; whether its limits are kept."""
    regret, comparator = one["regret"], one["comparator"]
    limit, ratio = SHARE * math.sqrt(2.0 * one["rows"]) * radius, one["bound"] / regret
    kept: bool = 0.0 < regret < limit and ratio <= MOST_RATIO and comparator["relative_gap"] <= MOST_GAP
    print(
        f"{one['rows']:9,}{one['loss']:9.0f}{regret:8.0f}{one['regret_at_most']:9.0f}{limit:8.0f}{one['bound']:8.0f}"
        f"{ratio:7.2f}{comparator['relative_gap']:7.2%}{comparator['iterations']:6}{verdict(kept)}"
    )
    return kept


def verdict(kept: bool) -> str:
    """A mark for a person."""
    return "  ok" if kept else "  BROKEN"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else "auto")
