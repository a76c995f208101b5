"""Ctrl-C at any point: said at once, what is half-written removed, exit code 130; and never a traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 130
FIRST = "Interrupted: stopping, and removing what is incomplete."
SECOND = "Still stopping; one more Ctrl-C ends at once."


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or the end of the process group that a terminal asks for.

    A subclass, because CPython remembers a plain KeyboardInterrupt that passed through code made from text (that of
    every dataclass and named tuple), and kills the process by SIGINT at its end, however well it was handled.
    """


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted at the first Ctrl-C; the second is answered, as cleaning up goes on; the third ends at once.

    Afterwards, when all there was to do is done, Ctrl-C ends the process without a word. A process that was started
    to ignore Ctrl-C goes on ignoring it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    seen = 0

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            _tell(FIRST)
            raise Interrupted
        if seen == 2:
            _tell(SECOND)
            return
        os._exit(EXIT_CODE)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _tell(sentence: str) -> None:
    # not print: the signal may have come in the middle of one; a new line, as a progress bar may be on this one
    stream = sys.__stderr__
    if stream is not None:
        os.write(stream.fileno(), ("\n" * stream.isatty() + sentence + "\n").encode())
