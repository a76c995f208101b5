"""The command `okl`, as a process: errors are one sentence on standard error, and an exit code.

Nothing heavy is imported before Ctrl-C is looked after: the commands themselves are in `flows.commands`.
"""

from __future__ import annotations

import os
import sys

from flows.interrupts import EXIT_CODE, interruptible


def main() -> None:
    """Run the command that the words of the command line ask for; leaves by SystemExit unless all is well.

    Exit codes: 0; 2 for what the user gave, 1 for what went wrong here (diverged, disk full), 130 for Ctrl-C.
    """
    with interruptible():
        try:
            _run()
        except KeyboardInterrupt:
            sys.exit(EXIT_CODE)


def _run() -> None:
    from flows.commands import app
    from okl.errors import OklError

    try:
        app(prog_name="okl")
    except OklError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # a full disk, a folder that was taken away: nothing that okl could have looked up before
        if error.errno is None:
            raise
        where = f" {os.fspath(error.filename)!r}" if isinstance(error.filename, (str, os.PathLike)) else ""
        print(f"Error: the system refused{where}: {error.strerror}. Mend that and run it again.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
