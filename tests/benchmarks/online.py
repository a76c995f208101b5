"""Speed of online learners: all required figures in one table, and throughput as a picture.

    python -m tests.benchmarks.online [--out FOLDER] [--repeats 5] [--parts speed growth throughput]

  sklearn     NOGD against scikit-learn's Nystroem with SGDClassifier, one core, both precisions, with accuracies
  kernel row  RBP and BOGD against their kernel row alone, at a budget of 100
  numpy       every baseline against a tight numpy version on the same rows, with mistakes
  growth      exponents of update time and memory, against Table 1 of Lu et al., JMLR 17(47), 2016; figures are those
              of the largest size and of the smallest
  throughput  rows a second against frequencies, inputs, classes and budget: the picture, and lines in the JSON file

Contestants take turns, each group of them on cores that have become idle; medians are shown. A verdict is given only if
cores were idle and the medians are repeatable. LLSVM is LIBLINEAR's, and is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from time import perf_counter

from tests.benchmarks.online_growth import measure_growth
from tests.benchmarks.online_lines import Line, show
from tests.benchmarks.online_speed import measure_speed
from tests.benchmarks.online_throughput import draw_throughput, measure_throughput

PARTS = ("speed", "growth", "throughput")


def measure(part: str, repeats: int, patience: float, folder: Path) -> list[Line]:
    """Return the lines of a part; write a picture of throughput to the folder."""
    if part == "speed":
        return measure_speed(repeats, patience)
    if part == "growth":
        return measure_growth(repeats, patience)
    lines = measure_throughput(patience)
    draw_throughput(lines, folder / "throughput.svg")
    return lines


def main() -> None:
    """Measure every part, print the table, and write the picture and all lines as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the picture and of lines.json; a temporary one by default")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for idle cores, each time")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    folder = options.out or Path(tempfile.mkdtemp(prefix="okl-online-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before the first measurement", flush=True)
    start, lines = perf_counter(), []
    for part in options.parts:
        part_start = perf_counter()
        lines += measure(part, options.repeats, options.patience, folder)
        print(f"{part}: {perf_counter() - part_start:.0f} s", flush=True)
    show(line for line in lines if line.part != "throughput")
    missed = sum("MISSED" in line.verdict for line in lines)
    inconclusive = sum("INCONCLUSIVE" in line.verdict for line in lines)
    judged = sum(bool(line.verdict) for line in lines)
    print(
        f"{judged} verdicts: {judged - missed - inconclusive} met, {missed} missed, {inconclusive} inconclusive",
        end=", ",
    )
    print(f"{perf_counter() - start:.0f} s; {folder}")
    (folder / "lines.json").write_text(json.dumps([line._asdict() for line in lines], indent=1))


if __name__ == "__main__":
    main()
