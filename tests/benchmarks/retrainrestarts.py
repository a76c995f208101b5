"""The Prefect server killed in the middle of retrainings: `python -m tests.benchmarks.retrainrestarts`.

A stack (`okl up`) runs a deployment of `okl-retrain` on good and bad shards that arrive. In each stage, and once after
the last one, its server is killed (SIGKILL); the supervisor restarts it on the same address. Each line has the end of
the flow run, the seconds since the kill, and the version before and after. The champion must be whole each time, the
run after all kills must complete, and every row must be in the champion's lineage once.
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
    """Kill the server when a run writes a word; return the run's outcome and the seconds until its end."""
    deployed.note.write_text("")
    _, end = deployed.start(story.settings)
    while all(one.word != word for one in notes(deployed.note)):
        time.sleep(0.002)
    server = next(child.pid for child in deployed.state.children if child.name == "server")
    assert server is not None
    os.kill(server, signal.SIGKILL)
    start = time.monotonic()
    outcome = _retry(end)["outcome"]
    return f"{outcome} after {time.monotonic() - start:.1f} s"


def _retry(end: Callable[[], Any]) -> Any:
    """Retry until the server answers again."""
    deadline = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return end()
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def main() -> None:
    """Print a line per stage; exit code 1 if a row is lost or duplicated."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        home, story = place / "home", Story(place, "online", {"step_size": 0.5})
        home.mkdir()
        with Deployed(home, place / "note") as deployed:
            story.arrive()
            print("undisturbed:", deployed.start(story.settings)[1]()["outcome"])
            for word in (*RETRAIN_STAGES, f"{RETRAIN_STAGES[-1]}."):
                story.arrive()
                before = story.model.state().champion or 0
                outcome = killed_at(word, deployed, story)
                story.check_champion(before)
                print(f"killed at {word}: {outcome}; version {before}, then {story.model.state().champion}", flush=True)
            story.arrive()
            print("the next run:", deployed.start(story.settings)[1]()["outcome"])
            failures = story.finish()
            print(f"flow runs by state: {deployed.states()}")
        print("each row once, what is bad quarantined:", failures or "yes")
        sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
