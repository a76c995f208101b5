"""Threads that begin on cores of their own."""

from __future__ import annotations

import ctypes
import os
import sys

# with the GIL: nobody else looks at what is taken between looking and taking
_getcpu = getattr(ctypes.PyDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None


def this_core() -> int:
    """The core that this thread runs on; -1 where nobody can tell."""
    return int(_getcpu()) if _getcpu is not None else -1


def settle_apart(taken: set[int]) -> None:
    """Move this thread to a core that is not taken, if there is one, and take it; from then on it may go anywhere.

    A thread begins beside the one that started it. Where the machine was idle before, both then share one core for
    tens of milliseconds, while the others have nothing to do: as long as a segment of rows takes.
    """
    core = this_core()
    if core in taken:
        allowed = os.sched_getaffinity(0)
        if allowed - taken:
            os.sched_setaffinity(0, allowed - taken)  # it is elsewhere when this returns
            core = this_core()  # asked before it may go back
            os.sched_setaffinity(0, allowed)
    taken.add(core)
