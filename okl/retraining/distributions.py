"""Whether the values of a shard are like those so far: label shares, ranges, means, columns that stopped changing.

Every limit is on the size of a difference, as with many rows the least difference is none of chance; and where chance
alone might make one of that size, a test at a tiny level is asked, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from okl.retraining.baseline import Baseline
from okl.retraining.profile import Profile
from okl.retraining.record import Finding
from okl.retraining.settings import ContractSettings
from okl.store.dataset import ColumnStatistics

TWO_VALUED = 1e-4  # rounding of the figures of a column of two values
SHOWN = 20


def distribution_findings(
    profile: Profile, name: str, baseline: Baseline, contract: ContractSettings
) -> Iterator[Finding]:
    """What is unlike the rows so far."""
    yield from _labels(profile, name, baseline, contract)
    yield from _ranges(profile, name, baseline, contract)
    schema = baseline.schema
    pairs = dict(zip(schema.features, zip(baseline.columns, profile.columns, strict=True), strict=True))
    if schema.task == "regression" and baseline.target is not None and profile.target is not None:
        pairs[schema.target] = (baseline.target, profile.target)
    shifts = {column: mean_shift(*pair) for column, pair in pairs.items()}
    if moved := {column: shift for column, shift in shifts.items() if abs(shift) > contract.mean_shift}:
        told = [f"{column} by {shift:+.1f}" for column, shift in moved.items()]
        yield Finding(
            "mean-shift",
            f"{name}: means have moved, in standard deviations: {', '.join(told[:5])}; expected "
            f"{contract.mean_shift:g} at most.",
            {"shifts": dict(list(moved.items())[:SHOWN]), "limit": contract.mean_shift},
        )
    constant = [column for column, pair in pairs.items() if stopped_changing(*pair, contract.level)]
    if constant and not contract.constant_columns:
        values = {column: pairs[column][1].mean for column in constant[:SHOWN]}
        told = [f"{column} is always {value:g}" for column, value in values.items()]
        yield Finding(
            "constant-column", f"{name}: columns have stopped changing: {', '.join(told[:5])}.", {"values": values}
        )


def label_distance(before: NDArray[np.int64], now: NDArray[np.int64]) -> tuple[float, float]:
    """Half the sum of the differences of label shares, and the p-value of the G-test that they are one.

    Parameters
    ----------
    before, now : (n_labels,) rows of each label

    Source: Sokal & Rohlf, Biometry, 1981, section 17.4 (G-test of independence).
    """
    present = (before + now) > 0
    table = np.stack([before[present], now[present]])
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return 0.0, 1.0
    distance = 0.5 * float(np.abs(before / before.sum() - now / now.sum()).sum())
    return distance, float(stats.chi2_contingency(table, correction=False, lambda_="log-likelihood").pvalue)


def mean_shift(before: ColumnStatistics, now: ColumnStatistics) -> float:
    """How far the mean has moved, in the larger of the two standard deviations; 0 for a column that never changed.

    Columns of two values are let be: they are shares, and a share may become any other.
    """
    spread = max(before.standard_deviation, now.standard_deviation)
    if before.constant or spread == 0.0 or now.count == 0 or two_valued(before):
        return 0.0
    return (now.mean - before.mean) / spread


def two_valued(column: ColumnStatistics) -> bool:
    """Whether a column takes its least and its largest value only.

    The variance of what lies in [a, b] is (mean - a)(b - mean) at most, and that for two values only.
    Source: Bhatia & Davis, American Mathematical Monthly 107(4), 2000.
    """
    most = (column.mean - column.minimum) * (column.maximum - column.mean)
    return not column.constant and abs(column.standard_deviation**2 - most) <= TWO_VALUED * most


def stopped_changing(before: ColumnStatistics, now: ColumnStatistics, level: float) -> bool:
    """Whether a column is constant now, and chance would not make so many rows alike, were they as before.

    With c the value now, E (X - c)^2 = spread^2 + (mean - c)^2 is at most P(X != c) max (X - c)^2: so at least that
    share of rows is expected to differ.
    """
    if not now.constant or now.count == 0 or before.constant or two_valued(before):
        return False
    farthest = max(abs(before.maximum - now.mean), abs(before.minimum - now.mean))
    differ = (before.standard_deviation**2 + (before.mean - now.mean) ** 2) / farthest**2
    return now.count * float(np.log1p(-min(differ, 1.0 - 1e-12))) < float(np.log(level))


def _labels(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    labels = baseline.schema.labels
    if not labels:
        return
    now = np.array([profile.labels.get(label, 0) for label in labels], dtype=np.int64)
    distance, p_value = label_distance(np.array(baseline.class_counts, dtype=np.int64), now)
    if distance > contract.label_distance and p_value < contract.level:
        before = np.array(baseline.class_counts) / sum(baseline.class_counts)
        shares = {str(label): [float(b), float(n)] for label, b, n in zip(labels, before, now / now.sum(), strict=True)}
        worst = max(shares, key=lambda label: abs(shares[label][1] - shares[label][0]))
        yield Finding(
            "label-shares",
            f"{name}: the shares of labels are {distance:.2f} from those so far (expected {contract.label_distance:g} "
            f"at most): {worst} was {shares[worst][0]:.1%} and is {shares[worst][1]:.1%}.",
            {"distance": distance, "p_value": p_value, "shares": shares},
        )


def _ranges(profile: Profile, name: str, baseline: Baseline, contract: ContractSettings) -> Iterator[Finding]:
    schema = baseline.schema
    counts = dict(zip(schema.features, profile.beyond.tolist(), strict=True))
    if schema.task == "regression":
        counts[schema.target] = profile.target_beyond
    shares = {column: count / profile.rows for column, count in counts.items()}
    if beyond := {column: share for column, share in shares.items() if share > contract.range_share}:
        told = [f"{column} in {share:.1%} of rows" for column, share in beyond.items()]
        yield Finding(
            "out-of-range",
            f"{name}: values lie far beyond what was seen so far: {', '.join(told[:5])}; expected "
            f"{contract.range_share:.1%} at most.",
            {"shares": dict(list(beyond.items())[:SHOWN]), "limit": contract.range_share},
        )
