"""A retraining in sentences: how it ended, and what is proved of what it learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_NAMED = 10  # shards


def summary_sentence(result: Mapping[str, Any]) -> str:
    """One sentence for a terminal.

    >>> summary_sentence({"model": "churn", "outcome": "kept", "reason": "Kept: no better. 14% wrong.",
    ...                   "drift": {"found": False}})
    'churn: kept the champion. No better. 14% wrong.'
    """
    outcome, reason = str(result["outcome"]), str(result["reason"])
    version = f", version {result['version']}" if result.get("version") else ""
    drift = f" {result['drift']['why']}" if result["drift"]["found"] else ""
    if reason.lower().startswith(f"{outcome}: "):
        reason = reason[len(outcome) + 2 :]
        reason = reason[:1].upper() + reason[1:]
    told = "kept the champion" if outcome == "kept" else outcome
    return f"{result['model']}: {told}{version}. {reason}{drift}"


def apart_sentence(apart: int, rows: int, published: bool) -> str:
    """What a champion that was published from a run knows, and a challenger that begins without it does not; or ""."""
    if not apart:
        return ""
    told = (
        f" The champion was published from a run of {apart:,} rows, the challenger began with {rows:,} of the folder."
    )
    return told if published else f"{told} Put those rows there, too, and challengers know them."


def solvers_sentence(champion: Mapping[str, Any], challenger: str) -> str:
    """Of a challenger that is another kind of model than the champion, whose configuration is given; or "".

    >>> solvers_sentence({"solver": "ridge"}, "fogd")
    ' The champion so far was learnt by ridge, the challenger by fogd; --solver ridge learns as before.'
    >>> solvers_sentence({"solver": "fogd"}, "fogd")
    ''
    """
    before = champion.get("solver")  # none where a comparison chose the champion
    if before is None or before == challenger:
        return ""
    return (
        f" The champion so far was learnt by {before}, the challenger by {challenger}; "
        f"--solver {before} learns as before."
    )


def summary_text(result: Mapping[str, Any]) -> str:
    """The same with what was learnt from, what was not and why, and where it can be read again."""
    shards = result["shards"]
    lines = [summary_sentence(result)]
    if learnt := shards["learnt"]:
        rows = sum(one["rows"] for one in learnt)
        lines.append(f"shards: {_named([one['name'] for one in learnt])} ({rows:,} rows)")
    if result.get("report"):
        lines.append(f"report: {result['report']}")
    lines += [f"Warning: {line}" for line in in_vain(shards)]
    vain = {one["sha256"] for one in shards["released_in_vain"]}
    for one in shards["rejected"][:MOST_NAMED]:
        if one["sha256"] not in vain:
            why = one.get("reason") or f"{', '.join(one['kinds'])}."
            lines.append(f"Warning: {one['name']} is {one['status']}: {why}{_remedy(one)}")
    if left := [one["name"] for one in (*shards["rejected"][MOST_NAMED:], *shards["standing"])]:
        lines.append(f"Warning: quarantined before, and still there: {_named(left)}.")
    lines += [line for line in passed_over(shards) if line not in str(result["reason"])]
    return "\n".join(lines)


def passed_over(shards: Mapping[str, Any]) -> list[str]:
    """Sentences about files that a run did not look into: changed just now, or the same bytes as files before.

    >>> same = [{"name": "day8.csv", "same_as": "day4.csv", "status": "not learnt again"}]
    >>> passed_over({"still_written": ["b.csv"], "under_another_name": same})
    ['Left to the next run, as it was changed just now: b.csv.', 'day8.csv is the same as day4.csv: not learnt again.']
    """
    fresh = shards["still_written"]
    were = "it was" if len(fresh) == 1 else "they were"
    lines = [f"Left to the next run, as {were} changed just now: {_named(fresh)}."] if fresh else []
    for status in ("not learnt again", "quarantined"):
        same = [one for one in shards["under_another_name"] if one["status"] == status]
        if len(same) == 1:
            lines.append(f"{same[0]['name']} is the same as {same[0]['same_as']}: {status}.")
        elif same:
            pairs = [f"{one['name']} (the same as {one['same_as']})" for one in same]
            lines.append(f"{status.capitalize()}: {_named(pairs)}.")
    return lines


def in_vain(shards: Mapping[str, Any]) -> list[str]:
    """Sentences about files that were to be released, and cannot be learnt whatever is said."""
    lines = []
    for one in shards["released_in_vain"][:MOST_NAMED]:
        asked = f"--release {one['sha256'][:16]} has no effect"
        if one["there"]:
            lines.append(f"{asked}: such rows cannot be learnt. {one['reason']}{_remedy(one)}")
        else:
            lines.append(f"{asked}: {one['name']} is no longer there as it was, and so it could not be learnt.")
    return lines


def _remedy(rejected: Mapping[str, Any]) -> str:
    if rejected["status"] != "quarantined":  # its rows are learnt from another file
        return ""
    if not rejected.get("releasable", True):
        return " Mend the file and put it in again."
    return f" Learn it anyway: --release {rejected['sha256'][:16]}"


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def certified_sentence(online: bool, certificate: Mapping[str, Any] | None) -> str:
    """What is proved of what was learnt: of an online learner that went on, nothing but its own curve."""
    if online:
        return (
            "Nothing is certified: an online learner's regret is bounded from the beginning of its stream, and rows "
            "before are not read again; its errors on rows before they were learnt and on reserved rows are measured."
        )
    if certificate is None:
        return ""
    return (
        f"Certified over the rows of this window alone: {certificate['kind']} {certificate['gap']:.3g}, an objective "
        f"of {certificate['objective']:.6g}; where the solver began does not enter the proof."
    )
