"""Whether rows are like their neighbours, so that it matters which rows a candidate is judged by."""

from __future__ import annotations

from dataclasses import dataclass

from okl.choosing.race import Ran, Track
from okl.store.columns import share_of
from okl.store.dataset import Dataset
from okl.store.manifest import read_manifest

LEAST_ROWS = 200
_MORE, _MUCH_MORE = 1.25, 3.0  # times the error of fifths that are drawn at random
_DEVIATIONS = 4.0


@dataclass(frozen=True)
class Likeness:
    """Errors of one candidate on fifths of the rows, by models of the other four.

    together : of fifths that lie together in the data set; apart : of fifths that are drawn at random
    rows : predicted; rates : whether errors are mistake rates, not squared errors over those of the mean

    Source: Roberts et al., Ecography 40(8), 2017, of blocks against random folds; the two thresholds are okl's own.
    """

    together: float
    apart: float
    rows: int
    rates: bool

    @property
    def told(self) -> bool:
        """Whether rows of fifths that lie together are harder to predict, and not by chance."""
        if self.rows < LEAST_ROWS or self.together <= _MORE * self.apart:
            return False
        variance = sum(rate * (1.0 - rate) for rate in (self.together, self.apart)) / self.rows
        return not self.rates or self.together - self.apart > _DEVIATIONS * variance**0.5

    @property
    def decides(self) -> bool:
        """Whether so much harder that leave-one-out errors say little of rows from elsewhere.

        Up to twice as hard are rows of satimage, ijcnn1 and w7a, where judging by fifths that lie together costs .3 to
        .7 points on their test rows; nine times those of occupancy_detection, where it gains 9.
        """
        return self.told and self.together > _MUCH_MORE * self.apart

    def words(self, blocks: bool) -> str:
        """What to make of it. blocks : whether candidates were judged by fifths that lie together"""
        unit = "mistakes" if self.rates else "of the variance left"
        found = (
            f"Rows are like their neighbours: {self.apart:.2%} {unit} on fifths of the rows drawn at random, "
            f"{self.together:.2%} on fifths that lie together"
        )
        if blocks:
            return f"{found}. As the test rows were given apart, candidates were judged by the latter."
        return (
            f"{found}. Expect the latter of rows from elsewhere, such as later days or other patients; --validation "
            "blocks chooses for these."
        )


def likeness(track: Track, candidate: Ran, size: tuple[int, int]) -> Likeness:
    """Of the candidate that leads, with sampled rows and landmarks of a round."""
    together = track.judging("blocks").run(candidate.candidate, *size, kept=False)
    apart = track.judging("fifths").run(candidate.candidate, *size, kept=False)
    return Likeness(together.error, apart.error, size[0], track.outputs.task != "regression")


def are_test_rows_given(data: Dataset) -> bool:
    """Whether whoever made the rows said which of them are for testing: often those of another day or place."""
    return data.rows("test") > 0 and share_of(read_manifest(data.folder).settings.get("holdout")) is None
