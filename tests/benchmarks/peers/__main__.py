"""The command line of the benchmark.

    python -m tests.benchmarks.peers --data FOLDER [--sets german,spambase] [--systems okl,LIBLINEAR] [--out FOLDER]

Systems that are installed take part (pip install 'okl[bench]'). The same --out again continues where a run stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import get_args

from okl.foundation.errors import OklError
from okl.foundation.locations import local_location
from tests.benchmarks.peers.page import text_summary
from tests.benchmarks.peers.run import BenchSettings, Stage, bench


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark; print verdicts, progress on standard error. Exit code 2 for a bad option or bad data."""
    options = _parser().parse_args(arguments)
    try:
        settings = BenchSettings(
            data=local_location("--data", options.data) if options.data else "",
            sets=_names(options.sets),
            systems=_names(options.systems),
            stage=options.stage,
            again=options.again,
            limit_seconds=options.limit_seconds,
            turns=options.turns,
            out=local_location("--out", options.out) if options.out else None,
        )
        result = bench(settings, lambda line: print(line, file=sys.stderr, flush=True))
    except OklError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(json.dumps(result, indent=2) if options.json else text_summary(result))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.peers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", default="", help="folder of NAME.parquet (float columns, y, perhaps split); OKL_DATA")
    parser.add_argument("--sets", default="", help="data sets, commas between; none: all 13 that are in the folder")
    parser.add_argument(
        "--systems", default="", help="systems of the sweep, such as okl,LIBLINEAR; none: all installed"
    )
    parser.add_argument("--stage", choices=get_args(Stage), default="all", help="sweep, duels, page, or all three")
    parser.add_argument("--again", action="store_true", help="repeat finished measurements")
    parser.add_argument(
        "--limit-seconds", type=_seconds, default=120.0, help="of the processor, for a fit and its predictions"
    )
    parser.add_argument("--turns", type=_count, default=5, help="of each configuration in a duel")
    parser.add_argument(
        "--out", help="folder of the results, continued where it stopped; none: bench in okl's home folder"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and finite")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


if __name__ == "__main__":
    main()
