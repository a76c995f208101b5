"""What rounds of one label have in common, read off runs of a few sizes: how many, how long, how many bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from okl.planning.recorder import Asked

SMALL, LARGE = 128, 4096  # rows of a shard in a round
Counts = dict[str, tuple[float, float, float]]
"""Rounds of each label: in the beginning, in each round or iteration, and at each check of a gap."""


@dataclass(frozen=True)
class Log:
    """What was asked for in one run; iterations (or rounds) and steps of the loop, each of which ends with a check.

    begin_seconds, own_seconds : of the caller alone, before the loop and in it
    """

    asked: tuple[Asked, ...]
    iterations: int
    checks: int
    begin_seconds: float
    own_seconds: float

    def of(self, label: str) -> list[Asked]:
        """Rounds of a label."""
        return [one for one in self.asked if one.label == label]

    @property
    def labels(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(one.label for one in self.asked))


@dataclass(frozen=True)
class Kind:
    """What rounds of one label have in common.

    begun, each, checked : rounds in the beginning, in each round or iteration, and at each check of a gap
    reply_bytes : of a worker's reply without the parts of its shards
    grown : (rows learnt, bytes down to each worker, bytes of each shard's part), as the state grows
    shard_seconds, row_seconds : of work on a shard, and on each row in it that takes part
    load_seconds : of a row of the shard that is not held in memory, and is read and mapped again
    merge_seconds : of the caller, for a shard's part
    first_shard_seconds, first_row_seconds : what the first of several rounds takes more, for a shard and for each of
        its rows: they are read and mapped then
    """

    label: str
    begun: float
    each: float
    checked: float
    reply_bytes: float
    grown: tuple[tuple[float, float, float], ...]
    shard_seconds: float
    row_seconds: float
    load_seconds: float
    merge_seconds: float
    first_shard_seconds: float = 0.0
    first_row_seconds: float = 0.0


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal told.

    work_bytes : of all work, which each worker gets once; row_seconds : of a row of a stream
    begin_seconds, own_seconds : of the caller, before the first round, and in each round or iteration
    read_seconds : to read a row of what stood in for the data
    """

    kinds: tuple[Kind, ...]
    work_bytes: int = 0
    row_seconds: float = 0.0
    begin_seconds: float = 0.0
    own_seconds: float = 0.0
    read_seconds: float = 0.0


def counted(logs: Sequence[Log]) -> Counts:
    """Rounds of each label in the beginning, an iteration and a check, from runs that differ in one of them each."""
    told = np.array([(1.0, log.iterations, log.checks) for log in logs])
    counts: Counts = {}
    for label in dict.fromkeys(label for log in logs for label in log.labels):
        if len(logs) == 1:  # of a method that asks before it iterates, or never
            counts[label] = (float(len(logs[0].of(label))), 0.0, 0.0)
            continue
        seen = np.array([len(log.of(label)) for log in logs], dtype=float)
        begun, each, checked = np.maximum(np.linalg.lstsq(told, seen, rcond=1e-9)[0], 0.0)
        counts[label] = (float(begun), float(each), float(checked))
    return counts


def told(
    counts: Counts, held: tuple[Log, Log], unheld: tuple[Log, Log], parts: int, read_seconds: float = 0.0
) -> Rehearsed:
    """What runs tell.

    held, unheld : small and large, with rows held in memory and without; parts : of a shard that rounds go over in turn
    """
    kinds = tuple(
        _kind(label, count, [log.of(label) for log in (*held, *unheld)], parts) for label, count in counts.items()
    )
    whole = held[0] if held[0].iterations else held[1]  # one that was broken off tells nothing of its caller
    work = {one.digest: one.work_bytes for one in whole.asked}
    own = whole.own_seconds / max(1, whole.iterations)
    return Rehearsed(kinds, sum(work.values()), 0.0, whole.begin_seconds, own, read_seconds)


def _kind(
    label: str,
    count: tuple[float, float, float],
    logs: Sequence[list[Asked]],
    parts: int,
) -> Kind:
    """logs : of the label, small and large, with rows held and without"""
    small, large, bare, large_bare = logs
    known = small or large or bare or large_bare
    wide = large or known
    short, long, again, long_again = (
        _seconds(log) for log in (small or known, wide, bare or small or known, large_bare or wide)
    )
    row = max(0.0, long - short) / (LARGE - SMALL)
    first, first_long = _first_seconds(small), _first_seconds(large)
    first_row = max(0.0, first_long - first) / (parts * (LARGE - SMALL))
    loading = max(0.0, (long_again - again) - (long - short)) / (parts * (LARGE - SMALL))
    grown = tuple((float(max(one.at, 0)), float(one.value_bytes), one.part_bytes) for one in wide)
    if parts == 1:  # of iterations: what is asked for is as long in each
        grown = ((0.0, *(sum(entry[i] for entry in grown) / len(grown) for i in (1, 2))),)  # type: ignore[assignment]
    return Kind(
        label, *count, median(one.reply_bytes for one in known), grown, max(0.0, short - row * SMALL), row, loading,
        median(one.merge_seconds / len(one.seconds) for one in known),
        max(0.0, first - first_row * parts * SMALL), first_row,
    )  # fmt: skip


def _seconds(log: list[Asked]) -> float:
    """Of a shard: the median of later rounds, as the first one reads the rows."""
    return median(min(one.seconds) for one in (log[1:] or log))


def _first_seconds(log: list[Asked]) -> float:
    """What the first round takes more than later ones, of a shard; 0 of a round that is not repeated."""
    return max(0.0, min(log[0].seconds) - _seconds(log)) if len(log) > 1 else 0.0
