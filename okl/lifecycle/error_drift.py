"""Drift between shards.

All mistakes are made before training on the rows, each by the champion of its day; those of the first run's shards on
their reserved rows, by its champion. If nothing changes, a champion that is replaced by a better one only makes fewer,
not more: so a shard fires if it has more than chance explains (Fisher's exact test, one-sided) and a quarter more at
least. Days differ among themselves, so the deviation is taken in units of what they vary by: of the mean square of
successive differences, and of rates that vary by a tenth, which counts like twelve degrees of freedom with one shard
before, falling to four as more estimate it. One shard before is enough. A shard alone may not be: the latest two, three
and four are tested together, too, if each has a quarter more. Shards just before, each of which has clearly more by
itself, belong to the signal, unless its last shard has clearly more than they: then it is another change. After it the
comparison restarts without all of them: their champion was of the old relation. A return to it fires, too.

Mistakes say little of a rare class: a model that ranks rows by chance makes hardly more. So the rows of a class of less
than a fifth are tested in the same way: how many of them the champion gives a probability below the share of the class.
With 48 such rows a night, none of 3,600 nights fired where the missed share, .3, varies by at most 10%, and one that
doubles after five nights is found at its first night in 20%, within two in 63% of streams; with 200 rows, from .2, in
75% and 98%.

Where nothing changes, of binomial counts (200 or 1500 rows a shard, rates .05 and .2, 40 shards) none of 9,600 shards
fired if days are alike, 1 to 11 in a thousand where rates vary by 20% from day to day, 3 to 51 where they vary by 40%.
With 1500 rows and 10 shards before, a rate that goes from .05 to .1 is found at its first shard in 99% of streams if
days are alike, in 85% if they vary by 10%, and at the second in all. One from .23 to .34 with 7 shards of 1024 rows
before is found at its first shard in 53% and 31%, within two in 99% and 60%; one from .3 to .52 with 3 shards of 390
rows before at its first in 86% and 69%; one from .19 to .31 (850 rows) after a single shard of 1400 within two in 53%
and 54%, within five in 78%.

Source: see okl.solvers.base; a variance combined with a prior one, and Student's t: Smyth, Statistical Applications in
Genetics and Molecular Biology 3(1), 2004; degrees of freedom of the mean square successive difference: von Neumann et
al., Annals of Mathematical Statistics 12, 1941 (its efficiency is two thirds).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from okl.report.format import number, p_text
from okl.solvers.base import LEVEL, excess_spread, fisher_test

MOST_PAST = 30  # shards
MOST_POOLED = 4  # latest shards that are tested together
LARGER = 1.25  # times the rate before
SUSPICIOUS = 0.05  # p-value from which on a larger rate is no longer called alike
TAKEN_SPREAD = 0.1  # of rates from day to day, as a share of them
TAKEN_DEGREES = 4.0, 12.0  # degrees of freedom that it counts like, with many shards before and with one


@dataclass(frozen=True)
class ShardScores:
    """Errors of the champion on the rows of a shard before training on them.

    version : of the champion; rows : scored; wrong : of these, rows of another class, or missed by more than the limit
    error, constant : mistake rate or mean squared error, of it and of the majority class or mean
    past_rate : mistakes a row in the shards before; p_value : that so many more are chance; None where nothing is
        compared; fired : whether that is a signal; together : of how many of the latest shards
    reserved : whether the rows are the reserved ones of a shard of the first run
    of_rare, rare_missed : rows of a rare class, and of these the rows that the champion gives less than its share
    rare : whether the signal is of these rows
    """

    version: int
    rows: int
    wrong: int
    error: float
    constant: float
    past_rate: float | None = None
    p_value: float | None = None
    fired: bool = False
    together: int = 1
    reserved: bool = False
    of_rare: int = 0
    rare_missed: int = 0
    rare: bool = False

    @property
    def rate(self) -> float:
        """Return mistakes a row; of a signal of a rare class, the share of its rows that are missed."""
        return self.rare_missed / self.of_rare if self.rare else self.wrong / max(1, self.rows)

    def of_rare_class(self) -> ShardScores:
        """Return the errors on the rows of the rare class alone."""
        return replace(self, rows=self.of_rare, wrong=self.rare_missed, rare=False)


def compared(past: Sequence[ShardScores], now: ShardScores) -> ShardScores:
    """Compare a shard with the past ones of the champion and its ancestors, in the order of training."""
    by_mistakes = _compared(past, now)
    if by_mistakes.fired:
        return by_mistakes
    rare = _compared([one.of_rare_class() for one in past], now.of_rare_class())
    names = ("past_rate", "p_value", "fired", "together")
    return replace(now, rare=True, **{name: getattr(rare, name) for name in names}) if rare.fired else by_mistakes


def _compared(past: Sequence[ShardScores], now: ShardScores) -> ShardScores:
    signal = max((index for index, scores in enumerate(past) if scores.fired), default=-1)
    before = [scores for scores in past[signal + 1 :] if scores.rows][-MOST_PAST:]
    if not before or now.rows == 0:
        return now
    alone, most = _tested(before, [now]), min(MOST_POOLED, len(before))
    signals = ((n, *_pooled(before, now, n)) for n in range(1, most + 1))
    together, p_value, past_rate = next((one for one in signals if one[1] <= LEVEL), (0, *alone))
    while 0 < together < most:  # earlier ones belong to it, if each has clearly more by itself, but not clearly less
        earlier = before[-together]
        of_one, of_signal = _tested(before[:-together], [earlier]), _tested([earlier], [now])
        is_less = of_signal[0] <= LEVEL and now.rate > LARGER * earlier.rate
        if is_less or of_one[0] > SUSPICIOUS or earlier.rate <= LARGER * of_one[1]:
            break
        together += 1
        p_value, past_rate = _pooled(before, now, together)
    return replace(now, past_rate=past_rate, p_value=p_value, fired=together > 0, together=max(1, together))


def _pooled(before: Sequence[ShardScores], now: ShardScores, together: int) -> tuple[float, float]:
    """Return the p-value of the latest shards, 1 unless each has a quarter more mistakes, and the rate before them."""
    past, latest = before[: len(before) + 1 - together], [*before[len(before) + 1 - together :], now]
    p_value, rate = _tested(past, latest)
    return p_value if all(one.rate > LARGER * rate for one in latest) else 1.0, rate


def _tested(before: Sequence[ShardScores], latest: Sequence[ShardScores]) -> tuple[float, float]:
    """Return the p-value of the mistakes in the latest shards, and the rate in those before."""
    wrongs = np.array([float(scores.wrong) for scores in before])
    counts = np.array([float(scores.rows) for scores in before])
    wrong, rows = sum(scores.wrong for scores in latest), sum(scores.rows for scores in latest)
    verdict = fisher_test(int(wrongs.sum()), int(counts.sum()), wrong, rows)
    p_value, rate = verdict.p_value, verdict.past_rate
    if 0.0 < p_value < 1.0 and 0.0 < rate < 1.0:
        degrees = 2.0 * (len(before) - 1) / 3.0
        observed = excess_spread(wrongs, counts) if len(before) > 1 else 1.0
        by_chance = rate * (1.0 - rate) * (1.0 / rows + 1.0 / counts.sum())
        days = 1.0 / len(latest) + 1.0 / len(counts)
        taken = float(1.0 + (TAKEN_SPREAD * rate) ** 2 * days / by_chance)
        taken_degrees = max(TAKEN_DEGREES[0], TAKEN_DEGREES[1] - 2.0 * degrees)
        excess = (degrees * observed + taken_degrees * taken) / (degrees + taken_degrees)
        deviation = -float(special.ndtri(p_value)) / math.sqrt(excess)
        p_value = float(special.stdtr(degrees + taken_degrees, -deviation))
    return p_value, rate


def drift_of(scored: Mapping[str, ShardScores], limit: float | None = None, rare: str = "") -> dict[str, Any]:
    """Return the entry "drift" of a result: whether a shard of this run fired or nearly, why, and the figures of each.

    scored : by the name of the shard
    limit : of a regression, the error above which a row counts as missed, in units of the target; None for classes
    rare : label of the rare class; "" for none
    """
    fired = {name: scores for name, scores in scored.items() if scores.fired}
    return {
        "found": bool(fired),
        "suspected": any(map(_is_suspicious, scored.values())),
        "why": _sentence(scored, fired, limit, rare),
        "level": LEVEL,
        "shards": {name: asdict(scores) | {"rate": scores.rate} for name, scores in scored.items()},
    }


def _sentence(
    scored: Mapping[str, ShardScores], fired: Mapping[str, ShardScores], limit: float | None, rare: str
) -> str:
    wrong = "wrong" if limit is None else f"off by more than {number(limit)}"
    if not scored:
        return "No new rows were scored by a champion."
    tested = {name: scores for name, scores in scored.items() if scores.p_value is not None}
    if not tested:
        return "Drift was not tested: there is no earlier shard, none since the last drift, or no later rows are new."
    name, worst = min((fired or tested).items(), key=lambda item: item[1].p_value or 0.0)
    more = f", and {len(fired) - 1} more" if len(fired) > 1 else ""
    errors = (
        f"the champion is {wrong} on {worst.rate:.1%} of {name}{more}, after {worst.past_rate:.1%} in the shards before"
    )
    if worst.rare:
        errors = (
            f"the champion gives {worst.rate:.1%} of the rows of {rare!r} in {name}{more} a probability below the "
            f"share of this class, after {worst.past_rate:.1%} in the shards before"
        )
    if fired:
        latest = f" of the latest {worst.together} shards" if worst.together > 1 else ""
        return f"Drift{latest}: {errors} ({p_text(worst.p_value or 0.0)})."
    if worst.rate > LARGER * (worst.past_rate or 0.0):
        chance = f"{p_text(worst.p_value or 0.0)}, limit {LEVEL:g}"
        advice = " If you know that the rows have changed: --choose again --window-shards N trains on the latest N."
        advice = advice if _is_suspicious(worst) else ""
        return f"No significant drift: {errors}, but so few shards may differ by chance ({chance}).{advice}"
    return f"No drift: the champion is {wrong} on the new rows about as often as on the earlier shards."


def _is_suspicious(scores: ShardScores) -> bool:
    """Return whether a shard has clearly more errors than the ones before, significantly so or nearly."""
    if scores.p_value is None or scores.past_rate is None:
        return False
    return scores.p_value < SUSPICIOUS and scores.rate > LARGER * scores.past_rate
