"""Kills of `okl retrain` at random moments of all its stages.

    python -m tests.benchmarks.retrainkills [FLOW [COMMAND [ALONE]]]

While good and bad shards arrive, processes that retrain are killed (SIGKILL): FLOW times (20 by default) runs of a
deployment, in the process that the stack's Prefect worker has started; COMMAND times (6) the command while a stack
runs; ALONE times (4) the command that starts its own Prefect server. One model is learnt online, and another one, in
half of the runs of the deployment, by a batch solver. A quarter of the moments are drawn uniformly over the whole life
of the process, the others over the stages in turn, and the time before and after them.

After each kill the champion is verified byte for byte, and must be the previous or the next version; then the next run
completes, or is killed, too. At the end every accepted shard, so every row, is in the champion's lineage exactly once,
and every other shard is quarantined with the right reason.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]  # no stubs

from okl.lifecycle.retrain import RETRAIN_STAGES
from tests.benchmarks.retrainflows import Deployed
from tests.benchmarks.retrainnotes import NOTE, notes
from tests.benchmarks.retrainstory import Story

BEFORE, AFTER, BETWEEN, ANYWHERE = "before", "after", "between", "anywhere"
MOST_SECONDS = 120.0


class Way:
    """A method of retraining, and how long its stages take.

    start : starts a retraining; returns functions for the process to kill (None: not started yet), and for the outcome,
        which waits for the end
    """

    def __init__(self, name: str, note: Path, start: Callable[[], tuple[Callable[[], int | None], Callable[[], Any]]]):
        self.name, self.note, self.start = name, note, start
        self.usual: dict[str, float] = {}

    def whole(self) -> dict[str, Any]:
        """Retrain undisturbed, and measure how long each stage takes."""
        self.note.write_text("")
        start = time.monotonic()
        outcome: dict[str, Any] = self.start()[1]()
        lines = notes(self.note)
        seconds = {line.word: following.moment - line.moment for line, following in pairwise(lines)}
        if "learn" in seconds:
            self.usual = {stage: seconds[stage] for stage in RETRAIN_STAGES} | {
                BEFORE: lines[0].moment - start, AFTER: time.monotonic() - lines[-1].moment,
                ANYWHERE: time.monotonic() - start,
            }  # fmt: skip
        return outcome

    def killed(self, target: str, share: float) -> str:
        """Kill a retraining at a share of a stage; return the stage where it was killed, "over" if it had ended."""
        self.note.write_text("")
        start = time.monotonic()
        process, end = self.start()
        word = {BEFORE: "", ANYWHERE: "", AFTER: "report."}.get(target, target)
        moment = start + share * self.usual[target] if not word else None
        while moment is None or time.monotonic() < moment or process() is None:
            moments = [line.moment for line in notes(self.note) if line.word == word]
            if moment is None and moments:
                moment = moments[0] + share * self.usual[target]
            if time.monotonic() - start > MOST_SECONDS:
                raise TimeoutError(f"{self.name}: never came to {target}: {notes(self.note)}")
            time.sleep(0.001)
        pid = process()
        over = pid is None or not _kill(pid)
        end()
        last = ([line.word for line in notes(self.note)] or ["open"])[-1]
        if over:
            return "over"
        return {"open": BEFORE, "report.": AFTER}.get(last, BETWEEN if last.endswith(".") else last)


class Command:
    """The command in a separate process."""

    def __init__(self, home: Path, note: Path, words: list[str]) -> None:
        self.words = [sys.executable, "-m", "tests.benchmarks.retrainnotes", "retrain", *words, "--json"]
        self.environment = os.environ | {"OKL_HOME": str(home), NOTE: str(note)}

    def __call__(self) -> tuple[Callable[[], int | None], Callable[[], Any]]:
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                self.words, env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )

        def end() -> Any:
            out, _ = process.communicate()
            return json.loads(out.splitlines()[-1]) if process.returncode == 0 else {"outcome": process.returncode}

        return lambda: process.pid, end


def _kill(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        os.kill(pid, signal.SIGKILL)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False
    return True


def perform(way: Way, story: Story, kills: int, random: np.random.Generator) -> Counter[str]:
    """Kill so many retrainings, and complete others between them; return the stages of the kills."""
    stages, targets = Counter[str](), [BEFORE, *RETRAIN_STAGES, AFTER]
    while not way.usual:
        story.arrive()
        print(f"{way.name}, undisturbed: {way.whole()['outcome']}", flush=True)
    random.shuffle(targets)
    while (done := sum(stages.values())) < kills:
        story.arrive()
        before = story.model.state().champion or 0
        target = ANYWHERE if done % 4 == 3 else targets[(done - done // 4) % len(targets)]
        where = way.killed(target, float(random.random()))
        if where != "over":
            stages[where] += 1
        story.check_champion(before)
        if random.random() < 0.5:
            outcome = way.whole()["outcome"]
            assert outcome in ("completed", "published", "kept", "nothing new"), outcome
            story.next[outcome] += 1
    print(f"{way.name}: {sum(stages.values())} kills: {dict(stages)}", flush=True)
    return stages


def main(flow: str = "20", command: str = "6", alone: str = "4") -> None:
    """Print the stages of the kills, and what the lineage holds; exit code 1 if a check fails."""
    random, total, half = np.random.default_rng(7), Counter[str](), int(flow) // 2
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        online, batch = Story(place, "online", {"step_size": 0.5}), Story(place, "batch", {"solver": "c-svm"})
        note, home = place / "note", place / "home"
        home.mkdir()
        command_line = Command(home, note, online.words)
        total += perform(Way("command alone", note, command_line), online, int(alone), random)
        with Deployed(home, note) as deployed:
            for story, kills in ((online, int(flow) - half), (batch, half)):
                way = Way(f"flow run, {story.settings.name}", note, partial(deployed.start, story.settings))
                total += perform(way, story, kills, random)
            total += perform(Way("command beside a stack", note, command_line), online, int(command), random)
            failures = [message for story in (online, batch) for message in story.finish()]
            print(f"flow runs by state: {deployed.states()}")
    print(f"{sum(total.values())} kills: {dict(total)}")
    print("each row once, what is bad quarantined:", failures or "yes")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
