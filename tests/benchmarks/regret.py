"""Regret of FOGD in a ball on real rows, against the best weights of the ball in hindsight, and what theory allows.

    python -m tests.benchmarks.regret [BANDWIDTH]

OKL_DATA names the folder that holds ijcnn1.parquet and covtype_binary.parquet. All rows of a set, of both splits, in
one order drawn in advance: covtype's are sorted by location, and a learner that follows changing rows has a lower loss
than fixed weights. The map: 400 frequencies of the Gaussian kernel, of bandwidth BANDWIDTH or the median distance.
Steps R / sqrt(2 t). Limits: at every horizon 0 < regret < 1.5 sqrt(2) R sqrt(T), a bound at most 20 times the regret
and a comparator within 1%; growth exponent at most .5; and no figure without a ball.
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
        self._start, self._name = time.perf_counter(), ""

    def stage(self, name: str) -> None:
        """Start another stage."""
        self.finish()
        self._name = name

    def finish(self) -> None:
        """End the current stage."""
        now = time.perf_counter()
        if self._name:
            self.seconds[self._name] = now - self._start
        self._start, self._name = now, ""


def main(bandwidth: float | str) -> None:
    """Print every horizon of every run, and whether each limit is met."""
    source = Path(os.environ["OKL_DATA"])
    met = True
    with tempfile.TemporaryDirectory() as scratch:
        for name in SETS:
            shuffled = shuffle(source / f"{name}.parquet", Path(scratch))
            for radius in RADII:
                met &= run(name, shuffled, Path(scratch) / f"{name}-{radius:g}", radius, bandwidth)
        settings = {"data": str(shuffled), "out": str(Path(scratch) / "free"), "certify": True, "step_size": 0.5}
        certificate = train(settings_from(TrainSettings, settings, "benchmark"))["certificate"]
        met &= not certificate["shown"] and "regret" not in certificate
        print(f"without a ball: {certificate['reason']}")
    print("every limit is kept" if met else "A LIMIT IS BROKEN")


def shuffle(path: Path, scratch: Path) -> Path:
    """Write all rows of a set in one order drawn from a seed, without their split."""
    rows = pq.read_table(path)
    rows = rows.select([name for name in rows.column_names if name != "split"])
    out = scratch / path.name
    pq.write_table(rows.take(np.random.default_rng(0).permutation(rows.num_rows)), out)
    return out


def run(name: str, data: Path, out: Path, radius: float, bandwidth: float | str) -> bool:
    """Certify one run and print it; return whether all limits are met."""
    values = {"data": str(data), "out": str(out), "radius": radius, "certify": True, "bandwidth": bandwidth}
    stages = Stages()
    result = train(settings_from(TrainSettings, values, "benchmark"), stages)
    certificate, mistakes = result["certificate"], result["progressive"]["mistake_rate"]
    print(
        f"{name}, R = {radius:g}, bandwidth {result['chosen']['bandwidth']:.3g}: mistakes {mistakes:.4f}; "
        f"learning {stages.seconds['learn']:.1f} s, certifying {stages.seconds['certify']:.1f} s, "
        f"everything {result['total_seconds']:.1f} s"
    )
    print(
        f"{'rows':>9}{'loss':>9}{'regret':>8}{'at most':>9}{'limit':>8}{'bound':>8}{'ratio':>7}{'gap':>7}{'iters':>6}"
    )
    met = [line(one, radius) for one in certificate["horizons"]]
    growth, kernel = certificate["growth_exponent"], certificate["kernel_bound"]
    slow_enough = growth is not None and growth <= MOST_GROWTH
    print(
        f"  growth exponent {'-' if growth is None else f'{growth:.3f}'}{verdict(slow_enough)}; Theorem 1 allows "
        f"{kernel['bound']:.3g}{', vacuous' if kernel['vacuous'] else ''}\n",
        flush=True,
    )
    return all(met) and slow_enough and len(met) == 5


def line(horizon: dict[str, Any], radius: float) -> bool:
    """Print a horizon; return whether its limits are met."""
    regret, comparator = horizon["regret"], horizon["comparator"]
    limit, ratio = SHARE * math.sqrt(2.0 * horizon["rows"]) * radius, horizon["bound"] / regret
    met: bool = 0.0 < regret < limit and ratio <= MOST_RATIO and comparator["relative_gap"] <= MOST_GAP
    print(
        f"{horizon['rows']:9,}{horizon['loss']:9.0f}{regret:8.0f}{horizon['regret_at_most']:9.0f}{limit:8.0f}{horizon['bound']:8.0f}"
        f"{ratio:7.2f}{comparator['relative_gap']:7.2%}{comparator['iterations']:6}{verdict(met)}"
    )
    return met


def verdict(met: bool) -> str:
    """Return the mark that is printed."""
    return "  ok" if met else "  BROKEN"


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else "auto")
