"""Text columns of many values: okl's default against linear models of all values and boosting, on generated sets.

    python -m tests.benchmarks.categories [SETS] [--seeds 1] [--budget 10] [--models okl "okl 64" linear LightGBM]

A set is named ROWS-COLUMNSxVALUES-FREQUENCIES-KIND, such as 8000-5x500-uniform-binary; frequencies are uniform or zipf,
the kind binary, classes (five), regression or noise (two classes independent of all text columns). There are
also five columns of numbers, on which the target depends nonlinearly. "okl 64" gives an input to the 64 most frequent
values of each column alone, as --max-categories 64 does. Boosting takes the text as categories. Prints accuracy and log
loss on 4,000 new rows (of a regression R2 and the root of the mean squared error), and seconds of the fit.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import okl

SETS = (
    "8000-5x500-uniform-binary",
    "8000-5x500-zipf-binary",
    "4000-2x1000-uniform-regression",
    "3000-3x300-zipf-classes",
    "2000-2x100-uniform-binary",
    "1000-1x200-zipf-binary",
    "1000-3x100-uniform-noise",
)
TEST_ROWS = 4000


def rows_of(name: str, seed: int) -> tuple[pd.DataFrame, pd.Series, pd.DataFrame, pd.Series]:
    """Return the columns and targets of the training rows and of the test rows of a set."""
    n, shape, frequencies, kind = name.split("-")
    n_columns, n_values = map(int, shape.split("x"))
    random, n_train = np.random.default_rng((seed, n_values, n_columns)), int(n)
    total, n_outputs = n_train + TEST_ROWS, 5 if kind == "classes" else 1
    numbers = random.normal(size=(total, 5))
    curve = np.sin(1.5 * numbers[:, 0]) + 0.7 * numbers[:, 1] * numbers[:, 2] - 0.5 * np.abs(numbers[:, 3])
    scores = np.stack([curve * np.cos(k) + 0.5 * numbers[:, k] * (n_outputs > 1) for k in range(n_outputs)], axis=1)
    table = pd.DataFrame(numbers, columns=[f"number{k}" for k in range(5)])
    shares = np.arange(1.0, n_values + 1.0) ** (-1.0 if frequencies == "zipf" else 0.0)
    for column in range(n_columns):
        values = random.choice(n_values, total, p=shares / shares.sum())
        effects = random.normal(size=(n_values, n_outputs)) * (0.7 if n_columns > 3 else 1.0) * (kind != "noise")
        scores += effects[values]
        table[f"text{column}"] = np.char.add("v", random.permutation(n_values)[values].astype(str))
    target: Any = scores[:, 0] + 0.7 * random.normal(size=total)
    if kind == "classes":
        target = np.char.add("k", (1.5 * scores + random.gumbel(size=scores.shape)).argmax(axis=1).astype(str))
    elif kind != "regression":
        target = np.where(1.5 * scores[:, 0] + random.logistic(size=total) > 0.0, "yes", "no")
    y, test = pd.Series(target, name="y"), slice(n_train, None)
    return table[:n_train], y[:n_train], table[test].reset_index(drop=True), y[test].reset_index(drop=True)


def makers(regression: bool, budget: float) -> dict[str, Callable[[], Any]]:
    """Return functions that make the models."""
    kernel_model = okl.KernelRegressor if regression else okl.KernelClassifier
    kinds = make_column_selector(dtype_include="number"), make_column_selector(dtype_exclude="number")

    def linear() -> Any:
        columns = (StandardScaler(), kinds[0]), (OneHotEncoder(handle_unknown="ignore"), kinds[1])
        return make_pipeline(make_column_transformer(*columns), Ridge() if regression else LogisticRegression())

    def boosting() -> Any:
        lightgbm = importlib.import_module("lightgbm")  # optional: not installed for the tests
        return (lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier)(verbose=-1, n_jobs=1)

    return {
        "okl": lambda: kernel_model(budget_seconds=budget),
        "okl 64": lambda: kernel_model(budget_seconds=budget, max_categories=64),
        "linear": linear,
        "LightGBM": boosting,
    }


def main() -> None:
    """Print the figures of each set and model, means over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of okl")
    parser.add_argument("--models", nargs="+", default=["okl", "okl 64", "linear", "LightGBM"])
    options = parser.parse_args()
    for name in options.sets:
        regression = name.endswith("regression")
        for model in options.models:
            figures = []
            for seed in range(options.seeds):
                train, y, test, true = rows_of(name, seed)
                if model == "LightGBM":
                    categories = {
                        column: pd.CategoricalDtype(list(train[column].unique())) for column in train.columns[5:]
                    }
                    train, test = train.astype(categories), test.astype(categories)
                started, fitted = time.perf_counter(), makers(regression, options.budget)[model]().fit(train, y)
                seconds = time.perf_counter() - started
                if regression:
                    predicted = fitted.predict(test)
                    figures.append((r2_score(true, predicted), np.sqrt(np.mean((predicted - true) ** 2)), seconds))
                    continue
                probabilities = fitted.predict_proba(test)
                accuracy = float((fitted.classes_[probabilities.argmax(axis=1)] == true).mean())
                figures.append((accuracy, log_loss(true, probabilities, labels=fitted.classes_), seconds))
            score, loss, seconds = np.mean(figures, axis=0)
            print(f"{name:34} {model:10} {score:8.4f} {loss:8.4f} {seconds:8.1f} s", flush=True)


if __name__ == "__main__":
    main()
