"""How long which experts take part: all for the first rows, fewer and fewer until one map is left."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from okl.checks import check_at_least
from okl.errors import ConfigError

RACE_SHARE = 0.1  # of the rows
LEAST_RACE_ROWS, MOST_RACE_ROWS = 160, 5000
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


def race_schedule(n_rows: int, final_step_sizes: int = 1) -> tuple[Round, ...]:
    """Rounds for a stream of about n_rows rows: all maps for a fortieth of them, one map from three tenths on.

    The race lasts a tenth of the rows, 160 to 5000: all, then six maps, then four; three with one step size each go on
    for as long again, twice.

    Raises
    ------
    ConfigError : n_rows is below 1
    """
    race = min(max(RACE_SHARE * check_at_least("n_rows", n_rows, 1), LEAST_RACE_ROWS), MOST_RACE_ROWS)

    def slot(share: float) -> int:
        return max(1, round(race * share / SLOT_ROWS)) * SLOT_ROWS

    return (
        Round(slot(0.15), 10**6, 10**6),
        Round(slot(0.5), 5, 2),
        Round(slot(1.5), 3, 1),
        Round(None, 1, final_step_sizes),
    )


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
