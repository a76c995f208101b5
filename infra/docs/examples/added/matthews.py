# File: okl/metrics/matthews.py
# METRICS: "matthews": "okl.metrics.matthews:matthews",
"""The correlation of predicted and true classes."""

from __future__ import annotations

import math

from okl.metrics.definitions import CLASSES, Tally, metric


@metric("Matthews correlation", *CLASSES, main=True)
def matthews(tally: Tally) -> float | None:
    """Return the correlation coefficient, from -1 to 1; None where all rows are of one class, or predicted as one.

    Source: Gorodkin, Computational Biology and Chemistry 28, 2004, for any number of classes.
    """
    table = tally.table.astype(float)
    rows, of_class, predicted = table.sum(), table.sum(axis=1), table.sum(axis=0)
    spread = math.sqrt((rows**2 - predicted @ predicted) * (rows**2 - of_class @ of_class))
    return float(rows * table.trace() - of_class @ predicted) / spread if spread > 0.0 else None
