"""Processes that measure: each reads `Job`s and writes `Answer`s, a line of JSON each.

    python -m tests.benchmarks.peers.measure    # what `Measuring` starts

The process imports what a system needs, and fits a few rows, before anything is timed: only solvers are timed, as in
benchopt. A fit that takes too long ends the process by the default action of a signal, which no library can delay.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter, process_time
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from okl.data.manifest import peak_memory_bytes, version_of
from okl.foundation.errors import OklError
from tests.benchmarks.peers.data import Part, Table, read_set
from tests.benchmarks.peers.systems import Entrant, find


@dataclass(frozen=True)
class Job:
    """One configuration to be fitted and scored.

    rows : "sample" for some training rows with a split of their own; "all" for all of them, and the test rows
    limit_seconds : of the processor, for one fit and its predictions; the process is killed then
    spend_seconds : fits are repeated until so many are spent, over all splits, at most 9 times each; the median is used
    """

    folder: str
    set: str
    system: str
    entrant: str
    configuration: dict[str, Any]
    rows: str
    limit_seconds: float
    spend_seconds: float

    def line(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Job:
        """Read the fields from JSON."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class Answer:
    """A measurement, or the reason why there is none.

    outcome : "done", "time-out" or "failed"; reason : in words, unless done
    fit_seconds, predict_seconds : of the clock, medians over splits, None if not done, like all the following
    fit_cpu_seconds : of the processor, of all threads, means: hardly affected by other work on the machine
    score : share of right predictions, or R2; loss : share of wrong ones, or the mean squared error in units of the
        training targets' variance; means over splits
    base_memory_bytes, peak_memory_bytes : of the process, before the fits and at the peak
    """

    outcome: str
    reason: str = ""
    fit_seconds: float | None = None
    fit_cpu_seconds: float | None = None
    predict_seconds: float | None = None
    score: float | None = None
    loss: float | None = None
    base_memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    train_rows: int | None = None
    test_rows: int | None = None
    columns: int | None = None
    splits: int | None = None
    version: str = ""

    def line(self) -> str:
        """Return the fields as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, line: str) -> Answer:
        """Read the fields from JSON."""
        return cls(**json.loads(line))


# waiting threads of OpenMP yield; spinning ones would be slowed down by other work
PASSIVE_WAIT = {"OMP_WAIT_POLICY": "passive", "PYTHONWARNINGS": "ignore"}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
ENDED = {-signal.SIGPROF: "of the processor", -signal.SIGALRM: "of waiting for it"}
ROOT = Path(__file__).parents[3]  # of the checkout, from which `tests` can be imported
LAST_WORDS = 200  # characters of the standard error of a process that died


class Measuring:
    """A process that answers jobs one after the other, and is replaced if it dies.

    one_thread : whether libraries are limited to one thread
    """

    def __init__(self, one_thread: bool = False) -> None:
        self._environment = os.environ | PASSIVE_WAIT | (dict.fromkeys(THREADS, "1") if one_thread else {})
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._errors.close()

    def measure(self, job: Job) -> Answer:
        """Return the answer to a job: a time-out if the alarm ended the process."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(job.line() + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return Answer.parse(line)
        code = self._end()
        if code in ENDED:
            return Answer("time-out", f"not done in {job.limit_seconds:g} seconds {ENDED[code]}")
        self._errors.seek(0)
        return Answer("failed", f"the process ended with code {code}: {self._errors.read()[-LAST_WORDS:].strip()}")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [sys.executable, "-m", "tests.benchmarks.peers.measure"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
            self._process = subprocess.Popen(command, text=True, env=self._environment, cwd=ROOT, **pipes)  # type: ignore[call-overload]
        assert self._process is not None
        return self._process

    def _end(self) -> int | None:
        """End the process by closing its input, or kill it."""
        process, self._process = self._process, None
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        return process.returncode


MOST_FITS = 9
PATIENCE = 20.0  # seconds of the clock for one of the processor, on a busy machine
START_SECONDS = 1200.0  # of the clock, for reading, importing and warming


class Fit(NamedTuple):
    """One split, fitted and scored."""

    fit_seconds: float
    fit_cpu_seconds: float
    predict_seconds: float
    score: float
    loss: float
    base_bytes: int
    peak_bytes: int
    train_rows: int
    test_rows: int


def main() -> None:
    """Answer jobs until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries may print to standard output; answers have their own stream
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        answers.write(answer(Job.parse(line)).line() + "\n")
        answers.flush()


def answer(job: Job) -> Answer:
    """Fit and score the configuration of a job; an exception of a system becomes its answer."""
    _alarm(None)
    table = _read(job.set, job.folder)
    entrant = find(job.system, job.entrant, table.bench_set)
    try:
        fits = _fits(entrant, table, job)
    except (ArithmeticError, ImportError, MemoryError, OSError, OklError, RuntimeError, TypeError, ValueError) as error:
        return Answer("failed", f"{type(error).__name__}: {error}"[:300], version=version_of(entrant.package))
    finally:
        _alarm(0.0)
    return Answer(
        "done",
        fit_seconds=statistics.median(fit.fit_seconds for fit in fits),
        fit_cpu_seconds=statistics.fmean(fit.fit_cpu_seconds for fit in fits),
        predict_seconds=statistics.median(fit.predict_seconds for fit in fits),
        score=statistics.fmean(fit.score for fit in fits),
        loss=statistics.fmean(fit.loss for fit in fits),
        base_memory_bytes=fits[0].base_bytes,
        peak_memory_bytes=max(fit.peak_bytes for fit in fits),
        train_rows=fits[0].train_rows,
        test_rows=sum(fit.test_rows for fit in fits),
        columns=table.inputs.shape[1],
        splits=len(fits),
        version=version_of(entrant.package),
    )


def _fits(entrant: Entrant, table: Table, job: Job) -> list[Fit]:
    if job.rows == "sample":
        return [_fit(entrant, _part(job.set, job.folder, 0).sample(), job, 0.0, warm=False)]
    spend = job.spend_seconds / table.n_splits
    parts = (_part(job.set, job.folder, seed) for seed in range(table.n_splits))
    return [_fit(entrant, part, job, spend, warm=number == 0) for number, part in enumerate(parts)]


def _fit(entrant: Entrant, part: Part, job: Job, spend_seconds: float, warm: bool) -> Fit:
    if entrant.most_rows is not None:
        part = part.first(entrant.most_rows)
    if warm:
        warming = part.warming()
        rows = entrant.prepare(warming.bench_set, warming.inputs, warming.targets)
        machine = entrant.make(job.configuration, warming)
        machine.fit(rows, warming.targets)
        machine.predict(rows)
    rows = entrant.prepare(part.bench_set, part.inputs, part.targets)
    test_rows = entrant.prepare(part.bench_set, part.test_inputs, part.test_targets)
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    gc.collect()
    base = _reset_peak()
    while not seconds or (sum(seconds) < spend_seconds and len(seconds) < MOST_FITS):
        machine = entrant.make(job.configuration, part)
        _alarm(job.limit_seconds)
        start, cpu_start = perf_counter(), process_time()
        machine.fit(rows, part.targets)
        seconds.append(perf_counter() - start)
        cpu_seconds.append(process_time() - cpu_start)
    start = perf_counter()
    predicted = machine.predict(test_rows)
    predict_seconds = perf_counter() - start
    _alarm(None)
    score, loss = _judge(part, np.asarray(predicted))
    times = (statistics.median(seconds), statistics.fmean(cpu_seconds), predict_seconds)
    return Fit(*times, score, loss, base, _peak(), len(part.targets), len(part.test_targets))


def _judge(part: Part, predicted: NDArray[Any]) -> tuple[float, float]:
    """Return score and loss on the test rows; ValueError if a prediction is no number."""
    if not part.is_regression:
        accuracy = float((predicted == part.test_targets).mean())
        return accuracy, 1.0 - accuracy
    if not np.isfinite(predicted).all():
        raise ValueError("a prediction is not finite: the learner diverged")
    loss = float(np.square(predicted.reshape(-1) - part.test_targets).mean())
    return 1.0 - loss / float(part.test_targets.var()), loss


@lru_cache(maxsize=1)
def _read(name: str, folder: str) -> Table:
    return read_set(name, folder)


@lru_cache(maxsize=1)  # one at a time: large sets need much memory
def _part(name: str, folder: str, seed: int) -> Part:
    return _read(name, folder).split(seed)


def _alarm(seconds: float | None) -> None:
    """End this process after so many seconds of the processor; 0: never; None: after START_SECONDS of the clock."""
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)
    signal.setitimer(signal.ITIMER_REAL, START_SECONDS if seconds is None else PATIENCE * seconds)


def _reset_peak() -> int:
    """Reset the peak of resident memory if the system can; return the resident bytes now."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS") or peak_memory_bytes()


def _peak() -> int:
    return _status("VmHWM") or peak_memory_bytes()


def _status(name: str) -> int:
    """Return a line of Linux's status of this process, in bytes; 0 elsewhere."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return 1024 * int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()
