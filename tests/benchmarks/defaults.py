"""`okl train DATASET` with no option, against tuned models of scikit-learn, on every set of more than 500 rows.

    OKL_DATA=../shared/data OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.defaults peers [SETS] --out FOLDER
    OKL_DATA=../shared/data python -m tests.benchmarks.defaults okl [SETS] --out FOLDER
    OKL_DATA=../shared/data python -m tests.benchmarks.defaults table [SETS] --out FOLDER

Both sides train on the same rows, columns as stored, and are evaluated on the same test rows. Sets of fewer than
5,000 rows: five splits, of which the averages are compared; else one, the official one if there is one. A set is passed
if okl is within half a point of accuracy, or 5% of the mean squared error, of the best of its three peers, chosen by
the very test rows, which favours the peers. FOLDER gets peers.parquet and okl.parquet, a flat row per measurement;
finished ones are repeated only with --again. With --again the last measurement counts.

Seconds in the table: of a peer, those of the processor for tuning and learning in one thread, which other load does not
stretch; of okl, those of the clock: `total_seconds` of the result, which has evaluation and the report in it, and the
whole command, which starts a Prefect server, too, unless PREFECT_API_URL names one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from math import nan
from pathlib import Path
from statistics import fmean, stdev
from time import perf_counter
from typing import Any

from tests.benchmarks.defaults_data import Case, Measurements, list_cases
from tests.benchmarks.defaults_peers import PEERS, measure_peer

MOST_POINTS, MOST_EXCESS, SHARE_ASKED = 0.005, 0.05, 0.8


def run_peers(cases: list[Case], out: Path, again: bool) -> None:
    """Tune and measure the peers on every split."""
    measurements = Measurements(out / "peers.parquet")
    for case in cases:
        for peer in PEERS:
            if again or not measurements.holds(case, peer):
                data = case.dataset(out / "data")
                measurements.add(case, data, measure_peer(peer, case, data))
                print(line_of(measurements.rows[-1]), flush=True)


def run_okl(cases: list[Case], out: Path, again: bool) -> None:
    """Run the command on every split in a new process, with --json as its only option."""
    measurements = Measurements(out / "okl.parquet")
    for case in cases:
        if again or not measurements.holds(case, "okl"):
            data = case.dataset(out / "data")
            start = perf_counter()
            outcome = subprocess.run(
                [sys.executable, "-m", "flows.cli", "train", str(data.folder), "--json"],
                env=os.environ | {"OKL_HOME": str(out / "home")},
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = perf_counter() - start
            if outcome.returncode != 0:
                sys.exit(f"{case.name}, seed {case.seed}: {outcome.stderr}")
            result = json.loads(outcome.stdout.splitlines()[-1])
            shutil.rmtree(result["run"])
            measurements.add(case, data, figures_of(case, result) | {"command_seconds": seconds})
            print(line_of(measurements.rows[-1]), flush=True)


def figures_of(case: Case, result: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a run that are stored; settings are the chosen ones with their reasons."""
    settings = {name: result["settings"][name] for name in ("solver", "kernel", "rescale")}
    return {
        "method": "okl",
        "figure": result["test"][case.metric],
        "seconds": result["total_seconds"],
        "peak_memory_bytes": result["peak_memory_bytes"],
        "settings": json.dumps(settings | {"chosen": result["chosen"], "why": result["choice"]["why"]}),
    }


def line_of(row: dict[str, Any]) -> str:
    """Return a measurement as a line."""
    label = f"{row['set']:<20} {row['seed']} {row['method']:<9}"
    return f"{label} {row['metric']} {row['figure']:.5g}  {row['seconds']:.1f} s  {row['settings'][:300]}"


def print_table(cases: list[Case], out: Path) -> None:
    """Print whether okl passes each set that both sides have measured, and the share of sets passed."""
    last = {}
    for row in [*Measurements(out / "peers.parquet").rows, *Measurements(out / "okl.parquet").rows]:
        last[row["set"], row["seed"], row["method"]] = row
    print(f"{'set':<20} {'okl':>10} {'best peer':>20} {'okl behind':>10} {'+-':>6}  ", end="")
    print(f"{'okl s':>7} {'command':>7} " + " ".join(f"{peer + ' s':>10}" for peer in PEERS))
    verdicts = []
    for name in dict.fromkeys(case.name for case in cases):
        splits = [case for case in cases if case.name == name]
        complete = [
            rows
            for case in splits
            if len(rows := {m: last[key] for m in ("okl", *PEERS) if (key := (name, case.seed, m)) in last}) == 4
        ]
        if complete:
            verdicts.append(print_verdict(name, splits[0].metric, complete))
    passed = sum(verdicts)
    share = passed / max(len(verdicts), 1)
    print(f"{passed} of {len(verdicts)} sets passed: {100 * share:.0f}%, of {100 * SHARE_ASKED:.0f}% asked")


def print_verdict(name: str, metric: str, splits: list[dict[str, dict[str, Any]]]) -> bool:
    """Print the line of a set; return whether okl passes it."""
    figures = {method: [rows[method]["figure"] for rows in splits] for method in ("okl", *PEERS)}
    means = {method: fmean(values) for method, values in figures.items()}
    seconds = {method: fmean(rows[method]["cpu_seconds"] or nan for rows in splits) for method in PEERS}
    seconds["okl"] = fmean(rows["okl"]["seconds"] for rows in splits)
    command = fmean(rows["okl"]["command_seconds"] for rows in splits)
    if metric == "mse":
        best = min(PEERS, key=lambda peer: means[peer])
        behind, most, unit = means["okl"] / means[best] - 1, MOST_EXCESS, "%"
        scale = means[best]
    else:
        best = max(PEERS, key=lambda peer: means[peer])
        behind, most, unit = means[best] - means["okl"], MOST_POINTS, "p"
        scale = 1.0
    differences = [
        (okl_figure - peer_figure) / scale
        for okl_figure, peer_figure in zip(figures["okl"], figures[best], strict=True)
    ]
    error = f"{100 * stdev(differences) / len(differences) ** 0.5:.2f}" if len(differences) > 1 else ""
    figures_text = f"{means['okl']:>10.5g} {best:>9} {means[best]:>10.5g} {100 * behind:>9.2f}{unit} {error:>6}"
    times = f"{seconds['okl']:>7.1f} {command:>7.1f} " + " ".join(f"{seconds[peer]:>10.1f}" for peer in PEERS)
    print(f"{name:<20} {figures_text}  {times}  {'passed' if behind <= most else 'FAILED'}")
    return behind <= most


def main() -> None:
    """Run one of the three stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("peers", "okl", "table"))
    parser.add_argument("sets", nargs="*", help="names of sets; none: all")
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"), help="folder of the results")
    parser.add_argument("--again", action="store_true", help="measure what has been measured, too")
    parser.add_argument("--seeds", type=int, help="at most so many splits of a set")
    options = parser.parse_args()
    cases = [case for case in list_cases(options.sets) if options.seeds is None or case.seed < options.seeds]
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if options.stage == "table":
        print_table(cases, out)
    else:
        {"peers": run_peers, "okl": run_okl}[options.stage](cases, out, options.again)


if __name__ == "__main__":
    main()
