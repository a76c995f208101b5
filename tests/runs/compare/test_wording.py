from __future__ import annotations

from typing import Any

import pytest

from okl.report.comparison import chosen_sentence, parameter_text, winner_sentence

BEST = {"model": "dwd", "mean": 0.9, "spread": 0.01, "p_value": None}
WORSE = {"model": "c-svm", "mean": 0.7, "spread": 0.01, "p_value": 0.01}
EQUAL = {"model": "logistic", "mean": 0.89, "spread": 0.01, "p_value": 0.4}
FAILED = {"model": "mm-mpm", "mean": None, "spread": None, "p_value": None}


@pytest.mark.parametrize(
    ("others", "ending"),
    [
        ([], "for the majority class."),
        ([FAILED], "for the majority class."),
        ([WORSE], ", and significantly better than every other model (p <= 0.05)."),
        ([WORSE, FAILED], ", and significantly better than every other model that did not fail (p <= 0.05)."),
        ([EQUAL, WORSE, FAILED], "; not significantly better (p > 0.05) than logistic."),
    ],
)
def test_the_best_is_compared_only_with_judged_models(others: list[dict[str, Any]], ending: str) -> None:
    sentence = winner_sentence({"models": [BEST, *others], "constant": 0.6})
    assert sentence.startswith("The best model is dwd with an accuracy of 90.00 ± 1.00 %, against 60.00 %")
    assert sentence.endswith(ending)


def test_a_tie_in_accuracy_does_not_hide_another_log_loss() -> None:
    best, same = BEST | {"log_loss": 0.31, "log_loss_p_value": 1.0}, EQUAL | {"log_loss": 0.32, "log_loss_p_value": 0.2}
    better = EQUAL | {"model": "ridge", "log_loss": 0.25, "log_loss_p_value": 0.01}
    sentence = winner_sentence({"models": [best, better, same], "constant": 0.6})
    assert sentence.endswith(
        "than ridge, logistic. Their log losses differ significantly from its 0.3100: ridge has 0.2500."
    )
    assert "log loss" not in winner_sentence({"models": [best, same], "constant": 0.6})


def test_choices_of_solvers_without_a_grid_are_reported() -> None:
    few = {"model": "ridge", "kind": "ridge", "chosen": ["penalty 0.001"] * 2}
    assert parameter_text(few) == "penalty 0.001"
    assert chosen_sentence(few) == ""
    differing = few | {"model": "auto", "chosen": ["linear", "gaussian kernel, 2.83 of the median distance", "linear"]}
    assert parameter_text(differing) == "see below"
    assert chosen_sentence(differing) == (
        "Chosen by auto: linear (2 of 3 folds); gaussian kernel, 2.83 of the median distance (1 of 3 folds)."
    )
    assert parameter_text({"model": "fogd", "kind": "online"}) == "-"  # of versions without
