from __future__ import annotations

import sys
from pathlib import Path

from flows.stack.plan import Child
from flows.stack.running import Running


def test_each_end_of_a_child_is_told_by_its_own_reason(tmp_path: Path) -> None:
    waiting = Child("waiting", (sys.executable, "-c", "import time; time.sleep(60)"), {}, memory_limit=1)
    running = Running(waiting, tmp_path / "waiting.log")
    for life, reason in enumerate(("took ", "ended by SIGTERM")):
        running.start(tmp_path, now=0.0)
        process = running.process
        assert process is not None
        if life == 0:
            running.bound()
        else:
            process.terminate()
        running.note_end(process.wait(), now=1.0)
        assert running.ended is not None
        assert running.ended.startswith(reason)
    assert running.state().restarts == 1
