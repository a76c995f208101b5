"""A made-up table of numbers, text, dates and bools, with missing values, whose target depends on all columns."""

from __future__ import annotations

import numpy as np
import pandas as pd

CITIES = ("Berlin", "Paris", "Rome, IT", "São Paulo")
EFFECTS = {"Berlin": -1.5, "Paris": 1.5, "Rome, IT": 0.0, "São Paulo": 2.0}


def mixed(rows: int = 1200, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    city = random.choice(CITIES, rows, p=[0.3, 0.5, 0.15, 0.05]).astype(object)
    job = np.array([f"job {i:02}" for i in np.minimum(random.zipf(1.3, rows), 40)])
    at = pd.Timestamp("2024-02-01 06:00") + pd.to_timedelta(random.integers(0, 800 * 24, rows), unit="h")
    age = random.normal(40.0, 10.0, rows)
    effect = np.array([EFFECTS[name] for name in city]) + 1.5 * np.sin(2 * np.pi * np.asarray(at.hour) / 24)
    signal = effect + 0.05 * (age - 40.0) + 0.3 * random.normal(size=rows)
    city[random.random(rows) < 0.05] = None
    return pd.DataFrame(
        {
            "city": city,
            "job": job,
            "age": np.where(random.random(rows) < 0.1, np.nan, age),
            "at": at.astype("datetime64[us]"),
            "member": random.random(rows) < 0.5,
            "label": np.where(signal > 0, "yes", "no"),
            "split": np.where(random.random(rows) < 0.3, "test", "train"),
        }
    )
