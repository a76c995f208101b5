"""New rows through the eyes of the champion, before they are learnt: its errors, and labels that contradict it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy import stats

from okl.evaluation import ConstantPredictor
from okl.execution.protocol import Execution
from okl.predictors import Predictor
from okl.retraining.pairs import ALL, Doubles, compare
from okl.retraining.record import Finding
from okl.store.dataset import Dataset, Schema
from okl.types import Task

LEAST_AGAINST = 0.05  # of the agreement below chance that counts


@dataclass(frozen=True)
class Progressive:
    """How a predictor does on rows that it has not learnt.

    error, constant : mistake rate or mean squared error, of it and of the majority class or mean so far
    wrong : rows of another class, or whose squared error is above a limit
    agreement : kappa of predicted and true class, or the correlation of prediction and target: 0 as by chance
    deviations : the agreement in standard deviations of what chance makes
    """

    rows: int
    error: float
    constant: float
    agreement: float
    deviations: float
    wrong: int = 0

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        return asdict(self)


def progressive(
    data: Dataset, known: Schema, predictor: Predictor, execution: Execution, limit: float = 0.5
) -> Progressive:
    """Score the rows to learn of a shard with a predictor that has not learnt them.

    known : schema with the counts of classes so far, for the constant
    limit : of regression, the squared error above which a row counts as missed, in squared units of the target
    """
    constant = ConstantPredictor(known)
    above = limit if data.schema.task == "regression" else 0.5
    pairs = compare(data, data.split("train"), predictor, constant, predictor.precision, execution, (), above)[ALL]
    n = max(1, pairs.rows)
    found, deviations = agreement_of(data.schema.task, pairs.agreement)
    return Progressive(pairs.rows, pairs.first / n, pairs.second / n, found, deviations, pairs.beyond)


def contradiction(name: str, kind: Task, found: Progressive, level: float) -> Finding | None:
    """Labels that say the contrary of all that was learnt: predictions are right less often than by chance.

    A model that no longer fits agrees as often as chance has it, so that a change of what is to be learnt is none.
    """
    p_value = float(stats.norm.cdf(found.deviations))
    if not (found.agreement < -LEAST_AGAINST and p_value < level):
        return None
    told = (
        f"the champion's predictions agree with them less than chance would ({found.agreement:+.2f}, 0 is chance)"
        if kind != "regression"
        else f"their correlation with the champion's predictions is {found.agreement:+.2f}"
    )
    sentence = f"{name}: its labels contradict all that was learnt: {told}."
    return Finding("contradiction", sentence, found.as_json() | {"p_value": p_value})


def unrelated(name: str, found: Progressive, usual: float, probe: float, deviations: float) -> Finding:
    """Labels that have nothing to do with the inputs: neither the champion nor the shard itself foretells them.

    Rows that follow another rule than before are not such, as a model that is learnt from them alone foretells them;
    where a shard is too small to prove that it agrees less than half as well as usual, it is let be.

    Parameters
    ----------
    usual : agreement of the champion on rows so far
    probe, deviations : of a model that learnt this shard alone, on its reserved rows, and in standard deviations
    """
    sentence = (
        f"{name}: its labels have nothing to do with its inputs: the champion agrees with them as chance would "
        f"({found.agreement:+.2f}, before {usual:+.2f}), and so does a model of this shard alone ({probe:+.2f})."
    )
    figures = found.as_json() | {"usual_agreement": usual, "own_agreement": probe, "own_deviations": deviations}
    return Finding("unrelated", sentence, figures)


def agreement_of(task: Task, sums: Doubles) -> tuple[float, float]:
    """Kappa or correlation, and it in standard deviations under independence.

    Parameters
    ----------
    sums : as in Pairs.agreement

    Source: of kappa, Fleiss, Cohen & Everitt, Psychological Bulletin 72, 1969, equation 14 (the standard error where
    the true kappa is 0); of a correlation, Fisher's transformation.
    """
    return _correlation(sums) if task == "regression" else _kappa(sums)


def _kappa(counts: Doubles) -> tuple[float, float]:
    n = float(counts.sum())
    if n == 0.0:
        return 0.0, 0.0
    rows, columns = counts.sum(axis=1) / n, counts.sum(axis=0) / n
    chance = float(rows @ columns)
    spread = chance + chance**2 - float((rows * columns) @ (rows + columns))
    if chance >= 1.0 or spread <= 1e-15:  # one class only, or always the same prediction
        return 0.0, 0.0
    found = (float(np.trace(counts)) / n - chance) / (1.0 - chance)
    return found, found * (1.0 - chance) * math.sqrt(n / spread)


def _correlation(sums: Doubles) -> tuple[float, float]:
    (x, xx, xt), (t, tt, n) = sums
    if n < 4:
        return 0.0, 0.0
    spread = (xx - x * x / n) * (tt - t * t / n)
    if spread <= 0.0:
        return 0.0, 0.0
    found = min(max((xt - x * t / n) / math.sqrt(spread), -1.0 + 1e-15), 1.0 - 1e-15)
    return float(found), math.atanh(found) * math.sqrt(n - 3.0)
