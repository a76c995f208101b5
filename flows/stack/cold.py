"""`python -m prefect.engine`, which ends with its parent: a script, where nobody has imported anything yet."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [os.getcwd()]  # as -m has it
    sys.path.append(str(Path(__file__).parents[2]))
    from flows.stack.mortal import begin

    begin(int(sys.argv[1]))
    sys.argv = ["prefect.engine"]
    runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
