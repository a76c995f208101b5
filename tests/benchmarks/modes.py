"""Cost of distribution in accuracy: mix and sum on Dask workers compared with stream, at equal and at more passes.

    python -m tests.benchmarks.modes [--data ../shared/data] [--workers 2] [--passes 3]

covtype as in data/, and the train rows of ijcnn1, each in 8 shards, with okl's own defaults. A row per mode and number
of passes: test accuracy, its distance from one pass of stream, rounds, bytes to and from the workers, learning time.
The second part shows that the weights are the same bits in this process and on 1, 2 and 4 workers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from okl.data.dataset import Dataset
from okl.data.execution import Execution
from okl.data.ingest.run import ingest
from okl.data.manifest import open_dataset
from okl.distributed import open_execution
from okl.foundation.settings import IngestSettings
from okl.runs.evaluate import predictor_tallies
from okl.solvers.online.solver import OnlineState
from okl.solvers.settings import TrainSettings
from tests.solver_cases import make_online_solver

IJCNN1_SHARD_ROWS = 6249  # 49,990 train rows make 8 shards


@dataclass(frozen=True)
class Run:
    """One run of the training loop: its last state and its cost."""

    state: OnlineState
    accuracy: float
    seconds: float
    rounds: int
    megabytes: float


def learn(data: Dataset, settings: TrainSettings, execution: Execution) -> Run:
    """Train, and measure accuracy on the test rows."""
    solver, before = make_online_solver(settings, data), execution.traffic
    state = solver.start(data, execution)
    start = time.perf_counter()
    while solver.finished(state) is None:
        state = solver.advance(state, data, execution)
    seconds, after = time.perf_counter() - start, execution.traffic
    sent = after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received
    model = {"model": solver.predictor(state)}
    tally = predictor_tallies(data, data.split("test"), model, settings.precision, execution)["model"]
    rounds = after.rounds - before.rounds
    return Run(state, tally.report()["accuracy"], seconds, rounds, sent / 1e6)


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--passes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = IngestSettings(rows_per_shard=IJCNN1_SHARD_ROWS)
        ijcnn1 = ingest(f"{options.data}/ijcnn1.parquet", Path(folder) / "ijcnn1", settings).dataset
        sets = {"covtype": open_dataset("data/covtype"), "ijcnn1": ijcnn1}
        compare_modes(sets, options.workers, options.passes)
        compare_bits(sets["ijcnn1"])


def compare_modes(sets: dict[str, Dataset], workers: int, most_passes: int) -> None:
    """Print accuracy, rounds, bytes and seconds of each mode."""
    print("data set   mode    passes  accuracy  points  rounds       MB  seconds")
    with open_execution(workers) as execution:
        for name, data in sets.items():
            one_pass = 0.0
            for mode in ("stream", "mix", "sum"):
                for passes in range(1, most_passes + 1):
                    settings = TrainSettings.model_validate({"data": name, "mode": mode, "passes": passes})
                    if passes == 1:
                        learn(data, settings, execution)  # compiles on the workers; not counted
                    run = learn(data, settings, execution)
                    one_pass = one_pass or run.accuracy
                    print(
                        f"{name:10} {mode:7} {passes:6}  {run.accuracy:8.4f}  {100 * (run.accuracy - one_pass):+6.2f}  "
                        f"{run.rounds:6}  {run.megabytes:7.1f}  {run.seconds:7.2f}",
                        flush=True,
                    )


def compare_bits(data: Dataset) -> None:
    """Print whether the weights are equal bit for bit."""
    for mode in ("mix", "sum"):
        settings = TrainSettings.model_validate({"data": "ijcnn1", "mode": mode, "rounds": 16})
        bits = []
        for workers in (0, 1, 2, 4):
            with open_execution(workers) as execution:
                weights = learn(data, settings, execution).state.learned
                bits.append((weights.last.tobytes(), weights.summed.tobytes(), weights.progress))
        same = all(other == bits[0] for other in bits)
        print(f"{mode}: weights in this process and on 1, 2, 4 workers are {'the same bits' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
