"""The Prefect server killed in the middle of retrainings: `python -m tests.benchmarks.retrainrestarts`.

A stack (`okl up`) runs a deployment of `okl-retrain` on shards that arrive, good ones and bad ones. In each stage, and
once after the last one, its server is killed (SIGKILL); the supervisor starts it anew on the same address. A line tells
how the flow run ended, how many seconds after the kill, and the version before and after. The champion must be whole
each time, the run after all kills complete, and every row be in the champion's lineage once.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from okl.lifecycle.retrain import RETRAIN_STAGES
from tests.benchmarks.retrainflows import Deployed
from tests.benchmarks.retrainnotes import notes
from tests.benchmarks.retrainstory import Story

AWAY_SECONDS = 120.0


def killed_at(word: str, deployed: Deployed, story: Story) -> str:
    """Kill the server when a run notes a word; the outcome of the run, and seconds from the kill to its end."""
    deployed.note.write_text("")
    _, end = deployed.begin(story.settings)
    while all(one.word != word for one in notes(deployed.note)):
        time.sleep(0.002)
    server = next(child.pid for child in deployed.state.children if child.name == "server")
    assert server is not None
    os.kill(server, signal.SIGKILL)
    start = time.monotonic()
    outcome = _patiently(end)["outcome"]
    return f"{outcome} after {time.monotonic() - start:.1f} s"


def _patiently(end: Callable[[], Any]) -> Any:
    """Ask until the server is there again."""
    deadline = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return end()
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def main() -> None:
    """Print a line a stage; ends with 1 if a row is lost or twice."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        home, story = place / "home", Story(place, "online", {"step_size": 0.5})
        home.mkdir()
        with Deployed(home, place / "note") as deployed:
            story.arrive()
            print("undisturbed:", deployed.begin(story.settings)[1]()["outcome"])
            for word in (*RETRAIN_STAGES, f"{RETRAIN_STAGES[-1]}."):
                story.arrive()
                before = story.model.state().champion or 0
                told = killed_at(word, deployed, story)
                story.check_champion(before)
                print(f"killed at {word}: {told}; version {before}, then {story.model.state().champion}", flush=True)
            story.arrive()
            print("the next run:", deployed.begin(story.settings)[1]()["outcome"])
            complaints = story.finish()
            print(f"flow runs by state: {deployed.states()}")
        print("each row once, what is bad quarantined:", complaints or "yes")
        sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
