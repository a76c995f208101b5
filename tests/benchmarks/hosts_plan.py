"""What `okl plan` foresees of runs over emulated hosts, and what they take; see tests.benchmarks.hosts.

    python -m tests.benchmarks.hosts_plan [SETTING ...]

Settings are 0 (one worker, 1 ms from host to host), 1 (two workers, 1 ms) and 2 (two workers, 10 ms); all of them
unless said otherwise. Workers forget all they hold before each run. The first configurations are those that the model
of costs was made with; nothing in it was ever fitted to the others.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from okl.data.manifest import open_dataset
from okl.runs.plan import Forecast, Machine, Network, outlook
from tests.benchmarks.hosts import LATENCY_MS, SCHEDULER, Remote, cluster
from tests.benchmarks.hosts_driver import ACCELERATED, ITERATIONS, MAPPED, PLANNED, SETS, larger, settings_of

IDLE_SECONDS = 5.0
RETURN_SECONDS = 3.0  # until a virtual machine has given freed memory back to its host
FRESH: dict[str, dict[str, Any]] = {
    "logistic D=150": {"solver": "logistic", "frequencies": 150} | ACCELERATED,
    "l2-svm D=250": {"solver": "l2-svm", "frequencies": 250} | ACCELERATED,
    "nogd sum B=120": {"solver": "nogd", "mode": "sum", "rounds": 70, "budget": 120} | MAPPED,
    "pegasos D=300": {"solver": "pegasos", "mode": "mix", "rounds": 80, "frequencies": 300, "bandwidth": 3.0},
}
"""Other solvers, widths and rows (`fresh` of SETS): nothing that forecasts go by was ever looked at beside these."""
SETTINGS = ((LATENCY_MS, 1), (LATENCY_MS, 2), (10.0, 2))


def idle(remote: Remote) -> tuple[float, float]:
    """Bytes a second that cross the driver's link when nothing is done."""
    before, begun = remote.crossed(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    after, seconds = remote.crossed(), time.perf_counter() - begun
    return (after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds


def planned(remote: Remote, folder: Path, numbers: tuple[int, ...] = (0, 1, 2)) -> None:
    """Bytes and seconds foreseen and measured, of runs that workers hold nothing of."""
    remote.ask("forget")
    time.sleep(RETURN_SECONDS)
    constants = Machine(**remote.ask("calibrate", f"tcp://{remote.hosts.address(SCHEDULER)}:8786", LATENCY_MS))
    print(f"rounds beside waiting: {constants}", flush=True)
    quiet = idle(remote)
    print(f"nothing done: {quiet[0]:.0f} bytes/s out, {quiet[1]:.0f} back; not counted below")
    judged: dict[str, list[Found]] = {"larger": [], "fresh": []}
    for number in numbers:
        latency, workers = SETTINGS[number]
        remote.hosts.latency(latency)
        for of, cases in (("larger", PLANNED), ("fresh", FRESH)):
            data = open_dataset(folder / of)
            for name, values in cases.items():
                new = values | {"seed": 1 + number}  # nobody has seen it, or its rows in its map
                settings, network = settings_of(new | {"workers": workers}, data), Network(100.0, latency)
                told = outlook(settings, None, network, ITERATIONS, recalibrate=True, constants=constants).forecasts[0]
                found = measured(remote, f"{name}, {workers} workers, {latency:g} ms", new, workers, of, told, quiet)
                judged[of].append(found)
    told_of("the configurations that the model was made with", judged["larger"], judged["larger"])
    told_of("fresh ones, by the same median", judged["fresh"], judged["larger"])


class Found(NamedTuple):
    """One run beside its forecast. ratio : of seconds, foreseen over measured; off : of bytes, the most"""

    name: str
    ratio: float
    off: float


def measured(
    remote: Remote, name: str, values: dict[str, Any], workers: int, of: str, told: Forecast, quiet: tuple[float, float]
) -> Found:
    """Learn what was foreseen, and print both."""
    short = {"seed": 0} | ({"rounds": 3} if "rounds" in values else {"max_iterations": 3})
    remote.ask("learn", values | short, workers, of)  # compiles
    remote.ask("forget")
    time.sleep(RETURN_SECONDS)
    before = remote.crossed()
    taken = remote.ask("learn", values, workers, of)
    after = remote.crossed()
    wire = [after[i] - before[i] - quiet[i] * taken["seconds"] for i in (0, 1)]
    bytes_ratios = (
        told.bytes_sent / taken["sent"], told.bytes_received / taken["received"],
        told.wire_sent / wire[0], told.wire_received / wire[1],
    )  # fmt: skip
    print(
        f"{name:30} rounds {told.rounds:6.0f} {taken['rounds']:6}  "
        f"out {bytes_ratios[0]:.3f} back {bytes_ratios[1]:.3f}  wire out {bytes_ratios[2]:.3f} back "
        f"{bytes_ratios[3]:.3f}  seconds {told.seconds:.2f} {taken['seconds']:.2f} (until the first step "
        f"{taken['start']:.2f}; foreseen of caller {told.own_seconds:.2f}, loading {told.load_seconds:.2f}, work "
        f"{told.compute_seconds:.2f}, rounds {told.communication_seconds:.2f})",
        flush=True,
    )
    off = max(abs(ratio - 1.0) for ratio in bytes_ratios)
    return Found(name, told.seconds / taken["seconds"], off)


def told_of(what: str, found: list[Found], judges: list[Found]) -> None:
    """How near forecasts came."""
    off = median(one.ratio for one in judges)
    low, high = (extreme(found, key=lambda one: one.ratio) for extreme in (min, max))
    print(
        f"{what}: seconds foreseen over measured {median(one.ratio for one in found):.2f} in the median, "
        f"{low.ratio:.2f} ({low.name}) to {high.ratio:.2f} ({high.name}); within 30% of {off:.2f}: "
        f"{sum(1 / 1.3 <= one.ratio / off <= 1.3 for one in found)} of {len(found)}; bytes within 5%: "
        f"{sum(one.off <= 0.05 for one in found)} of {len(found)}"
    )


def main(*numbers: str) -> None:
    """Print forecasts beside runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # namespaces are removed
    with tempfile.TemporaryDirectory(prefix="okl-hosts-") as folder:
        for name in SETS:
            larger(Path(folder), name)
        with cluster(Path(folder)) as remote:
            planned(remote, Path(folder), tuple(map(int, numbers)) or (0, 1, 2))


if __name__ == "__main__":
    main(*sys.argv[1:])
