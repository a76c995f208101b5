"""Opening, closing and interrupting executions; schedulers that are unreachable or end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.data.order import plan_windows
from okl.distributed import open_execution
from okl.distributed.cache import assign_shards, assign_slots, batches_in_sequence
from okl.distributed.in_process import LocalExecution
from okl.distributed.rpc import pack
from okl.distributed.tls import write_self_signed
from okl.foundation.errors import ConfigError, ExecutionError
from tests.distributed.processes import descendants, heed_interrupts, listening, soon
from tests.distributed.works import KilledOnce, SampledSum, add_up

ROOT = Path(__file__).parents[2]
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


@contextmanager
def running(script: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a script with its worker processes in a new session; end all of them afterwards."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(script))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(path), str(folder)], cwd=ROOT, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_close_ends_all_threads(data: Dataset) -> None:
    before = set(threading.enumerate())
    with LocalExecution(3) as execution:
        windows = plan_windows(data.shards, 6, "shuffle", (1,), 20000)
        next(execution.stream(data, windows, 0, 1, "float32"))
        meeting = threading.Barrier(3)  # a pool starts no thread while another one is idle
        next(execution.map(lambda _: meeting.wait(60.0), range(3)))
        assert len(set(threading.enumerate()) - before) >= 3
    assert set(threading.enumerate()) == before


def test_cluster_listens_on_loopback_replaces_its_only_worker_and_ends_completely(
    data: Dataset, tmp_path: Path
) -> None:
    before, environment = descendants(os.getpid()), dict(os.environ)
    threads = {thread.name for thread in threading.enumerate()}
    with open_execution(1) as execution:
        pids = descendants(os.getpid()) - before
        addresses = listening(pids | {os.getpid()})
        assert len(pids) >= 1
        assert len(addresses) >= 3
        assert {address.partition(":")[0] for address in addresses} <= LOOPBACK
        assert dict(os.environ) == environment
        work, value = SampledSum(data, 1), (0, np.linspace(-0.5, 0.5, 6))
        killed = KilledOnce(work, 5, tmp_path, os.getpid())  # for a while there is no other worker
        expected = add_up([work(shard, value) for shard in data.shards])
        assert execution.sum(killed, data.shards, value, add_up).tobytes() == expected.tobytes()
        assert (tmp_path / "killed").exists()
    # the tracker of multiprocessing serves all spawned processes and ends with this one
    assert soon(lambda: not any("resource_tracker" not in command(pid) for pid in descendants(os.getpid()) - before))
    new_threads = {thread.name for thread in threading.enumerate()} - threads
    # Dask-Offload: one daemon thread for all clusters
    assert {name for name in new_threads if not name.startswith("Dask-Offload")} == set()


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return "resource_tracker"  # ended meanwhile


def test_workers_and_a_scheduler_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"workers and scheduler exclude each other.*Give one of them"):
        open_execution(2, "tcp://127.0.0.1:8786")
    with pytest.raises(ConfigError, match="threads = 0"):
        open_execution(threads=0)
    with pytest.raises(ConfigError, match="workers = -1"):
        open_execution(-1)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:{free}", "127.0.0.1:{free}", "nowhere.invalid:8786", "tcp://x:y"])
def test_unreachable_scheduler_is_an_error_within_seconds(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okl.distributed.cluster.CONNECT_SECONDS", 1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    start, threads = time.monotonic(), {thread.name for thread in threading.enumerate()}
    with pytest.raises(ExecutionError, match=r"No Dask scheduler answers at .* Check the address") as caught:
        open_execution(scheduler=address.format(free=free))
    assert time.monotonic() - start < 60
    assert "\n" not in str(caught.value)
    new_threads = {thread.name for thread in threading.enumerate()} - threads
    assert {name for name in new_threads if not name.startswith("Dask-Offload")} == set()


SERVE = """
    import sys, time
    from okl.distributed import open_execution
    if __name__ == "__main__":
        with open_execution(1, tls=sys.argv[1]) as execution:
            print(execution.address, flush=True)
            time.sleep(600)
"""


def test_remote_scheduler_gives_the_same_bits_and_its_end_is_an_error_and_ends_its_workers(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_PATIENCE_SECONDS", "1")
    value = (3, np.linspace(-1, 1, 6))
    expected = add_up([SampledSum(data, 4)(shard, value) for shard in data.shards])
    write_self_signed(tmp_path)
    with running(SERVE, tmp_path) as server:
        address = line_of(server)
        with open_execution(scheduler=address, tls=str(tmp_path)) as execution:
            assert execution.n_workers == 1
            result = execution.sum(SampledSum(data, 4), data.shards, value, add_up)
            assert result.tobytes() == expected.tobytes()
            execution.hold(10**8)  # close() must not fail without a worker to reset
            workers = descendants(server.pid)
            assert len(workers) >= 1
            server.kill()
            server.wait(10)
            with pytest.raises(ExecutionError, match="no longer answers"):
                execution.sum(SampledSum(data, 4), data.shards, value, add_up)
    assert soon(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_message_for_a_script_without_a_main_guard_names_the_fix(tmp_path: Path) -> None:
    script = """
        from okl.distributed import open_execution
        print("runs", flush=True)
        with open_execution(1) as execution:
            print(list(execution.map(abs, [-1, -2])))
    """
    with running(script, tmp_path) as process:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 1
        assert 'put its main code under `if __name__ == "__main__":`' in errors.splitlines()[-1]
        assert errors.splitlines()[-1].startswith(
            "okl.foundation.errors.ExecutionError: 1 worker processes could not be started"
        )
        assert "[1, 2]" not in output


INTERRUPTED = """
    import sys, time
    import okl.compiled.jit  # now: an interrupted import of numba may print messages of its destructors
    from okl.distributed import open_execution
    from tests.distributed.works import nap
    offset = 40
    def work(item):
        return item + offset
    if __name__ == "__main__":
        try:
            with open_execution({workers}, threads=2) as execution:
                imported = sorted({{"dask", "distributed"}} & set(sys.modules))
                print(list(execution.map(work, [1, 2])), imported, flush=True)
                execution.sum(nap, range(4), {nap_seconds}, list)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(130)
"""


@pytest.mark.parametrize("workers", [0, 1])
def test_work_of_a_script_is_pickled_by_value_and_an_interrupt_ends_all_processes(tmp_path: Path, workers: int) -> None:
    # Dask is imported only for work on workers
    # threads finish their current shard; worker processes are ended
    with running(INTERRUPTED.format(workers=workers, nap_seconds=60 if workers else 1), tmp_path) as process:
        assert line_of(process) == f"[41, 42] {['dask', 'distributed'] if workers else []}"
        time.sleep(0.5)
        pids = descendants(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers as well
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 130
        assert output == "interrupted\n"
        assert errors == ""
        assert soon(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_work_that_cannot_be_pickled_is_an_error() -> None:
    lock = threading.Lock()
    with pytest.raises(ExecutionError, match="must be picklable"):
        pack(lambda item: lock)


@pytest.mark.parametrize("n_items", [1, 5, 8, 100])
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_batches_contain_every_item_once(n_items: int, n_workers: int) -> None:
    slots = tuple(f"tcp://{i}" for i in range(n_workers))
    assigned = assign_shards([1] * n_items, [None] * n_items, slots)
    for batches in (assigned, batches_in_sequence(n_items, n_workers)):
        assert sorted(position for batch in batches for position in batch.positions) == list(range(n_items))
        assert all(batch.positions for batch in batches)
    assert len(assigned) == min(n_items, n_workers)


def test_surviving_workers_keep_their_slots() -> None:
    random = np.random.default_rng(0)
    slots: tuple[str, ...] = ("w0", "w1", "w2", "w3")
    for step in range(200):
        alive = {slot for slot in slots if random.random() < 0.7} | {f"n{step}-{i}" for i in range(random.integers(3))}
        after = assign_slots(slots, alive)
        assert set(after) == alive
        assert len(after) == len(alive)
        surviving = [slot for slot in slots if slot in alive]
        assert [slot for slot in after if slot in surviving] == surviving
        slots = after or ("w",)
