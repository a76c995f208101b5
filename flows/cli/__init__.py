"""The command `okl`, as a process: errors are one sentence on standard error, and an exit code.

Nothing heavy is imported before Ctrl-C is looked after: the commands themselves are in `flows.cli.commands`.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from flows.run import interruptible


def main() -> None:
    """Run the command that the words of the command line ask for; leaves by SystemExit unless all is well.

    Exit codes: 0; 2 for what the user gave, 1 for what went wrong here (diverged, disk full), 130 for Ctrl-C.
    """
    with interruptible():
        import flows.cli.compare
        import flows.cli.deploy
        import flows.cli.models
        import flows.cli.plan
        import flows.cli.predict
        import flows.cli.retrain
        import flows.cli.stack  # noqa: F401  each adds its commands
        from flows.cli.commands import app
        from okl.foundation.errors import OklError

        try:
            app(prog_name="okl")
        except OklError as error:
            _leave(str(error), error.exit_code)
        except MemoryError as error:
            _leave(f"there is not enough memory ({error}). Use fewer frequencies or smaller row groups.", 1)
        except OSError as error:  # a full disk, a folder that was taken away: nothing to be known before
            if error.errno is None:
                raise
            where = f" {os.fspath(error.filename)!r}" if isinstance(error.filename, (str, os.PathLike)) else ""
            _leave(f"the system refused{where}: {error.strerror}. Mend that and run it again.", 1)


def _leave(sentence: str, code: int) -> NoReturn:
    print(f"Error: {sentence}", file=sys.stderr)
    sys.exit(code)
