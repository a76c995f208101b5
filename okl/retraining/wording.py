"""A retraining in words and tables: what was new, what was rejected and why, both models' figures, the decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.comparison.report import Page, TableOfPage, html_page, markdown_page
from okl.retraining.pairs import SHARD
from okl.retraining.pictures import pictures_of
from okl.retraining.settings import RetrainSettings

MOST_ROWS = 50
FACTS = ("version", "parent", "how", "seconds", "total_seconds", "bytes_read", "registry")


def summary_sentence(result: Mapping[str, Any]) -> str:
    """One sentence for a terminal."""
    version = f", version {result['version']}" if result.get("version") else ""
    drift = f" {result['drift']['why']}" if result["drift"]["found"] else ""
    return f"{result['model']}: {result['outcome']}{version}. {result['reason']}{drift}"


def report_markdown(result: Mapping[str, Any]) -> str:
    """The report as markdown, its pictures as data URIs; what there is nothing of is left out."""
    return markdown_page(page_of(result))


def report_html(result: Mapping[str, Any]) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    return html_page(page_of(result))


def page_of(result: Mapping[str, Any]) -> Page:
    """What the report says."""
    told = [result["reason"]]
    told += [result["drift"]["why"]] if result["progressive"] else []
    told += [result["certified"]] if result["certified"] else []
    shards = result["shards"]
    standing = f"{len(shards['rejected'])} shards were rejected; their files stay where they are."
    return Page(
        title=f"Retraining of {result['model']}: {result['outcome']}",
        sentences=told,
        warnings=[standing] if shards["rejected"] else [],
        tables=[table for table in _tables(result) if table[2]],
        pictures=pictures_of(result),
        facts={name: result[name] for name in FACTS if result[name] is not None}
        | {"settings": _given(result["settings"])},
    )


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is not as it is by default; all of it stands in the version's lineage."""
    return RetrainSettings.model_validate(settings).model_dump(mode="json", exclude_defaults=True)


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


def _tables(result: Mapping[str, Any]) -> list[TableOfPage]:
    shards = result["shards"]
    new = [[one["name"], f"{one['rows']:,}"] for one in shards["accepted"]]
    rejected = [[one["name"], ", ".join(one["kinds"]), one.get("reason", "")] for one in shards["rejected"]]
    scored = [
        [one["shard"], f"{one['rows']:,}", *(f"{one[name]:.4g}" for name in ("error", "constant", "agreement"))]
        for one in result["progressive"]
    ]
    learnt = [
        [one["shard"], f"{one['rows']:,}", f"{one['error']:.4g}", f"{one['baseline_error']:.4g}"]
        for one in result["learning"]
    ]
    return [
        ("New shards", ("shard", "rows"), _shown(new)),
        ("Rejected shards", ("shard", "kinds", "reason"), _shown(rejected)),
        (
            "New rows as the champion saw them, before they were learnt",
            ("shard", "rows", "error", "constant", "agreement"),
            _shown(scored),
        ),
        ("Learning, each row predicted before it was learnt", ("shard", "rows", "error", "baseline"), _shown(learnt)),
        ("On the same reserved rows", ("metric", "champion", "challenger"), _metrics(result["metrics"])),
        (
            "By slice",
            ("slice", "rows", "champion", "challenger", "p that it is worse by chance"),
            _shown(_slices(result["decision"])),
        ),
    ]


def _metrics(metrics: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    names = [name for name in metrics.get("challenger", {}) if metrics["challenger"][name] is not None]
    champion = metrics.get("champion", {})
    return [[name, _figure(champion.get(name)), _figure(metrics["challenger"][name])] for name in names]


def _slices(decision: Mapping[str, Any] | None) -> list[list[str]]:
    ages = {age: (decision or {}).get(age) for age in ("newest", "before")}
    slices = {f"{age} reserved rows": one for age, one in ages.items() if one} if ages["before"] else {}
    slices |= (decision or {}).get("slices") or {}
    return [
        [
            name.removeprefix(SHARD),
            f"{one['rows']:,}",
            f"{one['champion']:.4g}",
            f"{one['challenger']:.4g}",
            f"{one['p_worse']:.2g}",
        ]
        for name, one in slices.items()
    ]


def _shown(rows: list[list[str]]) -> list[list[str]]:
    more = [[f"and {len(rows) - MOST_ROWS} more", *[""] * (len(rows[0]) - 1)]] if len(rows) > MOST_ROWS else []
    return [*rows[:MOST_ROWS], *more]


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "-"
