"""Entry point of the command `okl`: errors become one sentence on standard error and an exit code.

The handler of Ctrl-C and SIGTERM is installed before anything slow is imported; the commands are in the modules of
this package.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SIGNALS = signal.SIGINT, signal.SIGTERM
EXIT_CODE = 128  # and the number of the signal: 130 after Ctrl-C, 143 after SIGTERM
FIRST = "Interrupted: stopping."
TERMINATED = "Terminated: stopping."
SECOND = "Still stopping. Press Ctrl-C once more to quit immediately."


class Interrupted(KeyboardInterrupt):
    """Interrupt by Ctrl-C or SIGTERM.

    A subclass, because CPython remembers a plain KeyboardInterrupt that passed through generated code (such as that of
    dataclasses and named tuples) and kills the process by SIGINT at its end, even if the exception was handled.
    """


class Interrupts:
    """Signal handler of Ctrl-C: the first raises Interrupted, the second prints a message, the third ends at once.

    SIGTERM, as `timeout`, Docker and systemd send it, counts as the first; another one changes nothing, because
    `timeout` sends two.

    Python discards an exception that is raised while an object is destroyed. The handler then raises it again.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.code = 0
        self.discarded = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.discarded:
            self.discarded = False
            raise Interrupted
        if self.seen and number == signal.SIGTERM:
            return
        self.seen += 1
        if self.seen == 1:
            self.code = EXIT_CODE + number
            _print_message(FIRST if number == signal.SIGINT else TERMINATED)
            raise Interrupted
        if self.seen > 2:
            end_process(self.code)
        _print_message(SECOND)

    @contextmanager
    def heed_discarded(self) -> Iterator[None]:
        """Raise Interrupted again, a moment later, each time that Python discards it in a block."""
        hook = sys.unraisablehook

        def raise_again(unraisable: sys.UnraisableHookArgs) -> None:
            if not isinstance(unraisable.exc_value, Interrupted):
                hook(unraisable)
                return
            self.discarded = True
            # not at once: what destroys the object still runs; as a signal, because it ends a sleep
            main = threading.main_thread().ident
            assert main is not None
            threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()

        sys.unraisablehook = raise_again
        try:
            yield
        finally:
            sys.unraisablehook = hook


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM in a block; after one, any failure ends the process silently: exit code 130 or 143."""
    interrupts = Interrupts()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupts)
    try:
        with interrupts.heed_discarded():
            yield
    except BaseException as error:
        # not only Interrupted: half-imported modules and interrupted workers raise other errors
        if interrupts.seen and not (isinstance(error, SystemExit) and error.code in (0, None)):
            end_process(interrupts.code)
        raise
    finally:
        for number in SIGNALS:
            if signal.getsignal(number) is interrupts:
                signal.signal(number, signal.SIG_DFL)


def end_process(code: int) -> NoReturn:
    """End this process at once: cleanup is done, and threads that wait for others would block its exit forever."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


def _print_message(message: str) -> None:
    # not print: the signal may interrupt another print; first a new line, because a progress bar may use this one
    stream = sys.__stderr__
    if stream is not None:
        os.write(stream.fileno(), ("\n" * stream.isatty() + message + "\n").encode())


def main() -> None:
    """Run the command of the command line; raise SystemExit with the exit code unless it succeeds.

    Exit codes: 0 success; 2 invalid input; 1 failure of the run (diverged, disk full); 3 the model is saved, but the
    solver did not converge; 130 Ctrl-C; 143 SIGTERM.
    """
    with interruptible():
        # each module adds its commands
        from flows.cli import compare, deploy, models, plan, predict, retrain, stack  # noqa: F401
        from flows.cli.commands import app
        from okl.foundation.errors import OklError
        from okl.foundation.folders import FULL
        from okl.foundation.locations import keep_private

        try:
            keep_private()
            app(prog_name="okl")
        except SystemExit as end:
            _exit_past_recorders(end.code)
            raise
        except OklError as error:
            _leave(str(error), error.exit_code)
        except MemoryError as error:
            _leave(f"not enough memory ({error}). Use fewer frequencies or smaller row groups.", 1)
        except OSError as error:  # such as a full disk or a removed folder, which no check can foresee
            if error.errno is None:
                raise
            path = f" of {os.fspath(error.filename)!r}" if isinstance(error.filename, (str, os.PathLike)) else ""
            remedy = "Free disk space" if error.errno in FULL else "Fix the cause"
            _leave(f"file access{path} failed: {error.strerror}. {remedy}, then run the command again.", 1)


def _leave(message: str, code: int) -> NoReturn:
    print(f"Error: {message}", file=sys.stderr)
    _exit_past_recorders(code)
    sys.exit(code)


def _exit_past_recorders(code: Any) -> None:
    """End the process at once if a thread still waits for a Prefect server, as it would block the exit."""
    run = sys.modules.get("flows.foreground")
    if run is not None and run.unfinished:
        end_process(int(code or 0))
