"""The terminal's summary of a run, its warnings, the planned memory and the candidates of the automatic choice."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.metrics.definitions import measure
from okl.report.blocks import Table
from okl.report.format import chosen_facts, number
from okl.report.quality import threshold_rows
from okl.report.results import Assessment, RunResult, assess
from okl.report.sentences import summary_sentences, warning_sentences
from okl.report.training import facts_section, html_report, markdown_report, text_evaluation, text_summary
from okl.runs.results import is_mode_of_workers
from okl.solvers.settings import TrainSettings
from tests.report.results import made_result, without_pictures

RESULTS: dict[str, dict[str, Any]] = {
    "binary": made_result("binary", ("no", "yes")),
    "multiclass": made_result("multiclass", ("a", "b", "c", "d")),
    "regression": made_result("regression"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_text_summary_is_a_headline_a_small_table_and_a_few_lines(name: str) -> None:
    result = RESULTS[name]
    text = text_summary(result)
    headline, empty, *rest = [line for line in text.splitlines() if not line.startswith("Warning")]
    blocks = "\n".join(rest).split("\n\n")
    assert (empty, len(blocks)) == ("", 3 if name == "multiclass" else 2)
    assert "on 1,000 test rows; always" in headline
    table, facts = blocks[0].splitlines()[1:], blocks[-1].splitlines()
    assert 3 <= len(table) <= 5
    assert len({len(line) for line in rest[: len(table) + 1]}) == 1
    assert [fact.split("  ")[0] for fact in facts] == ["Trained on", "Report", "To predict"]
    main = result["test"].get("rmse", result["test"].get("accuracy"))
    assert number(main) in text
    verbose = text_summary(result, verbose=True)
    assert len(verbose.splitlines()) > len(text.splitlines()) + 5
    assert number(result["test"].get("mistake_rate", result["test"].get("rmse"))) in verbose


def test_the_headline_compares_the_model_with_its_baselines() -> None:
    def headline(accuracy: float, majority: float, linear: float) -> str:
        rates = {"test": {"mistake_rate": 1.0 - accuracy}}
        baselines = {
            "majority": {"test": {"mistake_rate": 1.0 - majority}},
            "linear": {
                "test": {"mistake_rate": 1.0 - linear, "excess": {"mean": accuracy - linear, "standard_error": 0.002}}
            },
        }
        data = {"test_rows": 2000, "labels": ["no", "yes"], "class_counts": [9780, 220]}
        return text_summary(rates | {"baselines": baselines, "dataset": data}).splitlines()[0]

    assert headline(0.978, 0.978, 0.9) == (
        '97.8% right on 2,000 test rows; always "no" is 97.8% right: no better; a linear model is 90.0% right.'
    )
    assert '"no" is 97.8% right: no better; ' in headline(0.975, 0.978, 0.9)
    assert '"no" is 97.8% right: worse; ' in headline(0.96, 0.978, 0.9)
    assert headline(0.96, 0.9, 0.963).endswith("a linear model is 96.3% right: a tie (difference 0.3 ± 0.4 points).")
    assert headline(0.96, 0.9, 0.97).endswith("a linear model is 97.0% right, which is better.")
    area = {"roc_auc": 0.837, "mistake_rate": 0.022, "confusion": [[1900, 0], [40, 60]]}
    summary = text_summary({"criterion": "auc", "test": area, "baselines": {"majority": {"test": {"roc_auc": 0.5}}}})
    assert summary.splitlines()[0] == "ROC AUC 0.837; chance 0.500."
    assert "Warning" not in summary


def test_a_mode_chosen_because_of_workers_is_a_warning() -> None:
    options = {"data": "rows", "solver": "fogd"}
    assert is_mode_of_workers(TrainSettings(**options, workers=2))
    for other_options in ({}, {"workers": 2, "mode": "sum"}):
        assert not is_mode_of_workers(TrainSettings(**options, **other_options))
    assert not is_mode_of_workers(TrainSettings(data="rows", solver="ridge", workers=2))
    result = {"test": {"mistake_rate": 0.1}, "settings": {"solver": "fogd"}, "mode": "sum", "mode_of_workers": True}
    assert warning_sentences(result)[0].startswith("On workers fogd takes fewer steps (mode sum) than in one process")


def test_warning_of_a_constant_model_depends_on_whether_it_ranks_rows() -> None:
    metrics = {"mistake_rate": 0.022, "roc_auc": 0.837}
    result = {"test": metrics, "baselines": {"majority": {"test": {"mistake_rate": 0.022}}}}
    (useful,) = warning_sentences(result)
    assert "It does rank rows (ROC AUC 0.8370): use its scores, or --optimise log-loss." in useful
    assert "Scale" not in useful
    (useless,) = warning_sentences(result | {"test": metrics | {"roc_auc": 0.51}})
    assert "Scale the columns, or try" in useless
    (scaled,) = warning_sentences(result | {"test": metrics | {"roc_auc": 0.51}, "settings": {"rescale": "standard"}})
    assert "Scale" not in scaled


def test_summary_shows_the_command_to_predict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path))
    for run, typed in (
        (f"{tmp_path}/runs/churn-20261122-163747-31028", "churn-20261122-163747-31028"),
        (f"{tmp_path}/my runs/churn", f"'{tmp_path}/my runs/churn/model'"),
        ("s3://bucket/churn", "s3://bucket/churn/model"),
    ):
        if "://" not in run:
            Path(run, "model").mkdir(parents=True)
        text = text_summary(RESULTS["binary"] | {"run": run, "model": f"{run}/model"})
        assert f"  okl predict {typed} ROWS --out SCORES\n" in text


@pytest.mark.parametrize(("rate", "right"), [(0.0, "100%"), (0.1234, "87.7%"), (0.00031, "99.97%"), (4e-5, "99.996%")])
def test_summary_does_not_round_mistakes_to_zero(rate: float, right: str) -> None:
    result = {"test": {"mistake_rate": rate}, "dataset": {"test_rows": 100_000}}
    assert text_summary(RESULTS["binary"] | result).startswith(f"{right} right on 100,000 test rows; always ")


def test_summary_shows_the_time_of_the_automatic_choice() -> None:
    result = RESULTS["binary"] | {"choice": {"why": [], "seconds": 4.5}}
    assert "7.8 s, of which 4.5 s for the automatic choice\n" in text_summary(result, verbose=True)
    assert "7.8 s\n" in text_summary(RESULTS["binary"], verbose=True)


def test_summary_and_report_show_the_time_of_each_part() -> None:
    stages = [["ingest", 0.0, 3.0], ["plan", 3.0, 150.0], ["learn", 150.0, 170.5], ["evaluate", 170.5, 200.0]]
    slow = RESULTS["binary"] | {"total_seconds": 203.0, "timeline": {"stages": stages}}
    parts = "20.5 s training, 29.5 s baselines, evaluation and importance, 3.0 s the rest"
    assert f"  3.0 s reading rows, 147.0 s preparation, {parts}\n" in text_summary(slow)
    chosen = text_summary(slow | {"choice": {"why": [], "seconds": 140.0}})
    assert f"  3.0 s reading rows, 147.0 s choice of the model, {parts}\n" in chosen
    assert f"Of the total time: 3.0 s reading rows, 147.0 s preparation, {parts}." in html_report(
        without_pictures(slow)
    )
    assert "\nTime " not in text_summary(slow | {"timeline": {"stages": [["plan", 0.0, 0.9], ["learn", 0.9, 9.0]]}})


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_every_report_warns_of_a_model_no_better_than_the_constant_baseline(task: Any) -> None:
    poor = without_pictures(made_result(task, ("no", "yes") if task == "binary" else (), skill=0.0))
    assessment = assess(poor)
    assert assessment.beats_constant is False
    assert assess(RESULTS[task]).beats_constant is True
    for report in (html_report, markdown_report, text_summary):
        assert f"is {'worse' if task == 'binary' else 'no better'} than always predicting" in report(poor)
    assert "no better than" not in html_report(without_pictures(RESULTS[task])) + text_summary(RESULTS[task])


def test_warning_of_a_log_loss_no_better_than_the_shares_of_the_classes() -> None:
    def warning(loss: float, error: float, counts: tuple[int, ...] = (950, 50)) -> str:
        excess = {"log_loss": {"mean": 0.2 - loss, "standard_error": error}}
        result = {
            "criterion": "log-loss",
            "test": {"log_loss": loss, "mistake_rate": 0.05},
            "baselines": {"majority": {"test": {"log_loss": 0.2, "mistake_rate": 0.05, "excess": excess}}},
            "dataset": {"test_rows": 1000, "labels": ["no", "yes", "other"][: len(counts)], "class_counts": counts},
        }
        return " ".join(warning_sentences(result))

    shares = "the shares of the classes, a probability of 5% for 'yes' in all rows: log loss"
    assert f"The model is no better than {shares} 0.2000, baseline log loss 0.2000." in warning(0.2, 0.001)
    assert f"The model is worse than {shares} 0.2100, baseline log loss 0.2000." in warning(0.21, 0.001)
    chance = f"Perhaps only by chance, the model is better than {shares} 0.1990, baseline log loss 0.2000, a difference"
    assert chance in warning(0.199, 0.001)
    assert "by chance" not in warning(0.199, 0.0001)
    assert "no better than the shares of the classes, the same probabilities for all" in warning(0.2, 0.1, (8, 1, 1))


def test_facts_have_no_lines_for_records_of_columns() -> None:
    importance = {"rows": 200, "columns": [{"column": "plan", "increase": 0.01}]}
    (run, *_) = facts_section(RunResult(RESULTS["binary"] | {"importance": importance})).blocks
    assert isinstance(run, Table)
    assert ["importance.rows", "200"] in run.rows
    assert "importance.columns" not in [name for name, _ in run.rows]


def test_neighbouring_thresholds_have_enough_digits_to_differ() -> None:
    points = [[0.0196402, 2, 1], [0.0195981, 5, 2], [0.0012, 60, 3]]
    measured = {"confusion": [[96, 0], [4, 0]], "reliability": {"of": "score"},
                "thresholds": {"rows": 100, "positive": 4, "points": points}}  # fmt: skip
    assert [row[0] for row in threshold_rows(measured, 0.5)] == ["0.5000 (in use)", "0.0196402", "0.0195981", "0.0012"]


def test_a_gap_of_rounding_errors_is_the_optimum() -> None:
    proof = {"kind": "duality gap", "iterations": 12, "objective": 0.5, "dual_objective": 0.5}
    settings = {"solver": "l2-svm", "map": "fourier"}
    for gap, expected in (
        (9.853e-32, "is proven to be the optimum, up to rounding."),
        (1e-3, "relative gap of 0.0010 to"),
    ):
        solved = RESULTS["binary"] | {"certificate": proof | {"relative_gap": gap}, "settings": settings}
        assert expected in text_summary(solved)
        assert "e-32 to the optimum" not in text_summary(solved)


def test_warning_of_an_advantage_within_chance() -> None:
    result = {
        "test": {"mistake_rate": 0.299},
        "baselines": {"majority": {"test": {"mistake_rate": 0.300}}, "linear": {"test": {"mistake_rate": 0.250}}},
        "dataset": {"test_rows": 1000},
    }
    chance, linear = warning_sentences(result)
    assert "within two standard errors on 1,000 rows" in chance
    assert linear.startswith("A linear model is better: 25.00% mistakes, this model 29.90% mistakes.")
    assert "--rescale" not in linear
    assert warning_sentences(result | {"dataset": {"test_rows": 100}})[1].startswith(
        "A linear model is as good (difference 4.9 ± 9.2 points): 25.00% mistakes, this model 29.90% mistakes."
    )
    plain = result | {"chosen": {"bandwidth": 44.0}, "dataset": {"test_rows": 1000, "scale": "none"}}
    assert warning_sentences(plain)[1].endswith("; for columns with different ranges, use --rescale standard.")
    assert "--rescale" not in warning_sentences(plain | {"settings": {"rescale": "minmax"}})[1]


@pytest.mark.parametrize("validation", ["rows", "blocks"])
def test_test_rows_that_are_harder_than_left_out_rows_are_named_instead_of_other_reasons(validation: str) -> None:
    choice = {
        "criterion": "accuracy",
        "validation": validation,
        "sizes": [{"score": 0.9}, {"score": 0.98}],
        "hint": "m",
    }
    result: dict[str, Any] = {
        "test": {"mistake_rate": 0.4},
        "baselines": {"majority": {"test": {"mistake_rate": 0.45}}, "linear": {"test": {"mistake_rate": 0.35}}},
        "dataset": {"test_rows": 1640},
        "choice": choice,
    }
    harder, linear = warning_sentences(result)
    assert harder.startswith("Test rows are harder than rows left out of training: 40.00% mistakes, expected 2.00%.")
    assert ("--validation blocks" in harder) == (validation == "rows")
    assert linear.endswith("35.00% mistakes, this model 40.00% mistakes.")
    for rare, expected in ((1, False), (9, False), (10, True)):
        test = {"mistake_rate": 0.4, "confusion": [[900, 740 - rare], [0, rare]]}
        assert (harder in warning_sentences(result | {"test": test})) == expected
    usual, hint = warning_sentences(result | {"choice": choice | {"sizes": [{"score": 0.65}]}})
    assert "nearly linear" in usual
    assert hint == "m"
    squared = {"criterion": "squared-error", "validation": validation, "candidates": [{"kept": True, "score": 0.98}]}
    prices = {
        "test": {"mse": 4.0},
        "baselines": {"mean": {"test": {"mse": 9.0}}},
        "dataset": {"test_rows": 1000, "task": "regression"},
    }
    (far,) = warning_sentences(prices | {"choice": squared})
    assert "root mean squared error 2, expected 0.4243." in far
    clipped = {"settings": {"solver": "ridge", "huber": 1.345}}  # here scores are measured on clipped targets
    assert not warning_sentences(prices | clipped | {"choice": squared})
    assert not warning_sentences(prices | {"test": {"mse": 0.3}, "choice": squared})


def test_a_single_column_behind_nearly_perfect_predictions_is_named() -> None:
    columns = [{"column": "customer id", "rise": 0.49}, {"column": "x0", "rise": 0.0}]
    result: dict[str, Any] = {
        "test": {"mistake_rate": 0.001},
        "baselines": {"majority": {"test": {"mistake_rate": 0.45}}},
        "dataset": {"test_rows": 1640},
        "importance": {"columns": columns},
    }
    (warning,) = warning_sentences(result)
    assert warning.startswith("Column 'customer id' alone decides the predictions: 0.10% mistakes.")
    assert warning.endswith("--group 'customer id'; if it contains the target: --drop.")
    fractional = result | {"importance": {"columns": columns, "fractions": ["customer id"]}}
    assert warning_sentences(fractional)[0].endswith("0.10% mistakes. If it contains the target: --drop 'customer id'.")
    assert not warning_sentences(result | {"test": {"mistake_rate": 0.01}})
    assert not warning_sentences(result | {"dataset": {"test_rows": 50}})
    # such as a customer number, with the customer's age
    most = {"columns": [columns[0], {"column": "x0", "rise": 0.15}]}
    (warning,) = warning_sentences(result | {"importance": most})
    assert warning.startswith("Column 'customer id' decides most predictions: 0.10% mistakes.")
    shared = {"columns": [columns[0], {"column": "x0", "rise": 0.3}]}
    assert not warning_sentences(result | {"importance": shared})


def test_kernel_is_not_blamed_if_the_linear_map_was_chosen() -> None:
    result: dict[str, Any] = {
        "test": {"mse": 6.0},
        "baselines": {"mean": {"test": {"mse": 9.0}}, "linear": {"test": {"mse": 5.0}}},
        "dataset": {"test_rows": 1000},
    }
    (kernel,) = warning_sentences(result | {"chosen": {"map": "orthogonal", "bandwidth": 3.0}})
    assert kernel.endswith("The kernel does not help here, or its bandwidth or step size is unsuitable.")
    without_steps = {"chosen": {"bandwidth": 3.0}, "settings": {"solver": "pegasos"}}
    (bandwidth,) = warning_sentences(result | without_steps)
    assert bandwidth.endswith("The kernel does not help here, or its bandwidth is unsuitable.")
    automatic_choice = {"chosen": {"bandwidth": 3.0}, "choice": {"why": ["best"]}}
    regression = {"dataset": {"test_rows": 1000, "task": "regression"}}
    (automatic,) = warning_sentences(result | automatic_choice | regression)
    assert automatic.endswith("nearly linear: try --solver ridge --kernel linear.")
    (linear,) = warning_sentences(result | {"chosen": {"maps": 6, "map": "linear"}})
    assert "kernel" not in linear
    assert linear.endswith("is also linear. Try okl train without --solver, which compares maps and solvers.")
    (raced,) = warning_sentences(result | {"chosen": {"map": "linear"}, "choice": {"why": ["as it is"]}})
    assert raced.endswith("is also linear.")
    logistic = {"settings": {"solver": "logistic", "kernel": "linear"}, "choice": {"why": ["Logistic regression"]}}
    (chosen,) = warning_sentences(result | logistic)
    assert chosen.endswith("this model root mean squared error 2.449. This model is also linear.")


def test_errors_on_training_rows_are_a_warning_with_advice() -> None:
    learnt = {"mistake_rate": 0.02, "accuracy": 0.98}
    majority = {"train": {"mistake_rate": 0.5}}
    (warning,) = warning_sentences({"train": learnt, "baselines": {"majority": majority}, "rows": 500})
    assert warning.startswith("The error was measured only on training rows")
    assert "--holdout 0.2" in warning
    for split in ("test", "progressive"):
        honest = {"train": learnt, split: learnt, "baselines": {"majority": majority | {split: majority["train"]}}}
        assert warning_sentences(honest | {"rows": 500}) == []


def test_progressive_error_of_several_passes_is_not_called_unseen() -> None:
    result: dict[str, Any] = {
        "rows": 300,
        "progressive": {"mistake_rate": 0.04},
        "baselines": {"majority": {"progressive": {"mistake_rate": 0.47}}},
        "settings": {"passes": 20},
    }
    (warning,) = warning_sentences(result)
    assert warning.startswith("The error was measured over 20 passes of training and may be larger on new rows")
    assert "--holdout" in warning
    sentence = summary_sentences(result)[1]
    assert sentence.startswith(
        "96.0% right on 300 training rows, each predicted before the update (no test rows) over 20 passes"
    )
    assert "unseen rows" not in html_report(result)
    once = result | {"settings": {"passes": 1}}
    assert warning_sentences(once) == []
    assert "each predicted before the update (no test rows)" in summary_sentences(once)[1]
    assert "unseen rows" in html_report(once)


def test_test_rows_of_one_class_are_not_called_missing() -> None:
    """A criterion of two classes is then measured on training rows."""
    auc = {"roc_auc": 0.62, "confusion": [[470, 9], [0, 1]]}
    result = {
        "rows": 480, "train": auc, "test": {"roc_auc": None, "mistake_rate": 0.0, "confusion": [[120, 0], [0, 0]]},
        "criterion": "auc", "dataset": {"task": "binary", "test_rows": 120},
        "baselines": {"majority": {"train": {"roc_auc": 0.5}}},
    }  # fmt: skip
    sentence = summary_sentences(result)[1]
    assert "480 training rows (all test rows are of one class)" in sentence, sentence
    (warning,) = [text for text in warning_sentences(result) if "only on training rows" in text]
    assert "All test rows are of one class: hold out more" in warning


def test_the_report_of_a_run_in_object_storage_has_a_url() -> None:
    assert "s3://bucket/runs/one/report.html" in text_summary({"run": "s3://bucket/runs/one"})


@pytest.mark.parametrize("workers", [0, 2])
def test_every_report_shows_the_planned_memory(workers: int) -> None:
    plan = {"worker_bytes": 777 * 2**20, "worker_limit_bytes": 2**30, "read_again_share": 0.375}
    result = without_pictures(RESULTS["binary"]) | {"memory_plan": plan, "workers": workers}
    for text in (text_summary(result, verbose=True), unescape(html_report(result)), markdown_report(result)):
        assert f"planned: at most 777 of 1,024 MiB{' per worker' if workers else ''}; 38% of" in text
    assert "planned" not in text_summary(RESULTS["binary"], verbose=True)


def test_numbers_that_are_not_numbers_become_a_dash() -> None:
    result = RESULTS["binary"] | {"test": {"mistake_rate": 0.1, "roc_auc": None, "average_precision": float("nan")}}
    rows = [
        line.split() for line in text_summary(result).splitlines() if line.startswith(("ROC AUC", "Average precision"))
    ]
    assert [row[-3] for row in rows] == ["-", "-"]
    assert not re.search(
        r"\bnan\b", re.sub(r"data:image/svg\+xml;base64,[^\"]*", "", html_report(without_pictures(result)))
    )


def test_many_warnings_of_the_data_are_counted_not_listed() -> None:
    result = {"dataset": {"warnings": [f"column {i} is constant" for i in range(61)], "folder": "runs/x/data"}}
    assert len(warning_sentences(result)) == 4
    assert warning_sentences(result)[-1] == "Data: 58 more warnings, shown by `okl describe runs/x/data`."
    result["dataset"]["warnings"] = result["dataset"]["warnings"][:4]
    assert warning_sentences(result)[-1] == "Data: 1 more warning, shown by `okl describe runs/x/data`."


def test_predictions_below_zero_of_targets_that_are_not_are_a_warning() -> None:
    result: dict[str, Any] = {
        "test": {"mse": 4.0, "negative_predictions": 52},
        "dataset": {"test_rows": 632, "target": "price"},
    }
    warnings = warning_sentences(result)
    (below,) = (warning for warning in warnings if warning.startswith("52 predictions of 632 are below 0, but no tar"))
    assert below.endswith("Use them as 0, or train on log(1 + price) as a column of its own.")
    result["test"]["predicted_vs_true"] = {"range": [0.5, 9.0]}
    assert any("or train on log(price) as" in warning for warning in warning_sentences(result)), "no target is 0"
    del result["test"]["negative_predictions"]
    assert not any("below 0" in warning for warning in warning_sentences(result))


@pytest.mark.parametrize(
    ("scale", "rows", "warned"), [(0.6, 2000, True), (1.4, 2000, True), (0.6, 80, False), (0.97, 2000, False)]
)
def test_means_of_predictions_and_targets_that_differ_are_a_warning(scale: float, rows: int, warned: bool) -> None:
    targets = np.random.default_rng(0).lognormal(0.0, 0.7, rows)
    test = measure("regression", scale * targets, targets).report()
    result = {"target": "claim", "test": test, "dataset": {"test_rows": rows}, "settings": {"huber": 1.345}}
    expected = (
        f"On test rows, the mean prediction is {number(scale * targets.mean())}, the mean target "
        f"{number(targets.mean())}: sums of predictions are too {'low' if scale < 1.0 else 'high'}."
    )
    warnings = [warning for warning in warning_sentences(result) if "sums of predictions" in warning]
    assert warnings == ([f"{expected} For sums, use --solver ridge without --huber (least squares)."] if warned else [])
    least_squares = warning_sentences(result | {"settings": {"huber": None}})
    assert (expected in least_squares) == warned
    del test["bias"]  # as in a result of an earlier version
    assert not any("sums of predictions" in warning for warning in warning_sentences(result))


def test_a_difference_of_means_within_chance_is_no_warning() -> None:
    rng = np.random.default_rng(0)
    targets = 0.1 + rng.normal(size=2000)
    test = measure("regression", targets + 0.5 * rng.normal(size=2000) + 0.02, targets).report()
    assert abs(test["bias"]["mean"]) > 0.15 * test["bias"]["target_mean"]
    result = {"target": "y", "test": test, "dataset": {"test_rows": 2000}}
    assert not any("sums of predictions" in warning for warning in warning_sentences(result))


def test_sparse_rows_in_random_frequencies_are_a_warning() -> None:
    result: dict[str, Any] = {"dataset": {"sparse": True}, "settings": {"kernel": "gaussian"}}
    for solver, advice in (("logistic", "Try --kernel linear."), ("ridge", "Try --solver auto, no --kernel.")):
        result["settings"]["solver"] = solver
        assert any(advice in warning for warning in warning_sentences(result))
    result["settings"]["kernel"] = "linear"
    assert not any("Rows are sparse" in warning for warning in warning_sentences(result))


def test_an_evaluation_is_a_table_with_the_constant_baseline() -> None:
    metrics = {"accuracy": 0.5, "roc_auc": None, "confusion": [[1, 1], [1, 1]]}
    result = {"metrics": metrics, "rows": 1234, "baselines": {"majority": {"accuracy": 0.4, "roc_auc": 0.5}}}
    assert text_evaluation(result).splitlines() == [
        "1,234 rows",
        "           model  majority class",
        "Accuracy  0.5000          0.4000",
        "ROC AUC        -          0.5000",
    ]
    metrics["confusion"] = [[0, 0], [3, 1]]
    assert text_evaluation(result).splitlines()[-1] == "All rows are of one class, so these have no value: ROC AUC."


def test_several_classes_have_a_table_with_the_rarest_marked() -> None:
    metrics = {"accuracy": 0.8, "confusion": [[70, 30, 0], [9, 91, 0], [1, 0, 2]]}
    lines = [
        "",
        "Class       rows  recall  precision",
        "c (rarest)     3   66.7%       100%",
        "a            100     70%      87.5%",
        "b            100     91%      75.2%",
        "Recall and precision of so few rows may be chance: 'c' (3 rows).",
    ]
    assert text_evaluation({"metrics": metrics, "rows": 203, "labels": ["a", "b", "c"]}).splitlines()[3:] == lines
    result = {"test": metrics, "dataset": {"labels": ["a", "b", "c"], "test_rows": 203}}
    assert "\n".join(lines) in text_summary(result)
    absent = {"metrics": {"confusion": [[0, 0, 0], [2, 8, 0], [0, 1, 9]]}, "rows": 20, "labels": ["a", "b", "c"]}
    assert [line.split()[:3] for line in text_evaluation(absent).splitlines() if "rarest" in line] == [
        ["a", "(rarest)", "0"]
    ]
    many = {"metrics": {"confusion": np.diag(range(20, 35)).tolist()}, "rows": 9, "labels": [*"abcdefghijklmno"]}
    assert text_evaluation(many).splitlines()[-1] == "The 10 classes with the lowest recall of 15."


def test_report_shows_the_candidates_of_the_automatic_choice_with_reasons() -> None:
    names = ("fogd, gaussian", "linear", "<b>scs</b>")
    candidates = [
        {"name": name, "score": score, "rows": 4096, "seconds": 0.5 + position, "kept": position < 2}
        for position, (name, score) in enumerate(zip(names, (0.91, 0.85, None), strict=True))
    ]
    choice = {"rows": 4096, "seconds": 7.5, "candidates": candidates, "why": ["fogd made the fewest mistakes."]}
    plain = without_pictures(RESULTS["binary"])
    for report in (html_report, markdown_report):
        output = report(plain | {"choice": choice})
        assert "3 candidates were compared on 4,096 rows in 7.5 s." in output
        assert "fogd made the fewest mistakes." in output
        assert "<b>scs" not in output
        for text in (*names[:2], "&lt;b&gt;scs", "0.9100", "0.8500", "9% of 4,096 rows", "2.5 s"):
            assert text in output, text
        assert "were compared on" not in report(plain)
    page = html_report(plain | {"choice": choice})
    assert re.findall(r'class="(strong|weak)" style="width:([\d.]+)%"', page)[-2:] == [
        ("strong", "60.0"),
        ("weak", "100.0"),
    ]
    choice["why"] = ["Linear, of 3 candidates: 15% mistakes."]  # a kernel that is better only by chance is not chosen
    page = html_report(plain | {"choice": choice})
    assert re.findall(r'class="(strong|weak)" style="width:([\d.]+)%"', page)[-2:] == [
        ("strong", "100.0"),
        ("weak", "60.0"),
    ]


def test_a_tie_by_the_criterion_names_another_metric_that_clearly_differs() -> None:
    def result(mae_error: float, baseline: str = "linear") -> dict[str, Any]:
        excess = {
            "mse": {"mean": 5.0, "standard_error": 4.0},
            "mae": {"mean": 1.25, "standard_error": mae_error},
        }
        baselines = {
            "mean": {"test": {"mse": 30.0, "mae": 4.0}},
            "linear": {"test": {"mse": 9.0, "mae": 2.0}},
        }
        baselines[baseline]["test"]["excess"] = excess  # type: ignore[assignment]
        return {"test": {"mse": 4.0, "mae": 0.75}, "baselines": baselines, "dataset": {"test_rows": 1000}}

    def headline(mae_error: float) -> str:
        return text_summary(result(mae_error)).splitlines()[0]

    clear = "a tie (within two standard errors), but the mean absolute error of the model, 0.7500, is clearly lower "
    clear += "than that of the baseline, 2."
    assert headline(0.1).endswith(clear)
    assert headline(1.0).endswith("a tie (within two standard errors).")
    equal = result(0.1)
    equal["test"]["mae"] = 2.0 - 1e-6
    assert text_summary(equal).splitlines()[0].endswith("a tie (within two standard errors).")
    assert not any("by chance" in warning for warning in warning_sentences(result(0.1, "mean")))
    worse = result(0.1, "mean")
    worse["test"] |= {"mse": 31.0, "mae": 5.0}
    second = "and the mean absolute error of the model, 5, is clearly higher than that of the baseline, 4"
    assert f"no better, {second}" in text_summary(worse).replace("5.000", "5").replace("4.000", "4")
    worse["baselines"]["mean"]["test"]["excess"]["mse"]["standard_error"] = 0.1
    assert f"worse, {second}" in text_summary(worse).replace("5.000", "5").replace("4.000", "4")
    chance = result(1.0, "mean")
    chance["baselines"]["mean"]["test"]["excess"]["mse"]["standard_error"] = 20.0
    assert any("by chance" in warning for warning in warning_sentences(chance))


def test_a_frequent_class_gets_no_advice_for_rare_classes() -> None:
    def missed(rows: int) -> str:
        test = {"mistake_rate": 0.1, "confusion": [[100, 0], [rows, 0]]}
        return warning_sentences({"test": test, "dataset": {"labels": ["no", "yes"], "test_rows": 100 + rows}})[0]

    assert missed(80) == "Never predicted on test rows: 'yes' (80 rows)."
    assert missed(1).startswith("Never predicted on test rows: 'yes' (1 row). To find more of rare classes, use")


@pytest.mark.parametrize(("found", "hinted"), [(6, True), (9, True), (11, False), (25, False)])
def test_the_hint_for_rare_classes_comes_if_the_rarest_is_seldom_found(found: int, hinted: bool) -> None:
    confusion = [[1900, 100, 0], [150, 850, 0], [0, 31 - found, found]]
    test = {"mistake_rate": 0.1, "confusion": confusion}
    result = {"test": test, "dataset": {"labels": ["normal", "wear", "crack"], "test_rows": 3031}}
    warnings = [one for one in warning_sentences(result) if "--class-weights balanced" in one]
    assert len(warnings) == hinted
    if found == 6:
        assert warnings[0].startswith(
            "Only 19.4% of the 31 test rows of 'crack' are found. To find more of rare classes"
        )
    assert not warning_sentences(result | {"settings": {"class_weights": "balanced"}})
    equal = [[100, 10, 0], [10, 100, 0], [0, 80, 20]]
    assert not warning_sentences(result | {"test": test | {"confusion": equal}}), "no class is rare"


def test_a_higher_log_loss_at_a_tie_names_the_criterion_to_choose_by() -> None:
    excess = {"mistake_rate": {"mean": 0.001, "standard_error": 0.01}}
    excess["log_loss"] = {"mean": -0.0178, "standard_error": 0.004}
    baselines = {
        "majority": {"test": {"mistake_rate": 0.4, "log_loss": 0.68}},
        "boosting": {"test": {"mistake_rate": 0.101, "log_loss": 0.3113, "excess": excess}},
    }
    result = {"test": {"mistake_rate": 0.1, "log_loss": 0.3311}, "baselines": baselines, "dataset": {"test_rows": 5000}}
    clause = "the log loss of the model, 0.3311, is clearly higher than that of the baseline, 0.3113"
    chosen = result | {"choice": {"candidates": []}, "chosen": {}} | {"choice": {"why": ["Best."]}}
    assert f"{clause} (to choose the model by it: --optimise log-loss)" in text_summary(chosen)
    given = text_summary(result)
    assert clause in given
    assert "--optimise" not in given


def test_a_column_of_target_means_that_decides_most_predictions_is_named() -> None:
    columns = [{"column": "customer", "rise": 0.47}, {"column": "f1", "rise": 0.0}]
    result: dict[str, Any] = {
        "test": {"mistake_rate": 0.034},
        "baselines": {"majority": {"test": {"mistake_rate": 0.465}}},
        "dataset": {"test_rows": 1200},
        "importance": {"columns": columns, "fractions": ["customer=(mean target)", "f1"]},
    }
    (warning,) = warning_sentences(result)
    assert warning.startswith("Column 'customer' alone decides the predictions: 3.40% mistakes. If it names groups")
    assert "--group customer" in warning
    assert not warning_sentences(result | {"importance": {"columns": columns, "fractions": ["f1"]}}), "of 0/1 inputs"
    shared = [columns[0], {"column": "f1", "rise": 0.3}]
    assert not warning_sentences(result | {"importance": result["importance"] | {"columns": shared}})


def test_few_test_rows_are_a_warning() -> None:
    result = {"test": {"mistake_rate": 0.5}, "dataset": {"test_rows": 1}}
    assert warning_sentences(result)[0].startswith("Only 1 test row: figures of so few may be chance.")
    assert text_summary(result).startswith("50.0% right on 1 test row.")
    assert not warning_sentences(result | {"dataset": {"test_rows": 30}})


def test_summary_of_a_run_over_its_budget_shows_the_excess_and_its_cause() -> None:
    def summary(nominal: float, choosing: float) -> str:
        choice = {"why": [], "budget_seconds": 10.0, "nominal_seconds": nominal, "seconds": choosing}
        return text_summary({"choice": choice, "seconds": 4.0})

    assert "Budget" not in summary(8.0, 6.5)
    slow = (
        "Budget      the choice and the training took 34.0 s, 24.0 s more than --budget-seconds 10: the budget counts"
    )
    assert slow in summary(8.0, 30.0)
    choice = {"why": [], "budget_seconds": 10.0, "nominal_seconds": 8.0, "seconds": 2.0}
    timeline = {"stages": [["encode", 1.0, 41.0]]}
    with_encoding = text_summary({"choice": choice, "seconds": 4.0, "timeline": timeline})
    assert "the trial of encodings, the choice and the training took 46.0 s, 36.0 s more than" in with_encoding
    assert "operations (8.0 s of two cores)" in summary(8.0, 30.0)
    assert "--budget-seconds 10: the smallest choice and model need 31.0 s\n" in summary(31.0, 30.0)


def test_a_left_out_text_column_is_named_first_and_replaces_vague_advice() -> None:
    text = "Column 'body' is left out: its 90 different values look like texts. --text body takes their words."
    result: dict[str, Any] = {
        "test": {"mistake_rate": 0.4},
        "baselines": {"majority": {"test": {"mistake_rate": 0.3}}},
        "choice": {"candidates": []},
        "dataset": {"warnings": ["first", "second", "third", text]},
    }
    warnings = warning_sentences(result)
    assert warnings[:4:3] == [f"Data: {text}", "Data: second"]
    assert warnings[1].endswith("baseline 30.00% mistakes.")
    result["dataset"]["warnings"].remove(text)
    assert "may say little" in warning_sentences(result)[0]


def test_an_error_and_its_deviation_have_one_unit() -> None:
    errors = Assessment(
        "test", 100, "balanced_accuracy", "majority", 0.2, {"majority": 0.21}, criterion="balanced-accuracy",
        class_counts=(50, 50),
    )  # fmt: skip
    assert errors.text(0.2, with_chance=True) == "80.00% ± 8"
    difference = errors.difference("majority")
    assert difference is not None
    assert errors.difference_text(difference) == "difference 1 ± 8.1 points"


STREAM = {"solver": "fogd", "order": "stored", "average": True, "track": False}


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_averaged_weights_that_are_worse_than_those_on_the_way_are_a_warning(task: Any) -> None:
    metric, constant = ("squared_loss", "mean") if task == "regression" else ("mistake_rate", "majority")

    def warned(before: float, train: float, test: float, rows: int = 4000, **settings: Any) -> list[str]:
        errors = {"progressive": before, "train": train, "test": test}
        of_constant = {split: {metric: 0.5} for split in errors}
        unit = 0.5 if task == "regression" else 1.0
        result = {split: {metric: unit * error} for split, error in errors.items()} | {
            "rows": rows, "mode": "stream", "settings": STREAM | settings, "baselines": {constant: of_constant},
            "dataset": {"task": task, "test_rows": rows},
        }  # fmt: skip
        return [warning for warning in warning_sentences(result) if "relation changes" in warning]

    (found,) = warned(0.214, 0.3829, 0.3856)
    assert re.search(r": 21.40% [a-z ]+ before each is learned, 38.29% on training rows by", found)
    assert found.endswith("--track --holdout last; else: --order shuffle.")
    assert len(found) <= 210
    newest: dict[str, Any] = {"ingest": {"holdout": "last"}}
    (later,) = warned(0.214, 0.22, 0.4655, **newest)
    assert "46.55% on test rows" in later
    assert "--holdout" not in later
    assert not warned(0.214, 0.22, 0.4655), "test rows are not the last ones"
    assert not warned(0.214, 0.24, 0.24, **newest), "a few points"
    assert not warned(0.214, 0.26, 0.26, rows=200, **newest), "within chance"
    assert not warned(1.04, 1.13, 1.13, **newest), "nothing was learned on the way"
    for other in ({"track": True}, {"average": False}, {"order": "shuffle"}, {"passes": 2}, {"threshold": 0.1}):
        assert not warned(0.214, 0.3829, 0.4, **newest, **other), other


def test_a_tie_that_another_metric_decides_for_the_model_is_said_once() -> None:
    excess = {"mse": {"mean": -5.0, "standard_error": 9.0}, "mae": {"mean": 1.5, "standard_error": 0.2}}
    result: dict[str, Any] = {
        "test": {"mse": 9930.0, "mae": 10.5},
        "baselines": {"mean": {"test": {"mse": 10100.0}}, "linear": {"test": {"mse": 9925.0, "mae": 12.05}}},
        "dataset": {"task": "regression", "test_rows": 1600},
    }
    result["baselines"]["linear"]["test"]["excess"] = excess
    assert text_summary(result).count("mean absolute error of the model, 10.5, is clearly lower") == 1
    excess["mae"]["mean"], result["test"]["mae"] = -1.5, 13.55
    assert any("A linear model is as good" in warning for warning in warning_sentences(result))


def test_the_bias_of_hubers_loss_is_judged_on_training_rows() -> None:
    bias = {"mean": -4.06, "standard_error": 2.47, "target_mean": 41.19}
    test = {"mse": 9930.0, "bias": bias}
    result: dict[str, Any] = {"test": test, "dataset": {"test_rows": 1623}, "settings": {"huber": 1.345}}
    for error, warned in ((0.95, True), (2.0, False)):
        result["train"] = {"bias": bias | {"mean": -4.24, "standard_error": error}}
        assert any("sums of predictions are too low" in one for one in warning_sentences(result)) == warned
        assert not any("sums of" in one for one in warning_sentences(result | {"settings": {"huber": None}}))


def test_facts_without_content_are_left_out() -> None:
    assert chosen_facts({"mixing_share": 0.0, "rank": 0}) == [("Rank", "0")]
    assert chosen_facts({"mixing_share": 0.5}) == [("Share of rows mixed at once", "0.5000")]
    many = RESULTS["binary"] | {"calibration": {"on": "32,768 test rows", "threshold": 0.5}}
    assert "calibrated on 32,768 test rows; 'yes' is predicted" in text_summary(many)
