"""Ctrl-C at any point: said at once, what is half-written removed, exit code 130; and never a traceback."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

EXIT_CODE = 130
FIRST = "Interrupted: stopping, and removing what is incomplete."
SECOND = "Still stopping; one more Ctrl-C ends at once."


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or the end of the process group that a terminal asks for.

    A subclass, because CPython remembers a plain KeyboardInterrupt that passed through code made from text (that of
    every dataclass and named tuple), and kills the process by SIGINT at its end, however well it was handled.
    """


class Interrupts:
    """Counts Ctrl-C: the first raises Interrupted, the second is only answered, the third ends the process at once."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.seen += 1
        if self.seen == 1:
            _tell(FIRST)
            raise Interrupted
        if self.seen > 2:
            _end()
        _tell(SECOND)


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle Ctrl-C; whatever fails after one is its consequence, and ends the process with its exit code, at once.

    Afterwards, when all there was to do is done, Ctrl-C ends the process without a word. A process that was started
    to ignore Ctrl-C goes on ignoring it.
    """
    interrupts = Interrupts()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupts)
    try:
        yield
    except BaseException as error:
        # not Interrupted alone: half-imported modules and workers that were interrupted too make errors of their own
        if interrupts.seen and not (isinstance(error, SystemExit) and error.code in (0, None)):
            _end()
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is interrupts:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end() -> NoReturn:
    # not sys.exit: all is cleaned up, and a thread that lost the one it waits for would hold the process up for ever
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


def _tell(sentence: str) -> None:
    # not print: the signal may have come in the middle of one; a new line, as a progress bar may be on this one
    stream = sys.__stderr__
    if stream is not None:
        os.write(stream.fileno(), ("\n" * stream.isatty() + sentence + "\n").encode())
