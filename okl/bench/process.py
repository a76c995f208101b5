"""A measuring process, seen from the one that asks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from types import TracebackType
from typing import Self

from okl.bench.jobs import Answer, Job

# waiting threads of OpenMP let others run; spinning ones would slow themselves down beside other work
CALM = {"OMP_WAIT_POLICY": "passive", "PYTHONWARNINGS": "ignore"}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT")
ENDED = {-signal.SIGPROF: "of the processor", -signal.SIGALRM: "of waiting for it"}
LAST_WORDS = 200  # characters of what a process said before it died


class Measuring:
    """A process that answers jobs one after the other; a new one takes its place after one that died.

    one_thread : whether libraries are told to use one thread only
    """

    def __init__(self, one_thread: bool = False) -> None:
        self._environment = os.environ | CALM | (dict.fromkeys(THREADS, "1") if one_thread else {})
        self._process: subprocess.Popen[str] | None = None
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed with the process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._said.close()

    def ask(self, job: Job) -> Answer:
        """The answer; a process that was ended by its alarm has none but a time-out."""
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
        self._said.seek(0)
        return Answer("failed", f"the process ended with code {code}: {self._said.read()[-LAST_WORDS:].strip()}")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            words = [sys.executable, "-m", "okl.bench.child"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._said}
            self._process = subprocess.Popen(words, text=True, env=self._environment, **pipes)  # type: ignore[call-overload]
        assert self._process is not None
        return self._process

    def _end(self) -> int | None:
        """Let the process go: it ends when its input does, or is killed."""
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
