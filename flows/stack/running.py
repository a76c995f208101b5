"""One process of a stack: started, watched, and started anew when it dies, later the more often it does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flows.stack.plan import Child
from flows.stack.processes import memory_of
from flows.stack.state import ChildState

FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 30.0
STEADY_SECONDS = 20.0  # whoever has lived for that long is started at once when it dies
MOST_LOG_BYTES = 5_000_000


@dataclass
class Running:
    """A child, and what became of it.

    killed_for : why it is being ended by us, until it has; ended : how it last ended
    """

    child: Child
    log: Path
    process: subprocess.Popen[bytes] | None = None
    since: float | None = None
    begun: float = 0.0
    restarts: int = -1
    failures: int = 0
    due: float = 0.0
    killed_for: str | None = None
    ended: str | None = None

    def state(self) -> ChildState:
        """For the file."""
        pid = self.process.pid if self.process is not None else None
        return ChildState(
            self.child.name, pid, self.child.address, self.since, max(0, self.restarts), self.ended, str(self.log)
        )

    def start(self, folder: Path, now: float) -> None:
        """Start it in a folder; where the system refuses, it is due again later."""
        child = self.child
        try:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    child.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=child.environment,
                    cwd=folder, pass_fds=child.inherited, start_new_session=True,
                )  # fmt: skip
        except OSError as error:  # no memory, no process numbers, a full disk: tried again
            self.ended, self.failures = f"could not be started: {error.strerror}", self.failures + 1
            self.due = now + _delay(self.failures)
            return
        self.since, self.begun = time.time(), now
        self.restarts += 1

    def note_end(self, code: int, now: float) -> None:
        """It has ended with a code: when it is to be started again."""
        lived = now - self.begun
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        self.ended, self.killed_for = self.killed_for or f"ended {how} after {lived:.0f} s", None
        self.failures = 1 if lived >= STEADY_SECONDS or code == 0 else self.failures + 1
        self.process, self.since = None, None
        self.due = now + _delay(self.failures)

    def bound(self) -> None:
        """Keep its log and one before it, and end it if it has taken more memory than it may."""
        with suppress(OSError):
            if self.log.stat().st_size > MOST_LOG_BYTES:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                os.truncate(self.log, 0)  # whoever writes to it goes on at its new beginning
        limit, process = self.child.memory_limit, self.process
        if limit is None or process is None:
            return
        used = memory_of(process.pid) or 0
        if used > limit:
            self.killed_for = f"took {used / 2**20:.0f} MiB of {limit / 2**20:.0f}, and was ended"
            process.kill()


def _delay(failures: int) -> float:
    """Seconds to wait before the next start, after so many ends in a row."""
    return float(min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (failures - 1)))
