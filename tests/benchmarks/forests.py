"""`okl.KernelClassifier()` and `okl.KernelRegressor()` against boosting, forests and linear models, all with defaults.

    OKL_DATA=../shared/data python -m tests.benchmarks.forests [SETS] [--splits 3] [--models okl boosting] [--out FILE]

LightGBM, XGBoost, CatBoost and xRFM take part where they are installed, and okl with a sixth of its default budget and
five times as much where `--models` names "okl 10 s" and "okl 300 s". FILE is a CSV with a row a measurement; what
is there is not measured again.

A fifth of the rows, drawn by class, are test rows. okl gets the table as it is. The others get dates as month, weekday
and hour; forests and linear models also one-hot text, means for missing numbers and, if linear, standardised columns.
Prints accuracy, log loss (of regressions the root of the mean squared error) and seconds of fit and prediction, means
over the splits.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
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
REGRESSIONS = ("abalone", "cadata", "housing", "mg", "parkinsons")
SETS = ("flights", "german", "spambase", "wine_quality", "magic", "letter", *REGRESSIONS)
MOST_TREES = 3e8  # rows times columns times classes, beyond which CatBoost's 1,000 rounds take above ten minutes


def read_set(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns and the target of a set."""
    if name == "flights":
        table = pd.read_csv(FLIGHTS, parse_dates=["scheduled"]).drop(columns="flight")
        return table.drop(columns="late"), table["late"]
    table = pd.read_parquet(Path(os.environ["OKL_DATA"]) / f"{name}.parquet")
    target = table["y"] if name in REGRESSIONS else pd.Series(pd.factorize(table["y"], sort=True)[0])
    return table.drop(columns=["y", "split"], errors="ignore"), target


def with_date_parts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with month, weekday and hour in place of each date, and text as categories."""
    result = table.copy()
    for name in result.select_dtypes("datetime").columns:
        dates = result.pop(name).dt
        result = result.assign(month=dates.month, weekday=dates.weekday, hour=dates.hour)
    text = result.select_dtypes(exclude="number").columns
    return result.astype(dict.fromkeys(text, "category"))


def encoded(model: Any, scale: bool) -> Any:
    """Return a pipeline of a model that takes numbers alone."""
    numbers = make_pipeline(SimpleImputer(), *([StandardScaler()] if scale else []))
    words = OneHotEncoder(handle_unknown="ignore", min_frequency=10, sparse_output=False)
    kinds = make_column_selector(dtype_include="number"), make_column_selector(dtype_include="category")
    return make_pipeline(make_column_transformer((numbers, kinds[0]), (words, kinds[1])), model)


def boosters(kind: str) -> dict[str, Callable[[], Any]]:
    """Return the boosting libraries that are installed, with their defaults. kind : Classifier or Regressor"""
    named: dict[str, tuple[str, dict[str, Any]]] = {
        "lightgbm": ("LGBM", {"verbose": -1}),
        "xgboost": ("XGB", {"enable_categorical": True}),
        "catboost": ("CatBoost", {"verbose": False, "allow_writing_files": False}),
    }
    makers: dict[str, Callable[[], Any]] = {}
    if importlib.util.find_spec("xrfm") is not None:
        makers["xrfm"] = partial(Xrfm, kind == "Regressor")
    for module, (prefix, options) in named.items():
        if importlib.util.find_spec(module) is not None:
            model = getattr(importlib.import_module(module), prefix + kind)
            makers[module] = partial(model, random_state=0, **options)
    return makers


class Xrfm:
    """xRFM with its defaults: standardised numbers, one-hot text; a fifth of the training rows choose its iteration."""

    def __init__(self, regression: bool) -> None:
        self.regression = regression

    def fit(self, table: pd.DataFrame, target: pd.Series) -> Xrfm:
        """Fit on a table and its target."""
        torch, xrfm = map(importlib.import_module, ("torch", "xrfm"))
        kind = np.float32 if self.regression else np.int64
        self.classes_ = np.unique(target)
        self.inputs = encoded(None, True)[:-1].fit(table)
        self.scale = (target.mean(), target.std()) if self.regression else (0, 1)
        rows = self.inputs.transform(table).astype(np.float32), ((target - self.scale[0]) / self.scale[1]).astype(kind)
        strata = None if self.regression else target
        parts = train_test_split(rows[0], rows[1].to_numpy()[:, None], test_size=0.2, random_state=0, stratify=strata)
        learn, check, learn_targets, check_targets = map(torch.from_numpy, parts)
        metric = "mse" if self.regression else "accuracy"
        self.model = xrfm.xRFM(device="cpu", tuning_metric=metric, verbose=False, random_state=0)
        self.model.fit(learn, learn_targets, check, check_targets)
        return self

    def predict(self, table: pd.DataFrame) -> Any:
        """Return labels or values."""
        rows = self.inputs.transform(table).astype(np.float32)
        return np.asarray(self.model.predict(rows)) * self.scale[1] + self.scale[0]

    def predict_proba(self, table: pd.DataFrame) -> Any:
        """Return probabilities (rows, classes)."""
        return np.asarray(self.model.predict_proba(self.inputs.transform(table).astype(np.float32)))


def models_of(regression: bool) -> dict[str, Callable[[], Any]]:
    """Return functions that make the compared models."""
    if regression:
        return boosters("Regressor") | {
            "okl": okl.KernelRegressor,
            "boosting": lambda: HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0),
            "forest": lambda: encoded(RandomForestRegressor(random_state=0), False),
            "linear": lambda: encoded(RidgeCV(np.logspace(-3, 3, 13)), True),
        }
    return boosters("Classifier") | {
        "okl": okl.KernelClassifier,
        "boosting": lambda: HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0),
        "forest": lambda: encoded(RandomForestClassifier(random_state=0), False),
        "linear": lambda: encoded(LogisticRegression(max_iter=5000), True),
    }


def budgets(regression: bool) -> dict[str, Callable[[], Any]]:
    """Return okl with other budgets than the default."""
    make = okl.KernelRegressor if regression else okl.KernelClassifier
    return {f"okl {seconds} s": partial(make, budget_seconds=seconds) for seconds in (10, 300)}


def measure(name: str, split: int, models: list[str], out: Path | None) -> None:
    """Measure each model on one split of a set, and append the rows to a CSV file."""
    table, target = read_set(name)
    regression = name in REGRESSIONS
    parts = train_test_split(
        table,
        target,
        test_size=0.2,
        random_state=split,
        stratify=None if regression or name == "wine_quality" else target,
    )
    makers = models_of(regression) | (budgets(regression) if models else {})
    for model, make in makers.items():
        n_trees = table.size * (1 if regression else max(1, target.nunique()))
        if (models and model not in models) or is_measured(out, name, model, split):
            continue
        if model == "catboost" and (n_trees > MOST_TREES or len(table.select_dtypes(exclude="number").columns)):
            continue
        train, test = parts[:2] if model.startswith("okl") else map(with_date_parts, parts[:2])
        if not model.startswith("okl"):
            test = test.astype(train.dtypes.to_dict())  # categories of the training rows
        row: dict[str, Any] = {"set": name, "model": model, "split": split, "rows": len(table)}
        row |= {"columns": table.shape[1], "rmse": None, "accuracy": None, "log loss": None}
        started = time.perf_counter()
        try:
            fitted = make().fit(train, parts[2])
        except ValueError as error:  # for example a class without training rows
            print(name, model, error, flush=True)
            continue
        predicted = np.ravel(fitted.predict(test))
        row["seconds"] = time.perf_counter() - started
        if regression:
            row["rmse"] = float(np.sqrt(np.mean((predicted - parts[3]) ** 2)))
        else:
            row["accuracy"] = float((predicted == parts[3]).mean())
            row["log loss"] = log_loss(parts[3], fitted.predict_proba(test), labels=fitted.classes_)
        print(row, flush=True)
        if out is not None:
            pd.DataFrame([row]).to_csv(out, mode="a", header=not out.exists(), index=False)


def is_measured(out: Path | None, name: str, model: str, split: int) -> bool:
    """Return whether a file has the row of a model on a split of a set."""
    if out is None or not out.exists():
        return False
    rows = pd.read_csv(out)
    return bool(((rows["set"] == name) & (rows["model"] == model) & (rows["split"] == split)).any())


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    out = options.out or Path(tempfile.mkdtemp()) / "figures.csv"
    for name in options.sets:
        for split in range(options.splits):
            measure(name, split, options.models, out)
    figures = pd.read_csv(out).drop(columns="split").groupby(["set", "model"], sort=False).mean()
    print(figures.round(4).to_string())


if __name__ == "__main__":
    main()
