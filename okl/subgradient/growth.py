"""How large a sample to solve, how far, and when fresh samples are worth their rows: plain rules on sizes and gaps."""

from __future__ import annotations

from dataclasses import dataclass

FACTOR = 4.0
FIRST_SAMPLE = 1000
LARGEST_PART = 0.5  # of all rows; a larger sample is all of them
_STATISTICAL = (
    0.02  # over lam n: a sampled optimum is further than that from the optimum of all rows, seen on real data
)
_LOOSEST = 0.1
_SOLVED = 0.25  # of the gap asked for, that solving the sample may take
_MARGIN = 0.75  # of the gap asked for, that a bound is expected to take if it is to be tried
_DEARER = 0.25  # by how much the bound is further from its mean with each attempt: less risk is left for it
_MOST_OF_SAMPLE = 2.0  # rows of a replicate over those of the sample
_FALL = 0.5  # of the scale, from one sample to the next, at most


@dataclass(frozen=True)
class Seen:
    """What fresh samples told of a point.

    n_rows : of the sample that the point was learnt from; scale : excess over all rows, and optimism of a sample's
    bound, are about scale / rows
    """

    n_rows: int
    scale: float

    @classmethod
    def of(cls, mean_gap: float, n_rows: int, replicate_rows: float, solved: float) -> Seen:
        """From the gaps of samples of replicate_rows at a point of n_rows; solved : what of that no rows would mend."""
        return cls(n_rows, max(0.0, mean_gap - solved) / (1.0 / n_rows + 1.0 / replicate_rows))


@dataclass(frozen=True)
class Plan:
    """Rules of a run.

    gap : asked for; lam : of the problem; first_sample : rows; replicates : fresh samples of a certificate
    """

    gap: float
    lam: float
    first_sample: int
    replicates: int

    def next_share(self, share: float) -> float:
        """Of the next sample: four times as large, or all rows."""
        return 1.0 if FACTOR * share > LARGEST_PART else FACTOR * share

    def tolerance(self, share: float, n_rows: int) -> float:
        """The gap to solve a sample to: what its rows are worth, and of all rows the gap that is asked for."""
        if share >= 1.0:
            return self.gap
        return max(_SOLVED * self.gap, min(_LOOSEST, _STATISTICAL / (self.lam * n_rows)))

    def replicate_rows(self, seen: Seen, n_rows: int, solved: float, attempts: int = 0) -> int | None:
        """Rows of each fresh sample for which the bound is expected to reach the gap; None where it is not.

        n_rows, solved : rows and gap of the sample; attempts : that failed before, each of which makes the next one ask
        for more confidence

        The bound is the excess of the point, the optimism of the replicates, and how far the sample was solved.
        """
        left = _MARGIN * self.gap / (1.0 + _DEARER * attempts) - seen.scale / n_rows - solved
        if left <= 0.0 or seen.scale > _MOST_OF_SAMPLE * n_rows * left:
            return None
        return max(self.first_sample, round(seen.scale / left))

    def worth_looking(self, seen: Seen | None, n_rows: int, solved: float) -> bool:
        """Whether a few fresh samples should tell what the point of a sample is worth: less is hopeless, or known."""
        if seen is None:
            return True
        likely = Seen(n_rows, _FALL * seen.scale)
        return seen.n_rows != n_rows and self.replicate_rows(likely, n_rows, solved) is not None
