"""Teams of experts, fresh, for the tests of compiled functions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from okl.compiled.expert_weights import ExpertRule
from okl.compiled.experts import ExpertPredictions, Team
from tests.compiled.cases import Case, n_outputs

ROWS, N_FREQUENCIES, PADDED = 90, 23, 32
STEPS = np.array([0.3, 1.1])


class Fixture(NamedTuple):
    team: Team
    results: ExpertPredictions


def fresh(case: Case, adaptive: bool) -> Fixture:
    shape = (len(STEPS), n_outputs(case.rule.code), 2, PADDED)
    dtype = case.inputs.dtype
    squares = np.zeros(shape if adaptive else (0, 0, 0, 0), dtype)
    predictions = np.zeros((len(case.targets), len(STEPS), 2))
    return Fixture(
        Team(np.zeros(shape, dtype), np.zeros(shape, dtype), squares, STEPS),
        ExpertPredictions(predictions, np.zeros(len(predictions), dtype=np.uint8)),
    )


def rule_of(case: Case) -> ExpertRule:
    return ExpertRule(case.rule.code, case.rule.epsilon, case.rule.class_weights)
