"""How long which experts take part: all for the first rows, fewer and fewer until one map is left."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from okl.checks import check_at_least
from okl.errors import ConfigError

MOST_RACED_ROWS = 50_000
FEW_ROWS, FEWEST_ROWS = 1600, 800
EVERYONE = 10**6
SLOT_ROWS = 32  # rounds end at multiples of it
LATE_SHARE = 0.3  # what losses of a round count for in the next: experts learn at different speeds


@dataclass(frozen=True)
class Round:
    """Until how many rows of the stream, how many maps and how many step sizes of each take part at most.

    last_row : int >= 1, None for ever; maps, step_sizes : int >= 1
    """

    last_row: int | None
    maps: int
    step_sizes: int


WHOLE_RACE = (Round(None, EVERYONE, EVERYONE),)
"""Everyone learns all rows."""


def race_schedule(n_rows: int, final_step_sizes: int = 1) -> tuple[Round, ...]:
    """Rounds for a stream of about n_rows rows: all maps first, then ever fewer, one from a seventh of the rows on.

    Of at least 1600 rows: all maps learn for 1.5% of them, five with two step sizes until 5%, three with one step size
    until 15%; these shares are of at most 50,000 rows. Of fewer, for which rounds themselves take time: all maps learn
    64 rows (32 of less than 800), and four with one step size go on until a fifth.

    Raises
    ------
    ConfigError : n_rows is below 1
    """
    raced = min(check_at_least("n_rows", n_rows, 1), MOST_RACED_ROWS)
    first = max(1 if n_rows < FEWEST_ROWS else 2, round(0.015 * raced / SLOT_ROWS))
    if n_rows < FEW_ROWS:
        plan = [(first, EVERYONE, EVERYONE), (max(first + 1, round(0.19 * raced / SLOT_ROWS)), 4, 1)]
    else:
        second = max(first + 1, round(0.05 * raced / SLOT_ROWS))
        plan = [(first, EVERYONE, EVERYONE), (second, 5, 2), (max(second + 1, round(0.15 * raced / SLOT_ROWS)), 3, 1)]
    early = (Round(slots * SLOT_ROWS, maps, step_sizes) for slots, maps, step_sizes in plan)
    return (*early, Round(None, 1, final_step_sizes))


def check_schedule(rounds: tuple[Round, ...]) -> None:
    """Raise ConfigError unless rounds end one after the other, the last one never, and grow no larger."""
    if not rounds or rounds[-1].last_row is not None or any(early.last_row is None for early in rounds[:-1]):
        raise ConfigError("A schedule takes at least one round, and last_row = None for the last one only.")
    for early, late in pairwise(rounds):
        if late.last_row is not None and early.last_row is not None and late.last_row <= early.last_row:
            raise ConfigError(f"A round ends at row {late.last_row}, but the one before it at {early.last_row}.")
    for number, entry in enumerate(rounds):
        check_at_least(f"maps of round {number}", entry.maps, 1)
        check_at_least(f"step_sizes of round {number}", entry.step_sizes, 1)
        if entry.last_row is not None:
            check_at_least(f"last_row of round {number}", entry.last_row, 1)
