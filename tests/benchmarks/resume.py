"""Runs whose process is killed at random moments and gone on with: the bits, what is left, and the seconds it costs.

    python -m tests.benchmarks.resume [KILLS [SOLVER ...]]

Each solver learns once undisturbed, then in processes that are killed (SIGKILL) at random moments of its learning, each
gone on with by the next; KILLS are spread over the solvers. A line a solver: kills, seconds of the undisturbed process,
seconds that all processes took beyond that, checkpoints that were found, those of them that were not whole, and whether
bits and curve are the same.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from okl.checkpoints.folder import read_head
from okl.configuration import IngestSettings, TrainSettings
from okl.errors import CheckpointError
from okl.runfolder import checkpoints_in, resumable_in
from okl.store.ingest import ingest
from okl.store.shards import file_sha256
from tests.rows import curved, write

KILLS = 20
ROWS = 30_000
SOLVERS: dict[str, dict[str, Any]] = {
    "fogd stream": {"passes": 30, "frequencies": 200},
    "fogd mix": {"passes": 4, "frequencies": 100, "mode": "mix", "rounds": 100},
    "nogd sum": {"solver": "nogd", "passes": 20, "mode": "sum", "rounds": 60},
    "bsgd-merging": {"solver": "bsgd-merging", "passes": 40, "budget": 100},
    "c-svm": {"solver": "c-svm", "frequencies": 50, "tol": 1e-3},
    "l1-logistic": {"solver": "l1-logistic", "frequencies": 50, "tol": 3e-2},
    "scs": {"solver": "scs", "frequencies": 100, "gap": 0.003, "lam": 1e-4},
}
RUN = """
import sys
from pathlib import Path
from okl.configuration import TrainSettings
from okl.progress import NullObserver
from okl.training import train

class Told(NullObserver):
    def stage(self, name):
        print(name, flush=True)

train(TrainSettings.model_validate_json(sys.argv[1]), Told(), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
"""


class Verdict(NamedTuple):
    """How a run went that was killed, beside one that was not."""

    kills: int
    whole_seconds: float
    added_seconds: float
    checkpoints: int
    damaged: int
    same: bool


def process_of(settings: TrainSettings, resume: Path | None) -> subprocess.Popen[bytes]:
    """A process that learns, or goes on, and says which stage begins."""
    words = [settings.model_dump_json(), *([] if resume is None else [str(resume)])]
    command = [sys.executable, "-c", RUN, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ)


def result_of(folder: Path) -> dict[str, Any]:
    """What a run that is complete tells."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def damaged(folder: Path) -> tuple[int, int]:
    """Checkpoints of an unfinished folder, and how many of them are not whole."""
    found, broken = checkpoints_in(folder), 0
    for one in found:
        try:
            head = read_head(one)
            broken += any(file_sha256(one / name) != digest for name, digest in head.files.items())
        except (CheckpointError, OSError):
            broken += 1
    return len(found), broken


def disturbed(settings: TrainSettings, folder: Path, whole: dict[str, Any], kills: int, draw: random.Random) -> Verdict:
    """Learn in processes that are killed at random moments of the run."""
    looked = broken = killed = 0
    resume: Path | None = None
    begun = time.perf_counter()
    while not (folder / "result.json").exists():
        process = process_of(settings, resume)
        if killed < kills:
            assert process.stdout is not None
            while process.stdout.readline() not in (b"learn\n", b""):  # which stages begin
                pass
            time.sleep(draw.uniform(0.0, 1.1 * whole["seconds"]))
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
        elif process.wait() != 0:
            return Verdict(killed, whole["process_seconds"], float("nan"), looked, broken, False)
        process.wait()
        resume = next((one for one in resumable_in(folder.parent) if folder.name in one.name), None)
        if resume is not None:
            more, bad = damaged(resume)
            looked, broken = looked + more, broken + bad
    added, result = time.perf_counter() - begun - whole["process_seconds"], result_of(folder)
    same = all(
        result.get(name) == whole.get(name) for name in ("weights_sha256", "test", "chosen", "curve", "convergence")
    )
    return Verdict(killed, whole["process_seconds"], added, looked, broken, same)


def main(kills: int = KILLS, *solvers: str) -> None:
    """Print a line a solver."""
    chosen = {name: SOLVERS[name] for name in solvers or SOLVERS}
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    draw = random.Random(0)
    print(f"{'solver':14} kills  seconds  added seconds  checkpoints  damaged  same bits")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        settings = IngestSettings(rows_per_shard=10_000, rows_per_group=2_500)
        data = ingest(write(home, curved(ROWS)), home / "data", settings).dataset
        for number, (solver, values) in enumerate(chosen.items()):
            share = kills // len(chosen) + (number < kills % len(chosen))
            place = home / solver.replace(" ", "-")
            base = TrainSettings(data=str(data.folder), checkpoint_seconds=0.2, out=str(place / "whole"), **values)
            begun = time.perf_counter()
            process_of(base, None).wait()
            whole = result_of(place / "whole") | {"process_seconds": time.perf_counter() - begun}
            verdict = disturbed(
                base.model_copy(update={"out": str(place / "killed")}), place / "killed", whole, share, draw
            )
            print(
                f"{solver:14} {verdict.kills:5}  {verdict.whole_seconds:7.2f}  {verdict.added_seconds:13.2f}  "
                f"{verdict.checkpoints:11}  {verdict.damaged:7}  {'yes' if verdict.same else 'NO'}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS, *sys.argv[2:])
