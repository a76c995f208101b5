"""Entry point of the command `okl`: errors become one sentence on standard error and an exit code.

The handler of Ctrl-C is installed before anything slow is imported; the commands are in the modules of this package.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from flows.interrupts import end_process, interruptible


def main() -> None:
    """Run the command of the command line; raise SystemExit with the exit code unless it succeeds.

    Exit codes: 0 success; 2 invalid input; 1 failure of the run (diverged, disk full); 3 the model is saved, but the
    solver did not converge; 130 Ctrl-C.
    """
    with interruptible():
        import flows.cli.compare
        import flows.cli.deploy
        import flows.cli.models
        import flows.cli.plan
        import flows.cli.predict
        import flows.cli.retrain
        import flows.cli.stack  # noqa: F401  each module adds its commands
        from flows.cli.commands import app
        from okl.foundation.errors import OklError
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
            _leave(f"file access{path} failed: {error.strerror}. Fix the cause and run the command again.", 1)


def _leave(message: str, code: int) -> NoReturn:
    print(f"Error: {message}", file=sys.stderr)
    _exit_past_recorders(code)
    sys.exit(code)


def _exit_past_recorders(code: Any) -> None:
    """End the process at once if a thread still waits for a Prefect server, as it would block the exit."""
    run = sys.modules.get("flows.run")
    if run is not None and run.unfinished:
        end_process(int(code or 0))
