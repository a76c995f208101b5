"""Scores of the champion on new shards before training on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.features.predictors import Predictor
from okl.foundation.errors import DivergedError
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Doubles, Split, Task
from okl.lifecycle.champion import Champion, ModelHistory, is_online, learn_shards, same_location, solve_window
from okl.lifecycle.choice import choose_for, unprepared
from okl.lifecycle.decide import ALL, paired_sums
from okl.lifecycle.error_drift import ShardScores, compared, drift_of
from okl.lifecycle.lineage_checks import without_constraints
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import Finding, ShardRecord, ShardStore, is_late
from okl.lifecycle.versions import with_options
from okl.metrics.criterion import RARE
from okl.runs.baselines import ConstantPredictor

# Progressive errors of the champion on new rows.

LEAST_AGAINST = 0.05  # of the agreement below chance that counts


@dataclass(frozen=True)
class ProgressiveErrors:
    """Errors of a predictor on rows that it was not trained on.

    error, constant : mistake rate or mean squared error, of it and of the majority class or mean so far
    wrong : rows of another class, or whose squared error is above a limit
    of_rare, rare_missed : rows of a rare class, and of these the rows with a probability below its share
    agreement : kappa of predicted and true class, or the correlation of prediction and target: 0 as by chance
    deviations : the agreement in standard deviations of what chance makes
    """

    rows: int
    error: float
    constant: float
    agreement: float
    deviations: float
    wrong: int = 0
    of_rare: int = 0
    rare_missed: int = 0


def progressive(
    data: Dataset,
    schema: Schema,
    predictor: Predictor,
    execution: Execution,
    limit: float = 0.5,
    split: Split = "train",
) -> ProgressiveErrors:
    """Score rows of a shard with a predictor that was not trained on them: training rows, or the reserved ones.

    schema : schema with the counts of classes so far, for the constant
    limit : of regression, the squared error above which a row counts as missed, in squared units of the target
    split : whose rows are scored
    """
    constant = ConstantPredictor(schema)
    above = limit if data.schema.task == "regression" else 0.5
    parts = (data, data.split(split), predictor, constant, predictor.precision, execution, above, rare_class(schema))
    pairs = paired_sums(*parts)[ALL]
    n = max(1, pairs.rows)
    agreement, deviations = agreement_of(data.schema.task, pairs.agreement)
    counts = pairs.beyond, pairs.of_rare, pairs.rare_missed
    return ProgressiveErrors(pairs.rows, pairs.first / n, pairs.second / n, agreement, deviations, *counts)


def rare_class(schema: Schema) -> tuple[int, float] | None:
    """Return the index and the share of the rarest class, if it has less than a fifth of the rows; otherwise None."""
    counts = schema.class_counts
    if schema.task == "regression" or not counts or not 0 < min(counts) < RARE * sum(counts):
        return None
    return counts.index(min(counts)), min(counts) / sum(counts)


def scores_of(version: int, errors: ProgressiveErrors) -> ShardScores:
    """Return the errors of a version as its shard keeps them, not compared yet."""
    scores = ShardScores(version, errors.rows, errors.wrong, errors.error, errors.constant)
    return replace(scores, of_rare=errors.of_rare, rare_missed=errors.rare_missed)


def contradiction(name: str, kind: Task, errors: ProgressiveErrors, level: float) -> Finding | None:
    """Return the finding of labels that the champion gets right less often than by chance, unlike under drift."""
    p_value = float(stats.norm.cdf(errors.deviations))
    if not (errors.agreement < -LEAST_AGAINST and p_value < level):
        return None
    message = (
        f"the champion's predictions agree with them less than random ones ({errors.agreement:+.2f}; random: 0)"
        if kind != "regression"
        else f"their correlation with the champion's predictions is {errors.agreement:+.2f}"
    )
    sentence = f"{name}: the labels contradict the champion: {message}."
    return Finding("contradiction", sentence, asdict(errors) | {"p_value": p_value})


def unrelated(name: str, errors: ProgressiveErrors, usual: float, probe: float, error: float) -> Finding:
    """Return the finding of labels that neither the champion nor a model of the shard predicts from the inputs.

    Rows that follow a new rule are not unrelated, because a model trained on them alone predicts them;
    where a shard is too small to prove that it agrees less than half as well as usual, it is let be.

    usual : agreement of the champion on rows so far
    probe, error : agreement of a model trained on this shard alone on its reserved rows, and its standard error
    """
    sentence = (
        f"{name}: the labels are unrelated to the inputs: the champion's agreement is that of random predictions "
        f"({errors.agreement:+.2f}, before {usual:+.2f}), and so is that of a model of this shard alone ({probe:+.2f})."
    )
    figures = asdict(errors) | {"usual_agreement": usual, "own_agreement": probe, "own_standard_error": error}
    return Finding("unrelated", sentence, figures)


def agreement_of(task: Task, sums: Doubles) -> tuple[float, float]:
    """Return kappa or correlation, also in standard deviations under independence; sums : as in PairedSums.agreement.

    Source: Fleiss, Cohen & Everitt, Psychological Bulletin 72, 1969, equation 14 (the standard error where the true
    kappa is 0); of a correlation, Fisher's transformation.
    """
    if task == "regression":
        return _correlation(sums)
    n = float(sums.sum())
    if n == 0.0:
        return 0.0, 0.0
    rows, columns = sums.sum(axis=1) / n, sums.sum(axis=0) / n
    chance = float(rows @ columns)
    spread = chance + chance**2 - float((rows * columns) @ (rows + columns))
    if chance >= 1.0 or spread <= 1e-15:  # one class only, or always the same prediction
        return 0.0, 0.0
    kappa = (float(np.trace(sums)) / n - chance) / (1.0 - chance)
    return kappa, kappa * (1.0 - chance) * math.sqrt(n / spread)


def error_by_chance(task: Task, sums: Doubles) -> float:
    """Return the standard error of the agreement of random predictions, of classes with their shares.

    It stands for that of a model that always predicts the same, whose agreement is 0. Infinite for rows of one class.
    """
    if task == "regression":
        rows = float(sums[1, 2])
        return 1.0 / math.sqrt(rows - 3.0) if rows > 3.0 else math.inf
    counts = sums.sum(axis=1)
    if np.count_nonzero(counts) < 2:
        return math.inf
    value, deviations = agreement_of(task, np.diag(counts))  # 1, in units of that error
    return value / deviations


def _correlation(sums: Doubles) -> tuple[float, float]:
    (x, xx, xt), (t, tt, n) = sums
    if n < 4:
        return 0.0, 0.0
    spread = (xx - x * x / n) * (tt - t * t / n)
    if spread <= 0.0:
        return 0.0, 0.0
    correlation = min(max((xt - x * t / n) / math.sqrt(spread), -1.0 + 1e-15), 1.0 - 1e-15)
    return float(correlation), math.atanh(correlation) * math.sqrt(n - 3.0)


# Scoring of new shards: contradictions, noise and drift.

CLEAR, BY_CHANCE, SURE = 10.0, 3.0, 2.0  # standard deviations
LATEST = 3  # shards that the champion's usual agreement is measured on


@dataclass(eq=False)
class Scoring:
    """The champion's errors on new shards.

    settings, given : with and without the solver that was filled in
    champion, history : the current ones; rows : one for each shard, for the report
    observer : sees the choice of a model for a shard that may be noise
    scored : by name, for the drift test; accepted, rejected : updated records
    """

    settings: RetrainSettings
    given: RetrainSettings
    store: ShardStore
    champion: Champion
    history: ModelHistory
    execution: Execution
    observer: Observer = field(default_factory=NullObserver)
    rows: list[dict[str, Any]] = field(default_factory=list)
    scored: dict[str, ShardScores] = field(default_factory=dict)
    accepted: list[ShardRecord] = field(default_factory=list)
    rejected: list[ShardRecord] = field(default_factory=list)

    def score(self, pending: Sequence[ShardRecord]) -> None:
        """Score shards in training order; quarantine those whose labels contradict the champion or are noise."""
        trained = [self._with_scores(record) for record in self.history.trained()]
        past = [
            record.scored
            for record in trained
            if record.scored is not None and record.scored.version in self.champion.ancestry
        ]
        for record in pending:
            data, schema = self.store.dataset(record), self.champion.model.schema
            errors = progressive(data, schema, self.champion.model.predictor, self.execution, self.champion.limit)
            against = self._against(record, errors)
            self.rows.append({"shard": record.name, **asdict(errors), "contradicts": against is not None})
            if against is not None and not record.released and self.settings.contradiction:
                self.rejected.append(self.store.quarantine_accepted(record, against))
                continue
            number = self.champion.version.number
            now = scores_of(number, errors)
            if is_late(record.last_time, self.history.watermark):  # older rows show no drift, and measure none
                self.scored[record.name] = now
                self.accepted.append(record)
                continue
            if record.scored is None or record.scored.version not in self.champion.ancestry:
                record = self.store.put(replace(record, scored=compared(past, now)))  # again, it is not tested twice
            assert record.scored is not None, "the shard has scores"
            past.append(record.scored)
            self.scored[record.name] = record.scored
            self.accepted.append(record)

    def _with_scores(self, record: ShardRecord) -> ShardRecord:
        """Return a shard of the first run, which no champion scored, with the errors on its reserved rows."""
        if record.scored is not None or not record.test_rows:
            return record
        champion = self.champion
        parts = (self.store.dataset(record), champion.model.schema, champion.model.predictor, self.execution)
        errors = progressive(*parts, champion.limit, "test")
        scores = scores_of(champion.version.number, errors)
        return self.store.put(replace(record, scored=replace(scores, reserved=True)))

    def drift(self) -> dict[str, Any]:
        """Return whether rows have changed: the finding, its reason and figures; see okl.lifecycle.error_drift."""
        regression = self.champion.model.schema.task == "regression"
        rare = rare_class(schema := self.champion.model.schema)
        label = "" if rare is None else str(schema.labels[rare[0]])
        return drift_of(self.scored, math.sqrt(self.champion.limit) if regression else None, label)

    def _against(self, record: ShardRecord, errors: ProgressiveErrors) -> Finding | None:
        task, level = self.champion.model.schema.task, self.settings.contract.level
        against = contradiction(record.name, task, errors, level)
        if against is not None or errors.deviations >= BY_CHANCE or not self.settings.contradiction:
            return against
        trained = [record for record in self.history.trained() if record.test_rows]
        rows, usual, _ = self._agreement(trained[-LATEST:], self.champion.model.predictor, self.store)
        if not rows or usual[1] * math.sqrt(errors.rows / rows) < CLEAR:
            return None  # chance may explain it
        probe = self._probe(record, self.settings, self.store)
        if probe is None or not _is_noise(*probe, usual[0]):
            return None
        if self.given.train.solver == "auto":  # a choice for other rows may not see a relation of another form
            options, schema, _ = choose_for(self.given, unprepared(self.given, self.store, [record]), self.observer)
            other = self._probe(record, with_options(self.given, options), self.store.as_read_by(schema))
            if other is None or not _is_noise(*other, usual[0]):
                return None
        return unrelated(record.name, errors, usual[0], *probe)

    def _probe(self, record: ShardRecord, settings: RetrainSettings, store: ShardStore) -> tuple[float, float] | None:
        """Return the agreement of a model of this shard alone with its reserved rows, and its standard error.

        None without such a model, or if it diverges.
        """
        data = store.dataset(record)
        if data.schema.task != "regression" and not all(data.schema.class_counts):
            return None
        train = without_constraints(same_location(settings.train, str(store.location)))
        parts = (self.execution, NullObserver())
        try:
            if is_online(train, data):
                predictor = learn_shards(train, store, None, [record], *parts).predictor
            else:
                predictor = solve_window(train, store, [record], [record], *parts).predictor
        except DivergedError:
            return None
        rows, (value, deviations), chance = self._agreement([record], predictor, store)
        return (value, value / deviations if deviations else chance) if rows else None

    def _agreement(
        self, records: Sequence[ShardRecord], predictor: Predictor, store: ShardStore
    ) -> tuple[int, tuple[float, float], float]:
        """Return the reserved rows of shards, the agreement of a predictor with them, and its error by chance.

        See `agreement_of` and `error_by_chance`.
        """
        if not records or not any(record.test_rows for record in records):
            return 0, (0.0, 0.0), math.inf
        data = store.union(list(records))
        pairs = paired_sums(data, data.split("test"), predictor, predictor, predictor.precision, self.execution)[ALL]
        parts = data.schema.task, pairs.agreement
        return pairs.rows, agreement_of(*parts), error_by_chance(*parts)


def _is_noise(agreement: float, error: float, usual: float) -> bool:
    """Return whether an agreement, with its standard error, may be chance and is below half the usual one."""
    return agreement < BY_CHANCE * error and agreement + SURE * error < 0.5 * usual
