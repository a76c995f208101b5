"""Champion or challenger: paired tests on rows that neither has learnt, a margin, and a reason as a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scipy import stats

from okl.retraining.pairs import ALL, SHARD, Pairs
from okl.types import Task

FEWEST_ROWS = 30  # of a slice that counts
TESTS = {
    "binary": "exact McNemar test",
    "multiclass": "exact McNemar test",
    "regression": "paired t-test of squared errors",
}


@dataclass(frozen=True)
class Verdict:
    """Champion and challenger on the same rows.

    champion, challenger : mistake rate, or mean squared error in the target's unit; gain : the former minus the latter
    p_better, p_worse : one-sided, that so much is chance
    """

    rows: int
    champion: float
    challenger: float
    gain: float
    p_better: float
    p_worse: float


@dataclass(frozen=True)
class Rule:
    """When a challenger is published.

    needed : "better": better by the margin, and that is none of chance; "not worse": not worse by more than the margin,
        and what it is worse by may be chance
    margin : of the mistake rate, of regression as a share of the champion's squared error
    level : of the tests; slice_margin : by which no slice may be worse beyond chance, as the margin
    shards : whether each shard is such a slice; otherwise shards are only told, as what changes in time is learnt by
        forgetting what was
    """

    needed: Literal["better", "not worse"] = "better"
    margin: float = 0.0
    level: float = 0.05
    slice_margin: float = 0.02
    shards: bool = False


@dataclass(frozen=True)
class Decision:
    """What was decided, and why.

    kind : "publish" or "keep"; reason : one sentence; test : by which; overall : of all rows; slices : by name
    worse_slices : names of those that are worse beyond chance and margin
    """

    kind: Literal["publish", "keep"]
    reason: str
    test: str
    overall: Verdict | None
    slices: Mapping[str, Verdict]
    worse_slices: tuple[str, ...] = ()

    @property
    def publish(self) -> bool:
        """Whether the challenger becomes champion."""
        return self.kind == "publish"

    def as_json(self) -> dict[str, Any]:
        """For lineage and report; figures that are not finite are left out."""
        return asdict(self) | {"slices": {name: asdict(one) for name, one in self.slices.items()}}


def verdict_of(task: Task, pairs: Pairs) -> Verdict:
    """What the sums of two predictors, the champion first, say.

    Source: exact test of McNemar, Psychometrika 12, 1947, as in Dietterich, Neural Computation 10, 1998, section 3.1.
    """
    n = max(1, pairs.rows)
    champion, challenger = pairs.first / n, pairs.second / n
    better, worse = _paired_t(pairs) if task == "regression" else _mcnemar(pairs.only_first, pairs.only_second)
    return Verdict(pairs.rows, champion, challenger, champion - challenger, better, worse)


def decide(
    task: Task, pairs: Mapping[str, Pairs], rule: Rule, other: str = "the champion", missing: tuple[str, ...] = ()
) -> Decision:
    """Whether a challenger is published.

    Parameters
    ----------
    pairs : sums of champion and challenger over reserved rows, by slice, ALL for all
    other : what the challenger is compared with, for people
    missing : labels that no reserved row has
    """
    test = TESTS[task]
    whole = pairs.get(ALL)
    if whole is None or whole.rows == 0:
        return Decision("keep", "There is no reserved row to judge on, so nothing was published.", test, None, {})
    overall = verdict_of(task, whole)
    named = {
        name: verdict_of(task, one) for name, one in sorted(pairs.items()) if name != ALL and one.rows >= FEWEST_ROWS
    }
    scale = overall.champion if task == "regression" else 1.0
    bound = {name: one for name, one in named.items() if rule.shards or not name.startswith(SHARD)}
    level = rule.level / max(1, len(bound))  # Bonferroni
    worse = tuple(name for name, one in bound.items() if -one.gain > rule.slice_margin * scale and one.p_worse <= level)
    figures = _figures(task, overall, other)
    lacking = f" No reserved row has the label {' or '.join(missing)}." if missing else ""
    if worse:
        told = "; ".join(f"{name}: {_rates(task, named[name])}" for name in worse[:3])
        reason = f"Kept: the challenger is worse on {len(worse)} of {len(bound)} slices ({told}). {figures}{lacking}"
        return Decision("keep", reason, test, overall, named, worse)
    publish, why = _by_rule(overall, rule, rule.margin * scale, other)
    reason = f"{'Published' if publish else 'Kept'}: {why}. {figures}{lacking}"
    return Decision("publish" if publish else "keep", reason, test, overall, named)


def _by_rule(overall: Verdict, rule: Rule, margin: float, other: str) -> tuple[bool, str]:
    by = f" by the margin of {rule.margin:g}" if rule.margin else ""
    if rule.needed == "better":
        if overall.gain <= 0.0 or overall.gain < margin:
            return False, f"the challenger is not better than {other}{by}"
        if overall.p_better > rule.level:
            return False, f"that the challenger is better than {other} may be chance (p = {overall.p_better:.2g})"
        return True, f"the challenger is better than {other}{by} (p = {overall.p_better:.2g})"
    if -overall.gain > margin and overall.p_worse <= rule.level:
        return False, f"the challenger is worse than {other}{by} (p = {overall.p_worse:.2g})"
    return True, f"the challenger is not worse than {other}{by}"


def _mcnemar(only_champion: int, only_challenger: int) -> tuple[float, float]:
    """One-sided p-values that the challenger is better, and worse, by chance."""
    n = only_champion + only_challenger
    if n == 0:
        return 1.0, 1.0
    return float(stats.binom.sf(only_champion - 1, n, 0.5)), float(stats.binom.sf(only_challenger - 1, n, 0.5))


def _paired_t(pairs: Pairs) -> tuple[float, float]:
    n = pairs.rows
    if n < 2:
        return 1.0, 1.0
    mean = (pairs.first - pairs.second) / n
    variance = max(0.0, (pairs.differences - n * mean**2) / (n - 1))
    if variance == 0.0:
        return (1.0, 1.0) if mean == 0.0 else (0.0, 1.0) if mean > 0 else (1.0, 0.0)
    t = mean / math.sqrt(variance / n)
    return float(stats.t.sf(t, n - 1)), float(stats.t.cdf(t, n - 1))


def _figures(task: Task, overall: Verdict, other: str) -> str:
    return f"On {overall.rows:,} reserved rows: {_rates(task, overall, other)}."


def _rates(task: Task, one: Verdict, other: str = "the champion") -> str:
    if task == "regression":
        return f"squared error {one.challenger:.6g}, {other} {one.champion:.6g}"
    return f"{one.challenger:.2%} wrong, {other} {one.champion:.2%}"
