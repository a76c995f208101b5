"""Laws of the report on reliability, mistakes and certificates: every sentence agrees with the figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.metrics.definitions import measure, merge
from okl.report.blocks import Figure, Paragraph, Table
from okl.report.figures import wilson
from okl.report.format import number
from okl.report.quality import (
    calibration_error,
    mistake_tables,
    mistakes_section,
    reliability_blocks,
)
from okl.report.results import RunResult
from okl.report.training import markdown_report, text_summary
from okl.report.trust import trust_section
from tests.report.results import made_result, without_pictures

BINARY = made_result("binary", ("no", "yes"))
CLASSES = made_result("multiclass", ("a", "b", "c"))


def reliability_of(result: dict[str, Any]) -> list[Any]:
    """Return the blocks on test rows, or on training rows if there are no test rows."""
    rows_name = "test rows" if result.get("test") else "training rows (seen in training)"
    labels = result.get("dataset", {}).get("labels", ())
    measured = result.get("test") or result["train"]
    return reliability_blocks(measured, labels, result.get("settings", {}), rows_name)


def paragraph_text(blocks: list[Any]) -> str:
    return " ".join(block.text for block in blocks if isinstance(block, Paragraph))


def test_report_shows_the_calibration_error_of_logistic_scores() -> None:
    paragraph, picture = reliability_of(BINARY | {"settings": {"loss": "logistic"}})
    assert isinstance(paragraph, Paragraph)
    assert isinstance(picture, Figure)
    bins = BINARY["test"]["reliability"]["bins"]
    error = calibration_error(bins)
    errors = [each["rows"] * abs(each["hits"] / each["rows"] - each["probability"]) for each in bins]
    assert error == pytest.approx(sum(errors) / 1000)
    assert f"The calibration error on test rows is {100 * error:.2g}%." in paragraph.text
    assert "probability of yes" in paragraph.text
    assert picture.title == "Reliability of probabilities, test rows"
    scores = reliability_of(BINARY)[1]
    assert isinstance(scores, Figure)
    assert picture.draw() == picture.draw() != scores.draw()


def test_report_states_that_scores_of_other_losses_are_not_probabilities() -> None:
    for result, what in ((BINARY, "scores"), (CLASSES, "margins")):
        blocks = reliability_of(result)
        assert "are not probabilities" in paragraph_text(blocks)
        assert [block.title for block in blocks if isinstance(block, Figure)] == [f"Reliability of {what}, test rows"]
    trained = reliability_of(BINARY | {"test": None})
    assert "training rows (seen in training)" in paragraph_text(trained)
    assert "no reliability curve" in paragraph_text(reliability_of({"test": {"confusion": [[1, 0], [0, 1]]}}))
    assert reliability_of(made_result("regression")) == []


@pytest.mark.parametrize("result", [BINARY, CLASSES])
def test_report_and_summary_describe_how_probabilities_were_calibrated(result: dict[str, Any]) -> None:
    calibration = {
        "on": "900 test rows",
        "slope": 2.0,
        "offsets": [0.5],
        **({"threshold": 0.25} if result is BINARY else {}),
    }
    calibrated = result | {"calibration": calibration}
    for text in (text_summary(calibrated), markdown_report(calibrated)):
        assert "calibrated on 900 test rows, whose log loss is therefore too low by about 0.0022" in text
        assert ("'yes' is predicted from 0.2500 on" in text) == (result is BINARY)
    weighted = calibrated | {"settings": calibrated["settings"] | {"class_weights": "balanced"}}
    for text in (text_summary(weighted), markdown_report(weighted)):
        note = "; the predicted class need not be the most probable one, because of the class weights"
        assert (note in text) == (result is CLASSES)
    uncalibrated = result | {"calibration": {"none": "Hold some out (--holdout 0.2)."}}
    assert "Probabilities: none. Hold some out (--holdout 0.2)." in markdown_report(uncalibrated).replace("\\", "")


def test_intervals_of_shares_contain_them_and_stay_between_0_and_1() -> None:
    hits, rows = np.array([0.0, 5.0, 50.0, 100.0]), np.array([10.0, 10.0, 100.0, 100.0])
    low, high = wilson(hits, rows)
    assert (low <= hits / rows + 1e-12).all()
    assert (hits / rows <= high + 1e-12).all()
    assert (low > -1e-12).all()
    assert (high < 1.0 + 1e-12).all()
    assert high[2] - low[2] < high[1] - low[1]
    # at two standard errors, (p - share)^2 = 4 p (1 - p) / rows at either end
    for end in (low, high):
        np.testing.assert_allclose((end - hits / rows) ** 2, 4.0 * end * (1.0 - end) / rows, atol=1e-12)


def trust_text(result: dict[str, Any]) -> str:
    return paragraph_text(list(trust_section(RunResult(without_pictures(result))).blocks))


def test_report_shows_standard_error_and_training_error() -> None:
    error, learnt = (BINARY[split]["mistake_rate"] for split in ("test", "train"))
    text = trust_text(BINARY)
    assert f"is accurate to ± {200 * (error * (1 - error) / 1000) ** 0.5:.2g}% (two standard errors)" in text
    assert f"Training rows: {100 * learnt:.2f}% mistakes. Test rows, not used for training: {100 * error:.2f}%" in text
    assert "Each row was predicted before the model was trained on it" in trust_text(BINARY | {"test": None})
    assert "so it will be larger on new rows" in trust_text(BINARY | {"test": None, "progressive": None})


def test_report_shows_objective_and_lower_bound_of_a_certified_gap() -> None:
    proof = {"kind": "duality gap", "objective": 491.25, "dual_objective": 490.5, "gap": 0.75, "relative_gap": 0.0015}
    text = trust_text(BINARY | {"certificate": proof})
    assert "491.2" in text
    assert "at least 490.5: the gap is at most 0.7500, or 0.15%" in text


def test_the_worst_pairs_and_classes_come_first() -> None:
    pairs, classes = mistake_tables({"confusion": [[90, 8, 2], [30, 70, 0], [0, 1, 0]]}, ["a", "b", "c"], "", "rows")
    assert isinstance(pairs, Table)
    assert isinstance(classes, Table)
    assert pairs.rows[:3] == [["b", "a", "30", "30%"], ["a", "b", "8", "8%"], ["a", "c", "2", "2%"]]
    assert pairs.note == "These are 100% of all mistakes."
    assert classes.rows == [["c (rarest)", "1", "0%", "0%"], ["b", "100", "70%", "88.6%"], ["a", "100", "90%", "75%"]]


@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_quantiles_of_absolute_errors_are_right_for_heavy_tails(spread: float) -> None:
    rng = np.random.default_rng(0)
    targets = np.exp(rng.normal(0.0, spread, 20_000)) * rng.choice([-1.0, 1.0], 20_000)
    tally = measure("regression", np.zeros(20_000), targets)
    measured = tally.report()
    for share, bound in measured["residual_histogram"]["absolute_quantiles"]:
        exact = np.quantile(np.abs(targets), share, method="inverted_cdf")
        assert exact <= bound * (1.0 + 1e-6) < exact * 1.02  # values are rounded to float32
    (_, half), (_, most) = measured["residual_histogram"]["absolute_quantiles"]
    text = f"The absolute error is at most {number(half)} on 50% of the reserved rows, at most {number(most)} on 90%"
    assert text in paragraph_text(mistake_tables(measured, (), "y", "reserved rows"))
    parts = [measure("regression", np.zeros(len(part)), part) for part in np.array_split(targets, 7)]
    for merged in (merge(parts[::-1]), merge([merge(parts[:2]), merge(parts[2:])])):
        assert merged.report()["residual_histogram"] == measured["residual_histogram"]


def test_reports_on_results_without_quantiles_of_absolute_errors_show_none() -> None:
    result = made_result("regression")
    assert "The absolute error is at most" in paragraph_text(list(mistakes_section(RunResult(result)).blocks))
    del result["test"]["residual_histogram"]["absolute_quantiles"]
    blocks = list(mistakes_section(RunResult(result)).blocks)
    assert "The absolute error" not in paragraph_text(blocks)
    assert "Residuals, test rows" in [block.title for block in blocks if isinstance(block, Figure)]
    assert mistake_tables({}, (), "y", "rows") == []


@pytest.mark.parametrize("frozen", [True, False])
def test_a_run_without_drift_says_whose_error_did_not_rise(frozen: bool) -> None:
    drift = {"signals": [], "level": 0.001, "windows": 89, "of_kept_models": frozen}
    result = BINARY | {"drift": drift, "windows": {"rows": 1792, "points": []}}
    page, summary = markdown_report(result), text_summary(result)
    whose = "frozen models" if frozen else "the learner"
    assert f"did the error of {whose}" in page
    assert f"did the error of {whose}" in summary
    assert ("not test the saved model" in page) == ("not test the saved model" in summary) == (not frozen)
