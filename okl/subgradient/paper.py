"""The paper's own growth: some new rows in every iteration, steps of a controlled length, accepted on other rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from okl.checks import check_at_least, check_positive
from okl.errors import ConfigError, DataError
from okl.subgradient.directions import Point
from okl.subgradient.fitting import Fitted
from okl.subgradient.paperrun import PaperRun
from okl.subgradient.scs import Scs
from okl.subgradient.sources import Source
from okl.types import FloatArray


@dataclass(frozen=True)
class PaperGrowth:
    """Algorithm 1 with its acceptance test and its control of step lengths, as repaired.

    A step is taken if the rows that judge agree: their objective falls by at least eta_1 of the fall on the sample,
    and the direction is longer than eta_2 delta. delta is multiplied by gamma after a step that was taken, divided by
    it after one that was not. A step of 0 is a failure. When the rows end, those that judge join the sample, and it is
    solved to the gap.

    Parameters
    ----------
    first_sample, step_rows : int >= 2 and >= 1, rows at first and new ones in an iteration
    judging_rows : int >= 1, fixed from the beginning, never in the sample: fresh ones cost kernel values by the
        square and brought nothing
    most_rows : int or None for all others, where the sample stops growing
    eta_1 : in (0, 1); eta_2 : > 0, None for lam; gamma : > 1
    delta_parts : the first, least and largest delta, in units of (2 / lam)^(1/2), which no optimum is longer than

    Raises
    ------
    ConfigError : a number out of range

    Source: Zhang & Sen, Algorithm 1, with the inequality of acceptance the right way round (their Lemma 3.9), and the
    regulariser of the judges' objective that of the sample's kernel values.
    """

    first_sample: int = 150
    step_rows: int = 16
    judging_rows: int = 400
    most_rows: int | None = None
    eta_1: float = 0.2
    eta_2: float | None = None
    gamma: float = 2.0
    delta_parts: tuple[float, float, float] = (0.25, 0.02, 1.0)

    def __post_init__(self) -> None:
        check_at_least("first_sample", self.first_sample, 2)
        check_at_least("step_rows", self.step_rows, 1)
        check_at_least("judging_rows", self.judging_rows, 1)
        if self.eta_2 is not None:
            check_positive("eta_2", self.eta_2)
        first, least, largest = self.delta_parts
        if not (0.0 < self.eta_1 < 1.0 < self.gamma < math.inf and 0.0 < least <= first <= largest):
            raise ConfigError(
                f"eta_1 = {self.eta_1}, gamma = {self.gamma}, delta_parts = {self.delta_parts}, but they take numbers "
                "in (0, 1), above 1, and least <= first <= largest."
            )

    def fit(
        self, source: Source, targets: FloatArray, method: Scs, watch: Callable[[Point, int], None] | None = None
    ) -> Fitted:
        """Learn rows of a source, whose targets (n_rows,) are in the order of drawing; the first ones judge.

        watch : called after each iteration with the point, and the rows drawn for the sample so far

        Raises
        ------
        ConfigError : directions = "bundle", whose cuts hold on one sample only
        DataError : all labels are equal; no rows are left beside those that judge
        """
        if method.directions == "bundle":
            raise ConfigError(
                'The paper\'s growth takes directions = "conjugate" or "subgradient": '
                "cuts of a bundle hold on one sample only."
            )
        judges = min(self.judging_rows, source.n_rows // 4)
        if judges == 0:
            raise DataError(f"{source.n_rows} rows are too few for a sample and others that judge it: give 4 at least.")
        run = PaperRun(self, source, targets, method, judges)
        while (reason := run.finished()) is None:
            run.iterate()
            if watch is not None:
                watch(run.point, run.n_rows - run.judges)
        return run.fitted(reason)
