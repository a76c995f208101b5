"""What is known of a run before it starts: what is refused, which solver is meant, what it takes of time and memory."""

from __future__ import annotations

from okl.planning.beforehand import check, check_workers, run_folder
from okl.planning.meaning import default_rounds, learnt_columns, make_online_solver, make_solver, mode_of

__all__ = [
    "check",
    "check_workers",
    "default_rounds",
    "learnt_columns",
    "make_online_solver",
    "make_solver",
    "mode_of",
    "run_folder",
]
