"""Runs whose process is killed at random moments and gone on with: the bits, what is left, and the seconds it costs.

    python -m tests.benchmarks.resume [KILLS]

Each solver learns once undisturbed, then once in processes that are killed (SIGKILL) after random parts of that time,
KILLS times over all solvers, each one gone on with by the next. A line a solver: kills, seconds of the undisturbed
run, seconds of learning that were lost and done again, checkpoints found whole of those looked at, and whether bits and
curve are the same.
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
from okl.checkpoints.unfinished import settings_of
from okl.configuration import IngestSettings, TrainSettings
from okl.errors import CheckpointError
from okl.runfolder import checkpoints_in, resumable_in
from okl.store.ingest import ingest
from okl.store.shards import file_sha256
from tests.rows import curved, write

KILLS = 20
ROWS = 60_000
SOLVERS: dict[str, dict[str, Any]] = {
    "fogd stream": {"passes": 12, "frequencies": 200},
    "fogd mix": {"passes": 6, "frequencies": 200, "mode": "mix"},
    "nogd sum": {"solver": "nogd", "passes": 6, "mode": "sum", "rounds": 60},
    "bsgd-merging": {"solver": "bsgd-merging", "passes": 1, "budget": 100},
    "c-svm": {"solver": "c-svm", "frequencies": 50, "tol": 1e-3, "start": "own"},
    "l1-logistic": {"solver": "l1-logistic", "frequencies": 50, "tol": 1e-2},
    "scs": {"solver": "scs", "frequencies": 100, "gap": 0.005, "lam": 1e-3},
}
RUN = """
import sys
from pathlib import Path
from okl.configuration import TrainSettings
from okl.training import train
train(TrainSettings.model_validate_json(sys.argv[1]), resume=Path(sys.argv[2]) if len(sys.argv) > 2 else None)
"""


class Verdict(NamedTuple):
    """How a run went that was killed, beside one that was not."""

    kills: int
    whole_seconds: float
    lost_seconds: float
    checkpoints: int
    damaged: int
    same: bool


def process_of(settings: TrainSettings, resume: Path | None) -> subprocess.Popen[bytes]:
    """A process that learns, or goes on."""
    words = [settings.model_dump_json(), *([] if resume is None else [str(resume)])]
    return subprocess.Popen([sys.executable, "-c", RUN, *words], stderr=subprocess.DEVNULL, env=os.environ)


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
    looked, broken, resume, startup = 0, 0, None, whole["process_seconds"] - whole["seconds"]
    for _ in range(kills):
        process = process_of(settings, resume)
        time.sleep(draw.uniform(0.3, startup + whole["seconds"]))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (folder / "result.json").exists():
            break
        left = [one for one in resumable_in(folder.parent) if folder.name in one.name]
        resume = left[0] if left else None
        if resume is not None:
            assert settings_of(resume) == settings
            more, bad = damaged(resume)
            looked, broken = looked + more, broken + bad
    if not (folder / "result.json").exists() and process_of(settings, resume).wait() != 0:
        return Verdict(kills, whole["seconds"], float("nan"), looked, broken, False)
    result = result_of(folder)
    same = all(result[name] == whole[name] for name in ("weights_sha256", "test", "chosen"))
    same = same and result.get("curve", result.get("convergence")) == whole.get("curve", whole.get("convergence"))
    return Verdict(kills, whole["seconds"], result["seconds"] - whole["seconds"], looked, broken, same)


def main(kills: int = KILLS) -> None:
    """Print a line a solver."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    draw = random.Random(0)
    print(f"{'solver':14} kills  seconds  added seconds  checkpoints  damaged  same bits")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        settings = IngestSettings(rows_per_shard=10_000, rows_per_group=2_500)
        data = ingest(write(home, curved(ROWS)), home / "data", settings).dataset
        for number, (solver, values) in enumerate(SOLVERS.items()):
            share = kills // len(SOLVERS) + (number < kills % len(SOLVERS))
            place = home / solver.replace(" ", "-")
            base = TrainSettings(data=str(data.folder), checkpoint_seconds=0.2, out=str(place / "whole"), **values)
            begun = time.perf_counter()
            process_of(base, None).wait()
            whole = result_of(place / "whole") | {"process_seconds": time.perf_counter() - begun}
            verdict = disturbed(
                base.model_copy(update={"out": str(place / "killed")}), place / "killed", whole, share, draw
            )
            print(
                f"{solver:14} {verdict.kills:5}  {verdict.whole_seconds:7.2f}  {verdict.lost_seconds:13.2f}  "
                f"{verdict.checkpoints:11}  {verdict.damaged:7}  {'yes' if verdict.same else 'NO'}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
