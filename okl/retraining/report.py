"""The report of a retraining: is the new model better, what changed, can it be trusted, where does it err."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.retraining.pairs import SHARD
from okl.retraining.pictures import errors_picture, verdicts_picture
from okl.retraining.settings import RetrainSettings
from okl.retraining.wording import in_vain, passed_over
from okl.store.pagehtml import html_page
from okl.store.pagemarkdown import markdown_page
from okl.store.pageparts import Block, Grid, Section, Warned, Words, cut
from okl.store.reportchanges import changes, difference
from okl.store.reportmistakes import mistake_tables
from okl.store.reportreliability import reliability_bars
from okl.store.wording import flat, metric_name, number, seconds

MOST_ROWS = 50
FACTS = ("version", "parent", "how", "bytes_read", "registry")


def report_markdown(result: Mapping[str, Any]) -> str:
    """The report as markdown, its pictures as data URIs; what there is nothing of is left out."""
    return markdown_page(_title(result), _lead(result), _sections(result))


def report_html(result: Mapping[str, Any]) -> str:
    """One page without any outside reference; light or dark as the reader's system is."""
    return html_page(_title(result), _lead(result), _sections(result))


def _title(result: Mapping[str, Any]) -> str:
    return f"Retraining of {result['model']}: {result['outcome']}"


def _lead(result: Mapping[str, Any]) -> list[Block]:
    rejected = len(result["shards"]["rejected"])
    took = f"It learnt for {seconds(result['seconds'])}; everything together took {seconds(result['total_seconds'])}."
    lead: list[Block] = [Words(result["reason"]), Words(took)]
    if result["progressive"]:
        lead.append((Warned if result["drift"]["found"] else Words)(result["drift"]["why"]))
    lead += [Words(line) for line in passed_over(result["shards"]) if line not in result["reason"]]
    lead += [Warned(line) for line in in_vain(result["shards"])]
    if rejected:
        were = "1 shard was rejected; its file stays where it is." if rejected == 1 else ""
        lead.append(Warned(were or f"{rejected} shards were rejected; their files stay where they are."))
    return lead


def _sections(result: Mapping[str, Any]) -> list[Section]:
    counted = result.get("counted") or {}
    before = result.get("previous") or {}
    changed = changes({name: value for name, value in before.items() if name != "metrics"})
    trust = [Words(result["certified"])] if result["certified"] else []
    reliable = reliability_bars(counted, "reserved rows")
    mistakes = mistake_tables(
        counted, counted.get("labels") or (), counted.get("target", "the target"), "reserved rows"
    )
    facts = {name: result[name] for name in FACTS if result[name] is not None}
    settings = RetrainSettings.model_validate(result["settings"]).model_dump(mode="json", exclude_defaults=True)
    told = [list(pair) for pair in flat(facts | {"settings": settings})]
    found = [
        Section(
            "good", "Is the new one better?", [*verdicts_picture(result), *_shown(_metrics(result), _slices(result))]
        ),
        *([changed] if changed is not None else []),
        Section("trust", "Can I trust it?", [*trust, *errors_picture(result), *reliable]),
        Section("mistakes", "Where are the new one's mistakes?", mistakes),
        Section("new", "What was new, and what was learnt?", _shown(*_shards(result))),
        Section("facts", "Settings and the run", [Grid("Settings that were given, and the run", (), told)]),
    ]
    return [section for section in found if section.blocks]


def _metrics(result: Mapping[str, Any]) -> Grid:
    metrics = result["metrics"]
    champion, challenger = (metrics.get(name, {}) for name in ("champion", "challenger"))
    rows = [
        [metric_name(name), number(champion.get(name)), number(value), difference(champion.get(name), value)]
        for name, value in challenger.items()
        if value is not None
    ]
    return Grid("On the same reserved rows", ("", "champion", "challenger", "change"), rows)


def _slices(result: Mapping[str, Any]) -> Grid:
    decision = result["decision"] or {}
    ages = {age: decision.get(age) for age in ("newest", "before")}
    slices = {f"{age} reserved rows": one for age, one in ages.items() if one} if ages["before"] else {}
    slices |= decision.get("slices") or {}
    rows = [
        [
            name.removeprefix(SHARD),
            number(one["rows"]),
            number(one["champion"]),
            number(one["challenger"]),
            f"{one['p_worse']:.2g}",
        ]
        for name, one in slices.items()
    ]
    return Grid("Errors by slice", ("slice", "rows", "champion", "challenger", "p that it is worse by chance"), rows)


def _shards(result: Mapping[str, Any]) -> list[Grid]:
    shards = result["shards"]
    new = [[one["name"], number(one["rows"])] for one in shards["accepted"]]
    rejected = [[one["name"], ", ".join(one["kinds"]), one.get("reason", "")] for one in shards["rejected"]]
    scored = [
        [one["shard"], *(number(one[name]) for name in ("rows", "error", "constant", "agreement"))]
        for one in result["progressive"]
    ]
    learnt = [
        [one["shard"], *(number(one[name]) for name in ("rows", "error", "baseline_error"))]
        for one in result["learning"]
    ]
    return [
        Grid("Rejected shards", ("shard", "kinds", "reason"), rejected, wide=True, words=True),
        Grid("New shards", ("shard", "rows"), new),
        Grid(
            "New rows as the champion saw them, before they were learnt",
            ("shard", "rows", "error", "constant's", "agreement"),
            scored,
        ),
        Grid("Learning, each row predicted before it was learnt", ("shard", "rows", "error", "baseline's"), learnt),
    ]


def _shown(*tables: Grid) -> list[Grid]:
    """Those that have rows, not all of them if they are many."""
    return [table._replace(rows=cut(table.rows, MOST_ROWS)) for table in tables if table.rows]
