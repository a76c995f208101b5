"""The command as a process with its own server: Ctrl-C at any point."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flows.cli import FIRST, SECOND, TERMINATED
from flows.server import prefect_home
from infra.tls.make import main as make_certificates
from tests.distributed.processes import descendants, heed_interrupts, listening, soon
from tests.distributed.test_lifecycle import LOOPBACK
from tests.flows.commandline import end_started, processes_of, start, tree, wait
from tests.flows.conftest import give_database, query
from tests.flows.environment import child_environment
from tests.rows import curved, write

ENDLESS = ["--solver", "fogd", "--passes", "100000", "--frequencies", "400"]


@pytest.fixture
def home(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a database, so that its server starts quickly; no server is configured."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return give_database(tmp_path / "home", database)


@pytest.fixture(autouse=True)
def _end_started_commands() -> Iterator[None]:
    yield
    end_started()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write(tmp_path, curved(4000, "regression"))


def interrupt(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group


def is_learning(home: Path) -> bool:
    rows = query(home, "select state_type from task_run where name = 'learn'")
    assert rows in ([], [("PENDING",)], [("RUNNING",)])
    return ("RUNNING",) in rows


def test_ctrl_c_during_training_is_recorded_and_keeps_the_best_model_so_far(
    home: Path,
    source: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))  # nothing is written outside okl's home
    monkeypatch.delenv("PREFECT_HOME")
    certificates = tmp_path_factory.mktemp("certificates")
    assert make_certificates([str(certificates)]) == 0
    worker_words = ["--workers", "1", "--tls", str(certificates / "client")]
    process = start(home, "train", source, *ENDLESS, *worker_words, "--record", "--json")
    assert soon(lambda: (home / "runs").exists() and is_learning(home), 90.0)
    # the whole stack: the command with Dask's scheduler, Prefect's server, the worker and its nanny
    addresses = listening({process.pid, *descendants(process.pid)})
    assert len(addresses) >= 4
    assert {address.partition(":")[0] for address in addresses} <= LOOPBACK
    assert [name.split(".unfinished-")[0][:5] for name in os.listdir(home / "runs")] == [".rows"]
    interrupt(process)
    outcome = wait(process)
    assert outcome == (130, "", f"{FIRST}\n")
    left = {name for name in tree(tmp_path) if not name.startswith(".coverage")}  # written if coverage is measured
    left -= {"home", "home/runs", "rows.parquet"}
    assert all("-so-far" in name for name in left)  # the best model so far, if a pass was complete
    assert not left or any(name.endswith("-so-far/model/model.json") for name in left)
    assert query(home, "select state_type from flow_run") == [("CANCELLED",)]
    assert processes_of(home) == []


def test_ctrl_c_while_the_server_starts_leaves_nothing(home: Path, source: Path, tmp_path: Path) -> None:
    process = start(home, "train", source, *ENDLESS, "--threads", "1", "--record")
    assert soon(lambda: (prefect_home(home) / "server.log").exists(), 90.0)
    interrupt(process)
    code, output, errors = wait(process)
    assert (code, output) == (130, "")
    no_checkpoint = r"Warning: Nothing of rows-\S+ is kept: it has no checkpoint yet\..* at least 60 s .*\n"
    assert re.fullmatch(f"{FIRST}\n({no_checkpoint})?", errors), errors  # before or during training
    assert tree(tmp_path) == ["home", "rows.parquet"]
    # a server that is still starting ends as soon as it notices that the command has ended
    assert soon(lambda: not processes_of(home), 15.0)


def test_message_after_sigterm_names_the_run_to_resume(source: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = start(home, "train", source, *ENDLESS, "--threads", "1", "--checkpoint-rounds", "1", "--name", "long")
    assert soon(lambda: bool([*home.glob("runs/.*.unfinished-*/checkpoint/[!.]*")]), 90.0)
    process.send_signal(signal.SIGTERM)
    code, output, errors = wait(process)
    assert (code, output) == (143, "")
    assert errors.startswith(f"{TERMINATED}\n")
    assert re.search(r"long-\S+ is unfinished\. Resume it with okl train --resume \S+/runs/long-\S+\n$", errors), errors


@pytest.mark.parametrize("seconds", [0.1, 0.25, 0.5])
def test_ctrl_c_while_okl_is_imported_is_no_traceback(seconds: float, source: Path, tmp_path: Path) -> None:
    process = start(tmp_path / "home", "train", source, "--task", "multiclass")
    time.sleep(seconds)
    interrupt(process)
    outcome = wait(process)
    assert outcome.code in (130, -signal.SIGINT, 2)  # Python had not started yet, or the command had ended already
    assert outcome.code != 130 or outcome.err == f"{FIRST}\n"
    assert not (tmp_path / "home").exists()


SIGNALS = """
import os, signal, sys, time
from flows.cli import interruptible
with interruptible():
    {body}
"""


@pytest.fixture
def run_source(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    def run(body: str) -> subprocess.CompletedProcess[str]:
        source = SIGNALS.format(body=body.replace("\n", "\n    "))
        command = [sys.executable, "-c", source]
        return subprocess.run(
            command, env=child_environment(), capture_output=True, text=True, check=False, preexec_fn=heed_interrupts
        )

    return run


TYPE = "os.kill(os.getpid(), signal.SIGINT)"
TERM = "os.kill(os.getpid(), signal.SIGTERM)"
# Python discards exceptions that are raised while a generator is destroyed
DESTROYED = (
    f"def read():\n    try:\n        yield\n    finally:\n        {TYPE}\nnext(read())\ntime.sleep(60)\nprint('lost')"
)


@pytest.mark.parametrize(
    ("body", "code", "messages"),
    [
        (TYPE, 130, [FIRST]),
        (f"try:\n    {TYPE}\nfinally:\n    {TYPE}\n    print('cleaned')", 130, [FIRST, SECOND]),
        (f"try:\n    {TYPE}\nfinally:\n    {TYPE}\n    {TYPE}\n    print('never')", 130, [FIRST, SECOND]),
        (f"try:\n    {TYPE}\nexcept KeyboardInterrupt:\n    raise AttributeError('half an import')", 130, [FIRST]),
        (f"try:\n    {TYPE}\nexcept KeyboardInterrupt:\n    pass", 0, [FIRST]),
        (f"try:\n    exec({TYPE!r})\nexcept KeyboardInterrupt:\n    pass", 0, [FIRST]),
        (DESTROYED, 130, [FIRST]),
        (f"try:\n    {TERM}\nfinally:\n    {TERM}\n    {TERM}\n    print('cleaned')", 143, [TERMINATED]),
        (f"try:\n    {TERM}\nfinally:\n    {TYPE}\n    {TYPE}\n    print('never')", 143, [TERMINATED, SECOND]),
        ("sys.exit(2)", 2, []),
    ],
    ids=[
        "once",
        "twice",
        "thrice",
        "an error in its wake",
        "handled",
        "handled in code from text",
        "discarded",
        "terminated by several signals",
        "terminated, then Ctrl-C twice",
        "never",
    ],
)
def test_ctrl_c_prints_one_message_and_never_a_traceback(
    body: str, code: int, messages: list[str], run_source: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    outcome = run_source(body)
    assert (outcome.returncode, outcome.stderr.splitlines()) == (code, messages)
    assert outcome.stdout == ("cleaned\n" if "cleaned" in body else "")


def test_a_process_that_ignores_ctrl_c_continues_to_ignore_it() -> None:
    source = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + SIGNALS.format(body=TYPE)
    outcome = subprocess.run(
        [sys.executable, "-c", source], env=child_environment(), capture_output=True, text=True, check=False
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
