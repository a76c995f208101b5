"""Calibration of the automatic choice on real sets: log loss and reliability of probabilities, before and after.

    OKL_DATA=../shared/data python -m tests.benchmarks.calibrated [SETS] [--splits 2]

A fifth of the rows, drawn by class, are test rows. "Before" are scores taken as probabilities in two usual ways: the
logistic function (of several classes softmax), and (1 + score) / 2, cut to [.001, .999] (of several classes scaled to
sum to 1), because most scores are of least squares to -1 and 1. "After" is `predict_proba`. The expected calibration
error is the mean distance between share and probability, over 15 bins of equally many rows by the probability of the
predicted class: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017, (3).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import okl
from okl.features.predictors import base_of
from tests.benchmarks.forests import read_set

SETS = ("australian", "diabetes", "german", "svmguide3", "dna", "spambase", "satimage", "magic", "letter", "a9a",
        "electricity", "ijcnn1")  # fmt: skip
CUT = 1e-3

Probabilities = NDArray[np.float64]


def ways_before(scores: NDArray[Any]) -> dict[str, Probabilities]:
    """Return probabilities (rows, classes) of scores (rows,) or (rows, classes), by name of the way."""
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim == 1:
        logistic, linear = expit(scores), np.clip((1.0 + scores) / 2.0, CUT, 1.0 - CUT)
        return {"logistic": np.stack([1.0 - logistic, logistic], 1), "linear": np.stack([1.0 - linear, linear], 1)}
    linear = np.clip((1.0 + scores) / 2.0, CUT, 1.0 - CUT)
    return {"logistic": softmax(scores, axis=1), "linear": linear / linear.sum(axis=1, keepdims=True)}


def calibration_error(probabilities: Probabilities, classes: NDArray[np.int64], n_bins: int = 15) -> float:
    """Return the expected calibration error of the predicted class."""
    best = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == classes
    bins = np.array_split(np.argsort(best, kind="stable"), n_bins)
    return float(sum(abs(right[rows].mean() - best[rows].mean()) * len(rows) for rows in bins) / len(classes))


def measure(name: str, split: int) -> list[dict[str, Any]]:
    """Return a row for each way to probabilities, on one split of a set."""
    table, target = read_set(name)
    train, test, labels, classes = train_test_split(table, target, test_size=0.2, random_state=split, stratify=target)
    fitted = okl.KernelClassifier().fit(train, labels)
    model, codes = fitted.model_, np.asarray(classes)
    ways = ways_before(replace(model, predictor=base_of(model.predictor)).scores(test))
    ways["after"] = fitted.predict_proba(test)
    ways["boosting"] = HistGradientBoostingClassifier(random_state=0).fit(train, labels).predict_proba(test)
    return [
        {"set": name, "way": way, "log loss": log_loss(codes, values, labels=fitted.classes_)}
        | {"calibration error": calibration_error(values, codes), "accuracy": (values.argmax(1) == codes).mean()}
        for way, values in ways.items()
    ]


def main() -> None:
    """Measure and print a table of means over the splits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "calibrated.csv")
    options = parser.parse_args()
    measured: list[dict[str, Any]] = []
    for name in options.sets:
        for split in range(options.splits):
            measured += measure(name, split)
            pd.DataFrame(measured).to_csv(options.out, index=False)
            print(pd.DataFrame(measured[-4:]).round(4).to_string(header=False, index=False), flush=True)
    means = pd.DataFrame(measured).groupby(["set", "way"], sort=False).mean().unstack()
    print(means.round(4).to_string())


if __name__ == "__main__":
    main()
