"""Measuring in turns, and the flat table that every part of the benchmark of online learners adds lines to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

from okl.compiled.jit import one_blas_thread
from tests.benchmarks.steadiness import verdict, wait_for_idle_cores


class Contestant(NamedTuple):
    """work : the timed call, over n_rows rows; if its result has seconds, those count."""

    name: str
    work: Callable[[], object]
    n_rows: int


class Timing(NamedTuple):
    """Nanoseconds per row; busy : largest percentage of the cores in use beforehand; last : the last result."""

    ns: float
    least_ns: float
    busy: float
    last: object

    @property
    def spread(self) -> float:
        """Return median over least."""
        return self.ns / self.least_ns


class Line(NamedTuple):
    """One line of the table. mine, other : in unit, other 0 if there is none; value : compared with a bound."""

    part: str
    name: str
    setting: str
    mine: float
    other: float
    unit: str
    value: float
    verdict: str
    note: str = ""


def time_in_turns(groups: Sequence[Sequence[Contestant]], repeats: int, patience: float) -> list[dict[str, Timing]]:
    """Return medians of each group's contestants, in sequence within a group, groups in turns, on idle cores."""
    seconds = [{contestant.name: list[float]() for contestant in group} for group in groups]
    last: list[dict[str, object]] = [{} for _ in groups]
    busy = [0.0] * len(groups)
    for repeat in range(repeats + 1):  # the first compiles
        for number, group in enumerate(groups):
            if repeat:
                busy[number] = max(busy[number], wait_for_idle_cores(patience))
            for contestant in group:
                taken, last[number][contestant.name] = _seconds_of(contestant.work)
                if repeat:
                    seconds[number][contestant.name].append(taken)
    timings = []
    for number, group in enumerate(groups):
        row_ns = {one.name: [taken / one.n_rows * 1e9 for taken in seconds[number][one.name]] for one in group}
        timings.append(
            {name: Timing(median(ns), min(ns), busy[number], last[number][name]) for name, ns in row_ns.items()}
        )
    return timings


def _seconds_of(work: Callable[[], object]) -> tuple[float, object]:
    with one_blas_thread():
        start = perf_counter()
        result = work()
        seconds = perf_counter() - start
    return getattr(result, "seconds", seconds), result


def ratio_line(
    part: str,
    name: str,
    setting: str,
    timings: tuple[Timing, Timing],
    note: str = "",
    at_least: float | None = None,
    at_most: float | None = None,
) -> Line:
    """Return the line of okl and another: its speed ratio (at_least) or its time ratio (at_most)."""
    own, other = timings
    value = other.ns / own.ns if at_least is not None else own.ns / other.ns
    busy = max(own.busy, other.busy)
    verdict_text = verdict(value, [own.spread, other.spread], busy, at_least, at_most).strip(" ()")
    return Line(part, name, setting, own.ns, other.ns, "ns a row", value, verdict_text, note)


def show(lines: Iterable[Line]) -> None:
    """Print the lines as one table."""
    print(
        f"{'part':11}{'learner':18}{'setting':28}{'okl':>9}{'other':>9} {'unit':10}{'value':>7}  asked, verdict; note"
    )
    for line in lines:
        other = f"{line.other:9.0f}" if line.other else f"{'':9}"
        notes = "; ".join(text for text in (line.verdict, line.note) if text)
        figures = f"{line.mine:9.0f}{other} {line.unit:10}{line.value:7.2f}"
        print(f"{line.part:11}{line.name:18}{line.setting:28}{figures}  {notes}")
