"""Finding a stack that answers slowly, and messages after it has ended; no stack is started."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from flows.server import stack_login
from flows.stack.control import prepare
from flows.stack.state import StackServer, StackState, stack_server, take_lock
from flows.stack.status import messages_after_stop, schedules_at, text
from flows.stack.supervisor import Child, StackOptions, listening_socket
from okl.foundation.errors import ExecutionError


def test_the_end_of_a_child_is_reported_with_its_reason(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    running = Child("waiting", command, {}, tmp_path / "waiting.log", memory_limit=1)
    for life, reason in enumerate(("used ", "ended by SIGTERM")):
        running.start(now=0.0)
        process = running.process
        assert process is not None
        if life == 0:
            running.bound()
        else:
            process.terminate()
        running.note_end(process.wait(), now=1.0)
        assert running.ended is not None
        assert running.ended.startswith(reason)
    assert running.state().restarts == 1


def test_two_stacks_that_start_at_once_get_two_ports() -> None:
    with listening_socket(0) as first:
        port = first.getsockname()[1]
        with listening_socket(port, 0) as second:
            assert second.getsockname()[1] != port
        with pytest.raises(OSError, match="in use"):
            listening_socket(port)


# Finding a stack that answers slowly, and messages after it has ended; no stack is started.

WELL = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\ntrue"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def url(listener: socket.socket, tmp_path: Path) -> Iterator[str]:
    """URL of a stack with the home folder `tmp_path`; this process holds the lock of its supervisor."""
    folder, url = prepare(StackOptions(tmp_path)), f"http://127.0.0.1:{listener.getsockname()[1]}/api"
    lock = take_lock(folder)
    assert lock is not None
    state = StackState("x", os.getpid(), time.time(), "up", url, "tcp://127.0.0.1:9", "okl", 0, "", "", ())
    state.write(folder)
    with lock:
        yield url


def test_a_request_to_a_stack_is_retried_if_the_first_fails(listener: socket.socket, url: str, tmp_path: Path) -> None:
    def answer_second_request() -> None:
        listener.accept()[0].close()
        with listener.accept()[0] as connection:
            connection.recv(4096)
            connection.sendall(WELL)

    thread = Thread(target=answer_second_request, daemon=True)
    thread.start()
    assert stack_server(tmp_path) == StackServer(url, stack_login(tmp_path))
    thread.join()


def test_a_running_stack_that_does_not_answer_is_an_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(
        ExecutionError, match=rf"`okl up` at {url} is running, but did not answer within 0 s\. Check `okl status`"
    ):
        stack_server(tmp_path, patience_seconds=0.1)


def test_message_after_stop_names_the_variables_to_unset() -> None:
    url = "http://127.0.0.1:4200/api"
    assert messages_after_stop(url, f"{url}/") == [
        "This shell still uses its server. Type: unset PREFECT_API_URL PREFECT_API_AUTH_STRING"
    ]
    assert (
        messages_after_stop(url, None)
        == messages_after_stop(url, None, n_schedules=0)
        == messages_after_stop(url, "http://127.0.0.1:4201/api")
        == []
    )


def test_message_after_stop_mentions_schedules_unless_there_are_none() -> None:
    url = "http://127.0.0.1:4200/api"
    end = "until the next okl up, which starts missed runs as set by okl deploy --late."
    messages = {n: messages_after_stop(url, None, n) for n in (0, 1, 2, None)}
    assert messages == {0: [], 1: [f"Its schedule pauses {end}"], 2: [f"Its schedules pause {end}"],
                    None: [f"Its schedules pause {end}"]}  # fmt: skip
    assert [line[:13] for line in messages_after_stop(url, url, 1)] == ["Its schedule ", "This shell st"]
    assert schedules_at("http://127.0.0.1:9/api") is None, "no server answers"


def test_status_shows_the_start_of_a_run_in_local_time() -> None:
    start = "2026-11-29T13:40:23.192329Z"
    run = {"id": "1", "name": "score newrows", "state": "Running", "command": False}
    empty: dict[str, Any] = {"processes": [], "disk": None, "code_is_current": True, "deployments": [], "notices": []}
    runs = [run | {"since": start}, run | {"since": None, "state": "Pending"}]
    lines = text(empty | {"runs": runs, "url": "http://127.0.0.1:1/api", "pages": "http://127.0.0.1:1"}).splitlines()
    local = f"{datetime.fromisoformat(start).astimezone():%Y-%m-%d %H:%M %Z}"
    assert [line for line in lines if "score newrows" in line] == [
        f"  score newrows  Running  since {local}",
        "  score newrows  Pending  not started",
    ]
