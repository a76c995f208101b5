"""Write or compare digests of what okl computes.

    python -m tests.digests write [FILE] [--only PATTERN] [--jobs N]
    python -m tests.digests compare [FILE] [--only PATTERN] [--jobs N]

Each case has hashes and the first few numbers in full precision, so that a difference by rounding is recognised. Only
public names of okl and the command line are used. Times and paths are no part of a digest.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np

from tests.digests.bench import Entry, digests, selected

EXPECTED = Path(__file__).with_name("expected.json")
ROUNDING = 1e-6  # float32 has a precision of 1.2e-7
PROCESSOR = " processor"  # name of an entry that is not a case: bits are valid for one kind of processor


def numbers_in(entry: Any) -> list[float] | None:
    """Return all numbers of an entry but hashes, in order."""
    if isinstance(entry, dict):
        return [one for key in sorted(entry) if "sha256" not in key for one in numbers_in(entry[key]) or []]
    if isinstance(entry, list):
        return [one for item in entry for one in numbers_in(item) or []]
    try:
        return [float(entry)]
    except (TypeError, ValueError):
        return None


def distance(one: Entry, other: Entry) -> tuple[float, bool]:
    """Return the largest relative difference of numbers that can be paired, and whether all can."""
    largest, all_paired = 0.0, one.keys() == other.keys()
    for part in one.keys() & other.keys():
        first, second = numbers_in(one[part]) or [], numbers_in(other[part]) or []
        if len(first) != len(second):
            all_paired = False
        elif first:
            a, b = np.array(first), np.array(second)
            with np.errstate(all="ignore"):
                difference = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
            difference[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
            largest = max(largest, float(difference.max()))
    return largest, all_paired


def parts_that_differ(one: Entry, other: Entry) -> str:
    """Return the names of the parts of two entries that differ."""
    return ", ".join(sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key)))


def compare(expected: dict[str, Entry], found: dict[str, Entry]) -> int:
    """Print a line for each case that differs; return the exit code: 1 unless all are equal up to rounding."""
    counts = dict.fromkeys(("equal", "differ by rounding", "differ", "failed", "missing"), 0)
    for name, entry in expected.items():
        if name not in found:
            kind, line = "missing", "missing"
        elif "failed" in found[name] or "failed" in entry:
            kind, line = "failed", f"failed ({found[name].get('failed', 'when it was written')})"
        elif found[name] == entry:
            kind, line = "equal", ""
        else:
            difference, all_paired = distance(entry, found[name])
            # equal numbers with another hash: the difference is after the first numbers and cannot be measured
            kind = "differ by rounding" if all_paired and 0.0 < difference <= ROUNDING else "differ"
            line = f"{kind.replace('differ', 'differs')} (max relative difference {difference:.1e})"
            line += f" in {parts_that_differ(entry, found[name])}"
        counts[kind] += 1
        if line:
            print(f"{name}: {line}")
    for name in found.keys() - expected.keys():
        print(f"{name}: new")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(counts["differ"] + counts["failed"] + counts["missing"] > 0)


def save(path: Path, entries: dict[str, Entry]) -> None:
    """Write entries in one step, so that an interrupted run keeps its previous entries."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(entries, indent=0, sort_keys=True) + "\n")
    part.replace(path)


def main() -> int:
    """Write or compare; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.digests")
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("file", nargs="?", type=Path, default=EXPECTED)
    parser.add_argument("--only", default="", help="part of a case's name, or a pattern")
    parser.add_argument("--jobs", type=int, default=2, help="processes that run cases side by side")
    options = parser.parse_args()
    started = time.perf_counter()
    cpu = llvmlite.binding.get_host_cpu_name()
    stored: dict[str, Entry] = json.loads(options.file.read_text()) if options.file.exists() else {}
    written_on = stored.pop(PROCESSOR, {}).get("name")
    found: dict[str, Entry] = {}
    kept = stored if options.action == "write" and options.only else {}
    for name, entry in digests(options.only, options.jobs):
        found[name] = entry
        if options.action == "write":
            save(options.file, {PROCESSOR: {"name": cpu}} | kept | found)
    print(f"{len(found)} cases in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if options.action == "write":
        return int(any("failed" in entry for entry in found.values()))
    if written_on != cpu:
        print(f"The digests were written on {written_on}; this processor is {cpu}, where bits may differ.")
    return compare({name: stored[name] for name in selected(stored, options.only)}, found)


if __name__ == "__main__":
    sys.exit(main())
