"""One item of the search: an online solver learns the training rows of a part once, as `okl train` would."""

from __future__ import annotations

import time
from dataclasses import dataclass

from okl.comparison.sample import Sample
from okl.comparison.trials import Trial, packed_right
from okl.configuration import TrainSettings
from okl.errors import DivergedError
from okl.execution.protocol import Rows
from okl.online.recipe import Situation
from okl.online.solver import SAMPLE_ROWS
from okl.predictors import Predictor
from okl.recipes import make_recipe
from okl.store.dataset import Schema


@dataclass(frozen=True)
class OnlineItem:
    """Learn and be judged.

    settings : of the solver; part : number of it; n_rows : training rows
    """

    settings: TrainSettings
    part: int
    n_rows: int

    @property
    def entrant(self) -> str:
        """The solver's name."""
        return self.settings.solver

    @property
    def cost(self) -> int:
        """Rows."""
        return self.n_rows

    @property
    def chosen(self) -> tuple[int, ...]:
        """The one place of a grid of one."""
        return (0,)

    def run(self, sample: Sample) -> list[Trial]:
        """One trial; a failure where the solver diverged."""
        part, schema = sample.part(self.part), sample.data.schema
        rows = Rows(part.inputs[: self.n_rows], part.targets[: self.n_rows])
        begun = time.perf_counter()
        try:
            predictor = learn(self.settings, schema, rows)
        except DivergedError as error:
            return [Trial({}, len(part.test_targets), failure=str(error))]
        seconds = time.perf_counter() - begun
        scores = predictor.scores(part.test_inputs)
        columns = [scores] if scores.ndim == 1 else list(scores.T)
        return [Trial({"own": packed_right(columns, part.test_targets)}, len(part.test_targets), seconds=seconds)]


def learn(settings: TrainSettings, schema: Schema, rows: Rows) -> Predictor:
    """Settle the solver on the first of the rows, and learn all of them in their order, which is mixed already."""
    few = Rows(rows.inputs[:SAMPLE_ROWS], rows.targets[:SAMPLE_ROWS])
    situation = Situation(schema, few, len(rows.targets), 1, "stream", settings.seed, settings.precision)
    learner = make_recipe(settings, schema).settle(situation).learner
    return learner.predictor(learner.learn(learner.start(), rows))
