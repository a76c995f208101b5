"""`okl.KernelClassifier()` and `okl.KernelRegressor()` against boosting, forests and linear models, all with defaults.

    OKL_DATA=../shared/data python -m tests.benchmarks.forests [SETS] [--splits 3]

A fifth of the rows, drawn by class, are test rows. okl gets the table as it is. The others get dates as month, weekday
and hour; forests and linear models also one-hot text, means for missing numbers and, if linear, standardised columns.
Prints accuracy, log loss (of regressions the root of the mean squared error) and seconds of fit and prediction, means
over the splits.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import okl

FLIGHTS = Path(__file__).parents[2] / "data" / "flights.csv"
REGRESSIONS = ("abalone", "cadata", "parkinsons")
SETS = ("flights", "german", "spambase", "wine_quality", "magic", "letter", *REGRESSIONS)


def read_set(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns and the target of a set."""
    if name == "flights":
        table = pd.read_csv(FLIGHTS, parse_dates=["scheduled"]).drop(columns="flight")
        return table.drop(columns="late"), table["late"]
    table = pd.read_parquet(Path(os.environ["OKL_DATA"]) / f"{name}.parquet")
    return table.drop(columns=["y", "split"], errors="ignore"), table["y"]


def with_date_parts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with month, weekday and hour in place of each date, and text as categories."""
    made = table.copy()
    for name in made.select_dtypes("datetime").columns:
        dates = made.pop(name).dt
        made = made.assign(month=dates.month, weekday=dates.weekday, hour=dates.hour)
    text = made.select_dtypes(exclude="number").columns
    return made.astype(dict.fromkeys(text, "category"))


def encoded(model: Any, scale: bool) -> Any:
    """Return a pipeline of a model that takes numbers alone."""
    numbers = make_pipeline(SimpleImputer(), *([StandardScaler()] if scale else []))
    words = OneHotEncoder(handle_unknown="ignore", min_frequency=10, sparse_output=False)
    kinds = make_column_selector(dtype_include="number"), make_column_selector(dtype_include="category")
    return make_pipeline(make_column_transformer((numbers, kinds[0]), (words, kinds[1])), model)


def models_of(regression: bool) -> dict[str, Callable[[], Any]]:
    """Return what is compared."""
    if regression:
        return {
            "okl": okl.KernelRegressor,
            "boosting": lambda: HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0),
            "forest": lambda: encoded(RandomForestRegressor(random_state=0), False),
            "linear": lambda: encoded(RidgeCV(np.logspace(-3, 3, 13)), True),
        }
    return {
        "okl": okl.KernelClassifier,
        "boosting": lambda: HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
        "forest": lambda: encoded(RandomForestClassifier(random_state=0), False),
        "linear": lambda: encoded(LogisticRegression(max_iter=5000), True),
    }


def measure(name: str, split: int) -> list[dict[str, Any]]:
    """Return a row for each model on one split of a set."""
    table, target = read_set(name)
    regression = name in REGRESSIONS
    drawn = train_test_split(
        table,
        target,
        test_size=0.2,
        random_state=split,
        stratify=None if regression or name == "wine_quality" else target,
    )
    found = []
    for model, make in models_of(regression).items():
        train, test = drawn[:2] if model == "okl" else map(with_date_parts, drawn[:2])
        if model != "okl":
            test = test.astype(train.dtypes.to_dict())  # categories of the training rows
        started = time.perf_counter()
        fitted = make().fit(train, drawn[2])
        predicted = fitted.predict(test)
        row: dict[str, Any] = {"set": name, "model": model, "rows": len(table), "columns": table.shape[1]}
        row["seconds"] = time.perf_counter() - started
        if regression:
            row["rmse"] = float(np.sqrt(np.mean((predicted - drawn[3]) ** 2)))
        else:
            row["accuracy"] = float((predicted == drawn[3]).mean())
            row["log loss"] = log_loss(drawn[3], fitted.predict_proba(test), labels=fitted.classes_)
        found.append(row)
        print(row, flush=True)
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    rows = [row for name in options.sets for split in range(options.splits) for row in measure(name, split)]
    figures = pd.DataFrame(rows).groupby(["set", "model"], sort=False).mean()
    print(figures.round(4).to_string())


if __name__ == "__main__":
    main()
