"""How commands and runs find the local stack of their home folder: a stack that is dead, or busy dying, is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.stack.asking import server_answers
from flows.stack.code import code_on_disk
from flows.stack.plan import role_folder
from flows.stack.state import StackState, live_state, stack_folder
from okl.execution.standing import VARIABLE, Standing

ANSWER_SECONDS = 3.0


@dataclass(frozen=True)
class StackServer:
    """The Prefect server of the stack."""

    url: str


def live_stack(home: Path) -> StackState | None:
    """The stack of a home folder if it is up; None if there is none, if it is starting, or if it is being ended."""
    state = live_state(stack_folder(home))
    return state if state is not None and state.phase == "up" else None


def stack_server(home: Path) -> StackServer | None:
    """The Prefect server of the stack if it answers; None if there is none."""
    state = live_stack(home)
    return StackServer(state.url) if state is not None and server_answers(state.url, ANSWER_SECONDS) else None


@contextmanager
def workers_offered(home: Path) -> Iterator[None]:
    """Let runs that ask for workers of this machine use those of the stack, if it has the same code of okl as we have.

    It is only an offer: see `okl.execution.standing`. The model is the same whoever works, and however many do.
    """
    state = live_stack(home)
    if state is None or not state.workers or state.code != code_on_disk():
        yield
        return
    tls = None if state.tls is None else str(role_folder(Path(state.tls), "client"))
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = Standing(state.scheduler, state.workers, tls).text()
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
