"""Runs whose process is killed at random moments and resumed: the bits, the files left, and the seconds it costs.

    python -m tests.benchmarks.resume [KILLS [SOLVER ...]]

Each solver learns once undisturbed, then in processes that are killed (SIGKILL) at random moments, drawn uniformly from
the first step of learning to the end of the process, including the report; the next process resumes the run. If a run
ends before its share of the KILLS (20 by default) has hit it, another one starts. After each kill all checkpoints are
read to the last byte; after each run, every file of its folder and of okl's home: none may be damaged or temporary, and
the model must load. Prints a line per solver: kills, runs, seconds of the undisturbed process, median seconds of work
that a kill adds (including the start of a process), checkpoints, damaged ones, files read, damaged or leftover ones,
and whether bits and curve are the same.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.numpy import load_file

from okl.data.ingest.run import ingest
from okl.foundation.errors import CheckpointError
from okl.foundation.folders import checkpoints_in, resumable_in
from okl.foundation.locations import file_sha256
from okl.foundation.settings import IngestSettings
from okl.models.file import load_model
from okl.runs.checkpoint import read_head
from okl.solvers.settings import TrainSettings
from tests.rows import curved, write

KILLS = 20
ROWS = 30_000
TEMPORARY = re.compile(r"\.(tmp|partial|going|unfinished-[0-9a-f]+)(/|$)")
SOLVERS: dict[str, dict[str, Any]] = {
    "fogd stream": {"passes": 30, "frequencies": 200},
    "fogd mix": {"passes": 4, "frequencies": 100, "mode": "mix", "rounds": 100},
    "nogd sum": {"solver": "nogd", "passes": 20, "mode": "sum", "rounds": 60},
    "bsgd-merging": {"solver": "bsgd-merging", "passes": 40, "budget": 100},
    "c-svm": {"solver": "c-svm", "frequencies": 50, "tol": 1e-3},
    "l1-logistic": {"solver": "l1-logistic", "frequencies": 50, "tol": 3e-2},
    "scs": {"solver": "scs", "frequencies": 100, "gap": 0.003, "lam": 1e-4},
    "fogd mix 2": {"passes": 4, "frequencies": 100, "mode": "mix", "rounds": 100, "workers": 2},
    "c-svm 2": {"solver": "c-svm", "frequencies": 50, "tol": 1e-3, "workers": 2},
}
"""Those that end in 2 learn on two Dask workers, which are orphaned by the kill and end by themselves."""
RUN = """
import sys
from pathlib import Path
from okl.solvers.settings import TrainSettings
from okl.foundation.telemetry import NullObserver
from tests.rows import train

class StageLog(NullObserver):
    def stage(self, name):
        print(name, flush=True)

if __name__ == "__main__":
    train(TrainSettings.model_validate_json(sys.argv[1]), StageLog(), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
"""


class Verdict(NamedTuple):
    """Outcome of killed runs, compared with an undisturbed one."""

    kills: int
    runs: int
    added_seconds: float
    checkpoints: int
    damaged: int
    files: int
    torn: list[str]
    same: bool


def process_of(settings: TrainSettings, resume: Path | None) -> subprocess.Popen[bytes]:
    """Start a process that learns or resumes, and prints the stages as they start."""
    arguments = [settings.model_dump_json(), *([] if resume is None else [str(resume)])]
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ)


def result_of(folder: Path) -> dict[str, Any]:
    """Return the result of a complete run."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def damaged(folder: Path) -> tuple[int, int]:
    """Return how many checkpoints an unfinished folder has, and how many of them are damaged."""
    checkpoints, broken = checkpoints_in(folder), 0
    for checkpoint in checkpoints:
        try:
            head = read_head(checkpoint)
            broken += any(file_sha256(checkpoint / name) != digest for name, digest in head.files.items())
        except (CheckpointError, OSError):
            broken += 1
    return len(checkpoints), broken


def torn_files(*folders: Path) -> tuple[int, list[str]]:
    """Return how many files some folders hold, and those that are temporary or damaged."""
    files = [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]
    torn = [str(path) for path in files if TEMPORARY.search(str(path.relative_to(path.anchor))) or not whole(path)]
    return len(files), torn


def whole(path: Path) -> bool:
    """Return whether a file is complete, as far as its format shows."""
    try:
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".safetensors":
            load_file(path)
        elif path.suffix == ".jsonl":
            [json.loads(line) for line in path.read_text().splitlines()]
        elif path.suffix == ".html":
            return path.read_text().rstrip().endswith("</html>")
        return path.stat().st_size > 0
    except (ValueError, OSError, SafetensorError):
        return False


def killed_run(
    settings: TrainSettings, folder: Path, seconds: float, kills: int, draw: random.Random
) -> tuple[int, int, int, bool]:
    """Run to the end through kills: return the kills, the checkpoints, the damaged ones, and whether it ended."""
    killed = checkpoints = broken = 0
    resume: Path | None = None
    while not (folder / "result.json").exists():
        process = process_of(settings, resume)
        if killed < kills:
            assert process.stdout is not None
            while process.stdout.readline() not in (b"learn\n", b""):  # which stages begin
                pass
            time.sleep(draw.uniform(0.0, seconds))
            killed += process.poll() is None
            process.send_signal(signal.SIGKILL)
        elif process.wait() != 0:
            return killed, checkpoints, broken, False
        process.wait()
        resume = next((one for one in resumable_in(folder.parent) if folder.name in one.name), None)
        if resume is not None:
            more, bad = damaged(resume)
            checkpoints, broken = checkpoints + more, broken + bad
    return killed, checkpoints, broken, True


def disturbed(settings: TrainSettings, place: Path, whole: dict[str, Any], kills: int, draw: random.Random) -> Verdict:
    """Learn until so many kills have hit runs."""
    checkpoints = broken = killed = runs = files = 0
    same, torn, added = True, list[str](), list[float]()
    while killed < kills and same:
        folder, start = place / f"killed-{runs}", time.perf_counter()
        out = settings.model_copy(update={"out": str(folder)})
        kills_here, more_checkpoints, more_broken, ended = killed_run(
            out, folder, whole["learn_seconds"], kills - killed, draw
        )
        runs, killed, checkpoints, broken = (
            runs + 1,
            killed + kills_here,
            checkpoints + more_checkpoints,
            broken + more_broken,
        )
        if kills_here:
            added.append((time.perf_counter() - start - whole["process_seconds"]) / kills_here)
        n_files, left = torn_files(place, Path(os.environ["OKL_HOME"]))
        files, torn = n_files, torn + left
        same = ended and same_as(whole, folder)
    return Verdict(killed, runs, statistics.median(added), checkpoints, broken, files, torn, same)


def same_as(whole: dict[str, Any], folder: Path) -> bool:
    """Return whether a run has the result of the undisturbed one, and its model loads."""
    result = result_of(folder)
    load_model(folder / "model")
    names = ("weights_sha256", "test", "chosen", "curve", "convergence")
    return all(result.get(name) == whole.get(name) for name in names)


def undisturbed(settings: TrainSettings, folder: Path) -> dict[str, Any]:
    """Return the result of an undisturbed run, with the seconds of its process, and those from its first step on."""
    start = time.perf_counter()
    process = process_of(settings, None)
    assert process.stdout is not None
    while process.stdout.readline() not in (b"learn\n", b""):
        pass
    learning = time.perf_counter()
    process.wait()
    ended = time.perf_counter()
    return result_of(folder) | {"process_seconds": ended - start, "learn_seconds": ended - learning}


def main(kills: int = KILLS, *solvers: str) -> None:
    """Print a line per solver."""
    chosen = {name: SOLVERS[name] for name in solvers or SOLVERS}
    draw = random.Random(0)
    print(f"{'solver':14} kills  runs  seconds  added a kill  checkpoints  damaged  files  torn  same bits")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        os.environ |= {"PYTHONPATH": str(Path(__file__).parents[2]), "OKL_HOME": str(home / "okl-home")}
        settings = IngestSettings(rows_per_shard=10_000, rows_per_group=2_500)
        data = ingest(write(home, curved(ROWS)), home / "data", settings).dataset
        for number, (solver, values) in enumerate(chosen.items()):
            share = kills // len(chosen) + (number < kills % len(chosen))
            place = home / solver.replace(" ", "-")
            base = TrainSettings(data=str(data.folder), checkpoint_seconds=0.2, out=str(place / "whole"), **values)
            undisturbed(base.model_copy(update={"out": str(place / "first")}), place / "first")  # compiles
            whole = undisturbed(base, place / "whole")
            verdict = disturbed(base, place, whole, share, draw)
            print(
                f"{solver:14} {verdict.kills:5}  {verdict.runs:4}  {whole['process_seconds']:7.2f}  "
                f"{verdict.added_seconds:12.2f}  {verdict.checkpoints:11}  {verdict.damaged:7}  {verdict.files:5}  "
                f"{len(verdict.torn):4}  {'yes' if verdict.same else 'NO'}",
                *verdict.torn,
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS, *sys.argv[2:])
