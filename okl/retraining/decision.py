"""Champion or challenger: paired tests on rows that neither has learnt, a margin, and a reason as a sentence.

Rows change in time or they do not, and nobody says which. "better" looks at the newest reserved rows first, those of
the shards that the challenger has learnt and the champion has not: there it must make fewer mistakes. Where that may be
chance, it must not be worse on the reserved rows before by more than chance: a shard that is noise makes a challenger
that is, as only a real change makes one that is clearly better on the newest rows and worse on those before.

Each night's newest reserved rows are looked at for the first time if the night before was published. While challengers
are kept they are looked at again, with more: from the second look on, the k-th has level / (k (k + 1)),
so that all of them together spend one and a half times the level at most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scipy import stats

from okl.retraining.pairs import ALL, BEFORE, NEWEST, SHARD, Pairs
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

    needed : "better": better by the margin on the newest rows, and clearly so, or on those before not clearly worse;
        "clearly better": on all of them, by the margin, and that is none of chance; "not worse": on all of them not
        worse by more than the margin, and what it is worse by may be chance
    margin : of the mistake rate, of regression as a share of the champion's squared error
    level : of the tests; slice_margin : by which no slice may be worse beyond chance, as the margin
    shards : whether each shard is such a slice; otherwise shards are only told, as what changes in time is learnt by
        forgetting what was
    """

    needed: Literal["better", "clearly better", "not worse"] = "better"
    margin: float = 0.0
    level: float = 0.05
    slice_margin: float = 0.02
    shards: bool = False


@dataclass(frozen=True)
class Decision:
    """What was decided, and why.

    kind : "publish" or "keep"; reason : one sentence; test : by which; overall : of all rows; slices : by name
    worse_slices : names of those that are worse beyond chance and margin
    newest, before : of the rows of shards that the challenger alone has learnt, and of those before
    """

    kind: Literal["publish", "keep"]
    reason: str
    test: str
    overall: Verdict | None
    slices: Mapping[str, Verdict]
    worse_slices: tuple[str, ...] = ()
    newest: Verdict | None = None
    before: Verdict | None = None

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
    task: Task,
    pairs: Mapping[str, Pairs],
    rule: Rule,
    other: str = "the champion",
    missing: tuple[str, ...] = (),
    looks: int = 0,
) -> Decision:
    """Whether a challenger is published.

    Parameters
    ----------
    pairs : sums of champion and challenger over reserved rows, by slice: ALL for all, NEWEST and BEFORE for the shards
        that the challenger alone has learnt and those before; without these two all rows are the newest
    other : what the challenger is compared with, for people
    missing : labels that no reserved row has
    looks : how often challengers of this champion were kept before
    """
    test = TESTS[task]
    whole = pairs.get(ALL)
    if whole is None or whole.rows == 0:
        return Decision("keep", "There is no reserved row to judge on, so nothing was published.", test, None, {})
    overall, newest = verdict_of(task, whole), verdict_of(task, pairs.get(NEWEST, whole))
    before = verdict_of(task, pairs[BEFORE]) if BEFORE in pairs else None
    level = rule.level / ((looks + 1) * (looks + 2)) if looks else rule.level
    named = {
        name: verdict_of(task, one)
        for name, one in sorted(pairs.items())
        if name not in (ALL, NEWEST, BEFORE) and one.rows >= FEWEST_ROWS
    }
    bound = {name: one for name, one in named.items() if rule.shards or not name.startswith(SHARD)}
    worse = _worse_slices(task, bound, rule, level, overall.champion)
    lacking = f" No reserved row has the label {' or '.join(missing)}." if missing else ""
    figures = _figures(task, overall, newest, before, other) + lacking
    if worse:
        told = "; ".join(f"{name}: {_rates(task, named[name])}" for name in worse[:3])
        publish, why = False, f"the challenger is worse on {len(worse)} of {len(bound)} slices ({told})"
    else:
        publish, why = _by_rule(task, overall, newest, before, rule, level, other)
    reason = f"{'Published' if publish else 'Kept'}: {why}. {figures}"
    return Decision("publish" if publish else "keep", reason, test, overall, named, worse, newest, before)


def _worse_slices(
    task: Task, bound: Mapping[str, Verdict], rule: Rule, level: float, champion: float
) -> tuple[str, ...]:
    """Those that are worse by more than the margin, and beyond chance, by Bonferroni."""
    least = rule.slice_margin * (champion if task == "regression" else 1.0)
    share = level / max(1, len(bound))
    return tuple(name for name, one in bound.items() if -one.gain > least and one.p_worse <= share)


def _by_rule(
    task: Task, overall: Verdict, newest: Verdict, before: Verdict | None, rule: Rule, level: float, other: str
) -> tuple[bool, str]:
    by = f" by the margin of {rule.margin:g}" if rule.margin else ""
    judged = newest if rule.needed == "better" else overall
    margin = rule.margin * (judged.champion if task == "regression" else 1.0)
    if rule.needed == "not worse":
        if -judged.gain > margin and judged.p_worse <= level:
            return False, f"the challenger is worse than {other}{by} (p = {judged.p_worse:.2g})"
        return True, f"the challenger is not worse than {other}{by}"
    where = " on the newest rows" if before is not None and rule.needed == "better" else ""
    if judged.gain <= 0.0 or judged.gain < margin:
        return False, f"the challenger is not better than {other}{by}{where}"
    if judged.p_better <= level:
        return True, f"the challenger is better than {other}{by}{where} (p = {judged.p_better:.2g})"
    chance = f"that the challenger is better than {other}{where} may be chance (p = {judged.p_better:.2g})"
    if before is None or rule.needed == "clearly better":
        return False, chance
    if before.gain < 0.0 and before.p_worse <= level:
        return False, f"{chance}, and it is worse on those before (p = {before.p_worse:.2g})"
    slight = f"by less than chance explains (p = {judged.p_better:.2g})"
    return True, f"the challenger is better than {other}{by}{where}, {slight}, and not clearly worse on those before"


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


def _figures(task: Task, overall: Verdict, newest: Verdict, before: Verdict | None, other: str) -> str:
    if before is None:
        return f"On {overall.rows:,} reserved rows: {_rates(task, overall, other)}."
    return (
        f"On the {newest.rows:,} newest reserved rows: {_rates(task, newest, other)}; on the {before.rows:,} before: "
        f"{_rates(task, before, other)}."
    )


def _rates(task: Task, one: Verdict, other: str = "the champion") -> str:
    if task == "regression":
        return f"squared error {one.challenger:.6g}, {other} {one.champion:.6g}"
    return f"{one.challenger:.2%} wrong, {other} {one.champion:.2%}"
