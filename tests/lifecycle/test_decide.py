from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from okl.data.dataset import ColumnStatistics, Schema
from okl.data.values import Mask
from okl.foundation.types import Criterion, Doubles, Task
from okl.lifecycle.decide import (
    ALL,
    BEFORE,
    NEWEST,
    PairedSums,
    PublishRule,
    apply_rule,
    constant_error,
    first_version,
    paired_test,
)
from okl.lifecycle.scoring import ProgressiveErrors, agreement_of, contradiction, error_by_chance
from okl.metrics.calibration import fit_calibration, log_losses
from okl.metrics.criterion import criterion_error
from okl.report.format import CRITERION_NAMES
from okl.runs.baselines import ConstantPredictor

NO_AGREEMENT = np.zeros((2, 2))
RANDOM = np.random.default_rng(8)
START = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """Reset the generator, so that each test draws the same numbers."""
    RANDOM.bit_generator.state = START


def of_classes(rows: int, champion: float, challenger: float) -> tuple[PairedSums, Mask, Mask]:
    first, second = RANDOM.random(rows) < champion, RANDOM.random(rows) < challenger
    return PairedSums(rows, first.sum(), second.sum(), (first ^ second).sum(), NO_AGREEMENT), first, second


def test_classes_are_compared_by_mcnemars_test() -> None:
    for champion, challenger in ((0.3, 0.25), (0.2, 0.3), (0.1, 0.1)):
        pairs, first, second = of_classes(500, champion, challenger)
        assert (pairs.only_first, pairs.only_second) == ((first & ~second).sum(), (second & ~first).sum())
        verdict = paired_test("binary", pairs)
        n_apart = pairs.only_first + pairs.only_second
        two_sided = stats.binomtest(pairs.only_first, n_apart).pvalue
        assert min(1.0, 2 * min(verdict.p_better, verdict.p_worse)) == pytest.approx(two_sided)
        assert verdict.gain == pytest.approx(first.mean() - second.mean())


def test_squared_errors_are_compared_by_the_paired_t_test() -> None:
    first, second = RANDOM.exponential(1.0, 300), RANDOM.exponential(0.9, 300)
    pairs = PairedSums(300, first.sum(), second.sum(), np.square(first - second).sum(), NO_AGREEMENT)
    verdict = paired_test("regression", pairs)
    for p_value, side in ((verdict.p_better, "greater"), (verdict.p_worse, "less")):
        assert p_value == pytest.approx(float(stats.ttest_rel(first, second, alternative=side).pvalue))


def scored_pairs(champion: float, challenger: float, rows: int = 4000) -> PairedSums:
    """Return paired sums of two predictors that never predict a class of 3%."""
    classes = (RANDOM.random(rows) < 0.03).astype(float)
    scores = [-5.0 + skill * classes + RANDOM.normal(size=rows) * 0.7 for skill in (champion, challenger)]
    wrong = float(classes.sum())
    block = np.column_stack([*scores, classes]).astype(np.float32)
    return PairedSums(rows, wrong, wrong, 0.0, NO_AGREEMENT, scored=(block[:1500], block[1500:]))


def of_log_losses(rows: int = 6000) -> tuple[PairedSums, Doubles, Doubles]:
    """Return log losses of two predictors of a class of 3%, the second better calibrated."""
    classes = (RANDOM.random(rows) < 0.03).astype(int)
    logits = -3.5 + 2.0 * classes + RANDOM.normal(size=rows)
    first, second = log_losses(logits - 3.0, classes), log_losses(logits, classes)
    counts = np.diag(np.bincount(classes, minlength=2)).astype(float)
    return PairedSums(rows, first.sum(), second.sum(), np.square(first - second).sum(), counts), first, second


@pytest.mark.parametrize("allowance", [0.0, 0.002])
def test_log_losses_are_compared_by_the_paired_t_test_beyond_the_allowance(allowance: float) -> None:
    pairs, first, second = of_log_losses()
    verdict = paired_test("binary", pairs, "log-loss", allowance)
    assert (verdict.champion, verdict.challenger) == pytest.approx((first.mean(), second.mean()))
    assert verdict.gain == pytest.approx(first.mean() - second.mean() - allowance)
    for p_value, side in ((verdict.p_better, "greater"), (verdict.p_worse, "less")):
        assert p_value == pytest.approx(float(stats.ttest_rel(first, second + allowance, alternative=side).pvalue))
    decision = apply_rule("binary", {ALL: pairs}, PublishRule(), criterion="log-loss", allowance=allowance)
    assert decision.publish
    assert decision.as_json()["criterion"] == "log-loss"
    enough = apply_rule(
        "binary", {ALL: pairs}, PublishRule(), criterion="log-loss", allowance=first.mean() - second.mean() + 1e-6
    )
    assert not enough.publish
    assert "not better than the champion by log loss" in enough.reason


def test_calibration_on_the_compared_rows_does_not_lead_to_a_publication() -> None:
    """The allowance prefers neither of two calibrations of the same scores: on these rows or on others."""
    rows, gains = 400, []
    for _ in range(300):
        classes = (RANDOM.random((2, rows)) < 0.3).astype(int)
        scores = classes + RANDOM.normal(size=(2, rows))
        own, other = (fit_calibration(scores[i], classes[i]).apply(scores[0]) for i in (0, 1))
        gains.append(float((log_losses(other, classes[0]) - log_losses(own, classes[0])).mean()))
    error = float(np.std(gains)) / np.sqrt(len(gains))
    assert np.mean(gains) > 5.0 * error
    assert abs(np.mean(gains) - 2.0 / rows) < 4.0 * error


@pytest.mark.parametrize("criterion", CRITERION_NAMES)
def test_the_error_of_a_constant_is_that_of_the_constant_predictor(criterion: Criterion) -> None:
    task: Task = "regression" if criterion == "squared-error" else "binary"
    schema = Schema(("x",), "y", "binary", ("no", "yes"), class_counts=(900, 100))
    if task == "regression":
        schema = Schema(("x",), "y", task, target_statistics=ColumnStatistics(1000, 2.0, 1.0, -2.0, 9.0))
    targets = RANDOM.normal(2.5, 1.0, 500) if task == "regression" else np.where(RANDOM.random(500) < 0.2, 1.0, -1.0)
    constant = ConstantPredictor(schema)
    scores = constant.scores(np.zeros((500, 1)))
    classes, deviations = (targets > 0).astype(int), targets - 2.0
    sums = np.array([[0.0, 0.0, 0.0], [deviations.sum(), deviations @ deviations, 500.0]])
    if task == "binary":
        sums = np.diag(np.bincount(classes, minlength=2)).astype(float)
    found = constant_error(schema, PairedSums(500, 0.0, 0.0, 0.0, sums), criterion)
    if criterion == "squared-error":
        expected = float(np.square(targets - scores).mean())
    elif criterion == "log-loss":
        logits = constant.logits(scores)
        assert logits is not None
        expected = float(log_losses(logits, classes).mean())
    else:
        expected = criterion_error(criterion, scores.astype(np.float64), classes)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("needed", ["better", "clearly better", "not worse"])
def test_a_model_that_is_worse_than_a_constant_is_never_published(needed: Any) -> None:
    schema = Schema(("x",), "y", "binary", ("no", "yes"), class_counts=(980, 20))
    counts = np.diag([980.0, 20.0])  # rows of each class
    better = PairedSums(1000, 200.0, 100.0, 100.0, counts)  # than the champion, and worse than 2% of mistakes
    pairs = {ALL: better, NEWEST: better, BEFORE: better}
    assert apply_rule("binary", pairs, PublishRule(needed)).publish
    kept = apply_rule("binary", pairs, PublishRule(needed), schema=schema)
    assert (kept.publish, first_version(kept).publish) == (False, False)
    assert "the challenger is worse than the majority class on 1,000 rows (10.00% wrong, the majority class 2.00%)" in (
        kept.reason
    )
    equal = PairedSums(1000, 200.0, 20.0, 180.0, counts)
    assert apply_rule("binary", {ALL: equal}, PublishRule(needed), schema=schema).publish


@pytest.mark.parametrize("criterion", ["auc", "average-precision"])
def test_models_of_a_rare_class_are_compared_despite_equal_mistakes(criterion: Criterion) -> None:
    pairs = scored_pairs(0.5, 2.0)
    better = apply_rule("binary", {ALL: pairs}, PublishRule(), criterion=criterion)
    assert better.publish
    assert not apply_rule("binary", {ALL: pairs}, PublishRule()).publish  # by mistakes nothing is better
    worse = replace(pairs, scored=tuple(block[:, [1, 0, 2]] for block in pairs.scored))
    assert not apply_rule("binary", {ALL: worse}, PublishRule("not worse"), criterion=criterion).publish
    table = np.concatenate(pairs.scored)
    verdict = paired_test("binary", pairs, criterion)
    assert verdict.challenger == pytest.approx(
        criterion_error(criterion, table[:, 1].astype(float), (table[:, 2] > 0).astype(int))
    )
    assert CRITERION_NAMES[criterion] in better.reason
    merged = paired_test("binary", pairs.plus(scored_pairs(0.5, 2.0)), criterion)
    assert merged.rows == 8000
    assert merged.p_better <= verdict.p_better


def test_a_first_version_need_not_be_better_than_a_constant() -> None:
    kept = apply_rule(
        "binary", {ALL: PairedSums(100, 20.0, 20.0, 0.0, NO_AGREEMENT)}, PublishRule(), "the majority class"
    )
    first = first_version(kept)
    assert (kept.publish, first.publish) == (False, True)
    assert first.reason.startswith("Published: the first champion of this model; the challenger is not better than")


def test_equal_predictors_are_not_better_and_not_worse() -> None:
    same = PairedSums(100, 20.0, 20.0, 0.0, NO_AGREEMENT)
    assert not apply_rule("binary", {ALL: same}, PublishRule()).publish
    assert apply_rule("binary", {ALL: same}, PublishRule("not worse")).publish
    assert not apply_rule("regression", {ALL: same}, PublishRule()).publish
    assert apply_rule("binary", {}, PublishRule()).kind == "keep"


def test_better_requires_a_margin_and_significance() -> None:
    clear = PairedSums(1000, 200.0, 150.0, 90.0, NO_AGREEMENT)
    assert apply_rule("binary", {ALL: clear}, PublishRule()).publish
    assert apply_rule("binary", {ALL: clear}, PublishRule(margin=0.04)).publish
    kept = apply_rule("binary", {ALL: clear}, PublishRule(margin=0.06))
    assert kept.reason == (
        "Kept: the challenger is not better than the champion by the margin of 0.06. On 1,000 reserved rows: 15.00% "
        "wrong, the champion 20.00%."
    )
    by_chance = apply_rule("binary", {ALL: PairedSums(1000, 200.0, 195.0, 105.0, NO_AGREEMENT)}, PublishRule())
    assert "not significantly better than the champion (p = 0.35, significant up to 0.05)" in by_chance.reason
    worse = {ALL: PairedSums(1000, 150.0, 200.0, 90.0, NO_AGREEMENT)}
    assert not apply_rule("binary", worse, PublishRule("not worse")).publish
    assert apply_rule("binary", worse, PublishRule("not worse", margin=0.06, slice_margin=0.1)).publish


def test_a_worse_slice_keeps_the_champion_unless_it_is_small_or_not_significant() -> None:
    better = PairedSums(1000, 200.0, 150.0, 90.0, NO_AGREEMENT)
    bad, tiny = PairedSums(100, 10.0, 40.0, 34.0, NO_AGREEMENT), PairedSums(20, 0.0, 18.0, 18.0, NO_AGREEMENT)
    chance = PairedSums(100, 10.0, 14.0, 20.0, NO_AGREEMENT)
    kept = apply_rule("binary", {ALL: better, "hour = 3": bad, "hour = 4": better}, PublishRule())
    assert (kept.kind, kept.worse_slices) == ("keep", ("hour = 3",))
    assert "worse on 1 of 2 slices (hour = 3: 40.00% wrong, the champion 10.00%)" in kept.reason
    yesterday = {ALL: better, "shard day-1": bad}
    assert apply_rule("binary", yesterday, PublishRule()).publish
    assert apply_rule("binary", yesterday, PublishRule(shards=True)).worse_slices == ("shard day-1",)
    assert apply_rule("binary", {ALL: better, "hour = 4": tiny, "hour = 5": chance}, PublishRule()).publish


def test_labels_without_a_reserved_row_are_named() -> None:
    decision = apply_rule(
        "binary", {ALL: PairedSums(100, 20.0, 5.0, 15.0, NO_AGREEMENT)}, PublishRule(), missing=("'yes'",)
    )
    assert decision.publish
    assert decision.reason.endswith("No reserved row has the label 'yes'.")


def test_random_agreement_is_accepted_and_contradiction_is_found() -> None:
    deviations = []
    for _ in range(400):
        true, predicted = RANDOM.random(200) < 0.3, RANDOM.random(200) < 0.6
        counts = np.array([[(~true & ~predicted).sum(), (~true & predicted).sum()],
                           [(true & ~predicted).sum(), (true & predicted).sum()]], dtype=float)  # fmt: skip
        deviations.append(agreement_of("binary", counts)[1])
    assert np.std(deviations) == pytest.approx(1.0, abs=0.15)
    assert np.mean(deviations) == pytest.approx(0.0, abs=0.15)
    kappa, strong = agreement_of("multiclass", np.diag([50.0, 30.0, 20.0]))
    assert kappa == pytest.approx(1.0)
    assert strong > 10
    against = agreement_of("binary", np.array([[10.0, 50.0], [45.0, 15.0]]))
    found = contradiction("day", "binary", ProgressiveErrors(120, 0.79, 0.5, *against), 1e-6)
    assert found is not None
    assert "contradict the champion" in found.sentence
    assert contradiction("day", "binary", ProgressiveErrors(120, 0.5, 0.5, 0.0, 0.0), 1e-6) is None
    assert agreement_of("binary", np.array([[0.0, 0.0], [7.0, 3.0]])) == (0.0, 0.0)  # one class only


def test_a_constant_prediction_has_the_error_of_predictions_by_chance() -> None:
    always = np.array([[270.0, 0.0], [130.0, 0.0]])
    assert agreement_of("binary", always) == (0.0, 0.0)
    true = RANDOM.random((2000, 400)) < 0.325
    tables = [np.bincount(2 * one + RANDOM.permutation(one), minlength=4).reshape(2, 2) for one in true.astype(int)]
    values = [agreement_of("binary", table.astype(np.float64))[0] for table in tables]
    assert error_by_chance("binary", always) == pytest.approx(np.std(values), rel=0.1)
    assert error_by_chance("binary", np.array([[0.0, 0.0], [7.0, 3.0]])) == np.inf
    sums = np.array([[0.0, 0.0, 0.0], [0.0, 50.0, 103.0]])
    assert error_by_chance("regression", sums) == pytest.approx(0.1)


def test_agreement_of_a_regression_is_the_correlation() -> None:
    x = RANDOM.normal(size=400)
    t = 0.5 * x + RANDOM.normal(size=400) + 3.0
    sums = np.array([[x.sum(), (x * x).sum(), (x * t).sum()], [t.sum(), (t * t).sum(), 400.0]])
    found, deviations = agreement_of("regression", sums)
    assert found == pytest.approx(np.corrcoef(x, t)[0, 1])
    assert deviations == pytest.approx(np.arctanh(found) * np.sqrt(397))
    mirrored = agreement_of("regression", sums * [[-1, 1, -1], [1, 1, 1]])
    finding = contradiction("day", "regression", ProgressiveErrors(400, 9.0, 2.0, *mirrored), 1e-6)
    assert finding is not None
    assert "correlation" in finding.sentence


def aged(newest: PairedSums, before: PairedSums) -> dict[str, PairedSums]:
    return {ALL: newest.plus(before), NEWEST: newest, BEFORE: before}


def test_improvements_are_tested_on_the_newest_rows_and_then_on_earlier_ones() -> None:
    clear, slight = PairedSums(300, 60.0, 30.0, 50.0, NO_AGREEMENT), PairedSums(300, 60.0, 57.0, 41.0, NO_AGREEMENT)
    worse, similar = (
        PairedSums(900, 150.0, 220.0, 90.0, NO_AGREEMENT),
        PairedSums(900, 150.0, 152.0, 90.0, NO_AGREEMENT),
    )
    assert apply_rule("binary", aged(clear, worse), PublishRule()).publish  # a change is followed
    followed = apply_rule("binary", aged(slight, similar), PublishRule())
    assert followed.publish
    assert (
        "on the newest rows, by a difference within chance (p = 0.38, significant up to 0.05), and not"
        in followed.reason
    )
    noise = apply_rule("binary", aged(slight, worse), PublishRule())
    assert not noise.publish
    assert (
        "not significantly better than the champion on the newest rows (p = 0.38, significant up to 0.05), and it is "
        "worse on the earlier rows (p = " in noise.reason
    )
    drifted = apply_rule("binary", aged(slight, worse), PublishRule(), past_counts=False)
    assert drifted.publish
    assert (
        "by a difference within chance (p = 0.38, significant up to 0.05), and the earlier rows are older than"
        in drifted.reason
    )
    assert not apply_rule("binary", aged(similar, worse), PublishRule(), past_counts=False).publish
    assert not apply_rule("binary", aged(similar, clear), PublishRule()).publish  # better before only
    assert not apply_rule("binary", aged(slight, similar), PublishRule("clearly better")).publish
    assert not apply_rule(
        "binary", {ALL: slight}, PublishRule()
    ).publish  # without previous rows, only significant differences
    regression = apply_rule("regression", aged(slight, worse), PublishRule(margin=0.5))
    assert "by the margin of 0.5 on the newest rows" in regression.reason


def test_repeated_tests_on_the_same_rows_reduce_the_level() -> None:
    clear, worse = PairedSums(300, 60.0, 40.0, 100.0, NO_AGREEMENT), PairedSums(900, 150.0, 220.0, 90.0, NO_AGREEMENT)
    chance = paired_test("binary", clear).p_better
    assert 0.05 / 6 < chance < 0.05
    assert apply_rule("binary", aged(clear, worse), PublishRule(), looks=0).publish
    again = apply_rule("binary", aged(clear, worse), PublishRule(), looks=1)
    assert not again.publish
    assert "significant up to 0.0083 after 1 rejected challenger)" in again.reason
