"""Four hosts in network namespaces: every solver, and disconnected hosts.

    python -m tests.benchmarks.hosts [solvers|cuts|all]

A driver, Dask's scheduler and two workers, each on a separate host, with latency between them. Needs root;
nothing leaves the namespaces, which are removed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.hosts_driver import CUT, larger
from tests.benchmarks.hosts_network import Hosts
from tests.distributed.every_solver import CASES

DRIVER, SCHEDULER, WORKERS = "driver", "scheduler", ("one", "two")
LATENCY_MS, MOST_SECONDS = 1.0, 240.0


class Remote:
    """The driver's process, with requests that have a time limit."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        address = f"tcp://{hosts.address(SCHEDULER)}:8786"
        command = [sys.executable, "-m", "tests.benchmarks.hosts_driver", address, str(folder)]
        self._process = hosts.start(DRIVER, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.hosts = hosts
        assert self._answer()["workers"] == len(WORKERS)

    def request(self, name: str, *arguments: Any) -> dict[str, Any]:
        """Return the driver's answer to a request."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, arguments]).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], MOST_SECONDS)
        if not ready:
            raise TimeoutError(f"The driver has not answered in {MOST_SECONDS:g} s.")
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@contextmanager
def cluster(folder: Path) -> Iterator[Remote]:
    """Start a scheduler and workers on their hosts, and a driver."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    with Hosts([DRIVER, SCHEDULER, *WORKERS], LATENCY_MS) as hosts:
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", hosts.address(SCHEDULER)]
        hosts.start(SCHEDULER, [*dask, "--dashboard-address", "127.0.0.1:0"], **quiet)
        for name in WORKERS:
            start_worker(hosts, name, folder, os.environ | threads, quiet)
        yield Remote(hosts, folder)


def start_worker(hosts: Hosts, name: str, folder: Path, environment: dict[str, str], quiet: dict[str, Any]) -> None:
    """Start a worker process on a host."""
    scheduler = f"tcp://{hosts.address(SCHEDULER)}:8786"
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--host", hosts.address(name)]
    options = ["--nthreads", "1", "--no-nanny", "--memory-limit", "4GiB", "--no-dashboard"]
    hosts.start(name, [*command, *options, "--local-directory", str(folder / name)], env=environment, **quiet)


def every_solver(remote: Remote) -> None:
    """Run all cases of the contract over the network and in one process."""
    wrong, start = [], time.perf_counter()
    for name in CASES:
        answer = remote.request("case", name)
        if answer.get("bits") != answer.get("expected", 0):
            wrong.append((name, answer))
    solvers = len({solver for solver, _, _ in CASES.values()})
    same, seconds = len(CASES) - len(wrong), time.perf_counter() - start
    print(
        f"{len(CASES)} cases of {solvers} solvers, {LATENCY_MS:g} ms one way: {same} with the bits of one process, "
        f"{seconds:.0f} s",
        *wrong, sep="\n", flush=True,
    )  # fmt: skip


def cuts(remote: Remote) -> None:
    """Disconnect a worker's host during runs, first for ten seconds, then permanently."""
    for name, case in (("mix", "fogd mix D=400"), ("sum", "c-svm D=400")):
        values = CUT[case] | ({"rounds": 600} if name == "mix" else {"max_iterations": 150})
        undisturbed = remote.request("learn", values, 2)
        for duration in ("ten seconds",):
            cutting = threading.Thread(target=_cut, args=(remote.hosts, 0.4 * undisturbed["seconds"], 10.0))
            cutting.start()
            disturbed = remote.request("learn", values, 2)
            cutting.join()
            print_outcome(f"{name}, cut off for {duration}", undisturbed, disturbed)
            time.sleep(3.0)
    for name, case in (("sum", "c-svm D=400"), ("mix", "fogd mix D=400")):
        values = CUT[case] | ({"rounds": 600} if name == "mix" else {"max_iterations": 150})
        undisturbed = remote.request("learn", values, 0)
        cutting = threading.Thread(target=_cut, args=(remote.hosts, 0.4 * undisturbed["seconds"], None))
        cutting.start()
        disturbed = remote.request("learn", values, 2)
        cutting.join()
        print_outcome(f"{name}, cut off for good", undisturbed, disturbed)


def _cut(hosts: Hosts, after: float, seconds: float | None) -> None:
    time.sleep(after)
    hosts.cut(WORKERS[0])
    if seconds is not None:
        time.sleep(seconds)
        hosts.mend(WORKERS[0])


def print_outcome(title: str, undisturbed: dict[str, Any], disturbed: dict[str, Any]) -> None:
    same = disturbed.get("bits") == undisturbed["bits"]
    times_text = (
        f"{disturbed['seconds']:.1f} s against {undisturbed['seconds']:.1f}"
        if "seconds" in disturbed
        else str(disturbed)
    )
    print(f"{title}: {'same bits' if same else 'OTHER BITS'}, {times_text}", flush=True)


def main(part: str = "all") -> None:
    """Print the parts."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that namespaces are removed
    with tempfile.TemporaryDirectory(prefix="okl-hosts-") as folder:
        larger(Path(folder))
        with cluster(Path(folder)) as remote:
            if part in ("solvers", "all"):
                every_solver(remote)
            if part in ("cuts", "all"):
                cuts(remote)


if __name__ == "__main__":
    main(*sys.argv[1:])
