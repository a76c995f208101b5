"""Rare classes: okl's default against logistic regression and gradient boosting, on generated churn-like sets.

    python -m tests.benchmarks.rare [--rows 4000] [--seeds 3] [--shares 0.01,0.02,0.05] [--set optimise=auc]

Rows have numbers, text categories and dates; who churns depends on a curved function of some of them. Each seed gives
its own data set with 25% test rows. Peers see the same rows, one-hot categories and the days since the first date.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import okl

PLANS = ("basic", "plus", "family", "business", "student")
REGIONS = tuple(f"region {number}" for number in range(12))
METRICS = ("auc", "average precision", "log loss")


def churn_rows(n_rows: int, share: float, seed: int) -> pd.DataFrame:
    """Return customers, of whom about a share has churned ("yes"): numbers, text, a date and an id."""
    random = np.random.default_rng(seed)
    months = random.gamma(2.0, 12.0, n_rows)
    price = 10.0 + 40.0 * random.beta(2, 3, n_rows)
    calls = random.poisson(1.0 + 2.0 * random.random(n_rows))
    usage = np.exp(random.normal(2.0, 0.8, n_rows))
    plan = random.choice(len(PLANS), n_rows, p=(0.35, 0.25, 0.2, 0.1, 0.1))
    region = random.integers(0, len(REGIONS), n_rows)
    days = random.integers(0, 1400, n_rows)
    season = np.cos(2.0 * np.pi * days / 365.25)
    risk = (
        -0.05 * months
        + 1.4 * np.tanh((price - 28.0) / 6.0) * (plan != 3)
        + 0.9 * np.maximum(calls - 2, 0)
        - 0.8 * np.abs(np.log(usage) - 2.2)
        + np.array([0.3, 0.0, -0.6, -1.0, 0.8])[plan]
        + 0.5 * np.sin(region)
        + 0.7 * season * (plan == 0)
    )
    noisy = 1.3 * risk + random.logistic(size=n_rows)
    churned = noisy > np.quantile(noisy, 1.0 - share)
    return pd.DataFrame(
        {
            "customer": np.arange(n_rows) + 100_000,
            "since": pd.Timestamp("2021-01-01") + pd.to_timedelta(days, unit="D"),
            "months": months.round(1),
            "price": price.round(2),
            "calls": calls,
            "usage": usage.round(2),
            "plan": np.array(PLANS)[plan],
            "region": np.array(REGIONS)[region],
            "churned": np.where(churned, "yes", "no"),
        }
    )


def figures(true: NDArray[Any], probabilities: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return ROC AUC, average precision and log loss."""
    return (
        float(roc_auc_score(true, probabilities)),
        float(average_precision_score(true, probabilities)),
        float(log_loss(true, probabilities)),
    )


def peer_figures(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    """Return the figures of logistic regression tuned on its penalty, and of gradient boosting."""
    numbers, texts = ["months", "price", "calls", "usage", "days"], ["plan", "region"]
    frames = [frame.assign(days=(frame.since - pd.Timestamp("2021-01-01")).dt.days) for frame in (train, test)]
    coder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    scaled = make_column_transformer((StandardScaler(), numbers), (coder, texts))
    plain = make_column_transformer(("passthrough", numbers), (coder, texts))
    peers = {
        "LogisticRegression": make_pipeline(
            scaled,
            LogisticRegressionCV(
                Cs=8, l1_ratios=(0.0,), scoring="neg_log_loss", max_iter=500, use_legacy_attributes=False
            ),
        ),
        "HistGradientBoosting": make_pipeline(plain, HistGradientBoostingClassifier(random_state=0)),
    }
    true = (test.churned == "yes").to_numpy()
    figures_by_peer = {}
    for name, peer in peers.items():
        peer.fit(frames[0], train.churned)
        figures_by_peer[name] = figures(true, peer.predict_proba(frames[1])[:, list(peer.classes_).index("yes")])
    return figures_by_peer


def okl_figures(rows: pd.DataFrame, test: pd.DataFrame, options: dict[str, Any]) -> tuple[float, float, float]:
    """Return the figures of `okl train` with its defaults, on the rows of the split."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OKL_HOME"] = folder
        rows.to_parquet(Path(folder) / "rows.parquet")
        result = okl.train(
            Path(folder) / "rows.parquet", target="churned", keys=("customer",), out=Path(folder) / "run", **options
        )
        probabilities = result.model.predict_proba(test)[:, 1]
    return figures((test.churned == "yes").to_numpy(), probabilities)


def main() -> None:
    """Print the mean figures of each share of positive rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shares", default="0.01,0.02,0.05")
    parser.add_argument("--set", action="append", default=[], help="setting of okl, NAME=VALUE")
    arguments = parser.parse_args()
    options = dict(pair.split("=", 1) for pair in arguments.set)
    print(f"{'share':>6} {'':22} {'auc':>8} {'ap':>8} {'log loss':>9} {'seconds':>8}")
    for share in map(float, arguments.shares.split(",")):
        figures_by_model: dict[str, list[tuple[float, ...]]] = {}
        for seed in range(arguments.seeds):
            rows = churn_rows(arguments.rows, share, seed)
            in_test = np.random.default_rng((seed, 1)).random(len(rows)) < 0.25
            rows["split"] = np.where(in_test, "test", "train")
            train, test = rows[~in_test], rows[in_test]
            start = time.perf_counter()
            ours = okl_figures(rows, test, options)
            figures_by_model.setdefault("okl", []).append((*ours, time.perf_counter() - start))
            for name, theirs in peer_figures(train, test).items():
                figures_by_model.setdefault(name, []).append((*theirs, float("nan")))
        for name, lines in figures_by_model.items():
            auc, precision, loss, seconds = np.mean(lines, axis=0)
            print(f"{share:6.0%} {name:22} {auc:8.4f} {precision:8.4f} {loss:9.4f} {seconds:8.1f}")


if __name__ == "__main__":
    main()
