"""One version of a model as lines to read: how good it is, what it learnt and by which settings, where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.configuration import IngestSettings, TrainSettings
from okl.registry.describe import flattened
from okl.registry.wording import judged_rows, own_figures, size
from okl.store.texttables import aligned
from okl.store.wording import flat, number

PAGE = "report.html"
HIDDEN = ("out", "name", "weights_sha256")  # of settings: they decide nothing


def version_text(found: Mapping[str, Any], whole: bool = False) -> str:
    """Of `describe_one`: how good it is, what it learnt and by which settings, and where it lies.

    whole : with every setting, what it was made with, and all shards
    """
    shards = found["shards"]
    decided = (found["decision"] or {}).get("reason")
    rows = [["aliases", ", ".join(found["aliases"]) or "-"], ["published", f"{found['at']} by {found['by']}"]]
    rows += [["why", str(decided or found["why"])]] if decided or found["why"] else []
    if judged := judged_rows(found):
        # an online learner that began anew has no parent, and was held against the champion all the same
        before = "majority class or mean" if found["version"] == 1 else "the champion then"
        rows.append(["measured on", f"{judged:,} reserved rows of the latest shards then; before: {before}"])
    rows += [[f"metrics.{name}", text] for name, text in own_figures(found["metrics"])]
    given = _given(found)
    rows += [[f"settings.{name}", text] for name, text in flat(found["settings"]) if whole or name in given]
    in_all = f"; with all ancestors {_learnt(found['shards_in_all'], found['rows_in_all'])}" if found["parent"] else ""
    learnt_from = _learnt_from(found)
    rows += _rows({
        "new" if learnt_from else "learnt": _learnt(len(shards), found["rows"]) + in_all,
        **({"learnt from": learnt_from} if learnt_from else {}),
        "parent": found["parent"],
        "files": "pruned" if found["pruned"] else f"{found['folder']} ({size(found['size_bytes'])})",
    })  # fmt: skip
    if PAGE in found["files"] and not found["pruned"]:
        rows.append(["report", f"{found['folder']}/{PAGE}"])
    head = f"{found['model']}@{found['version']}"
    if not whole:
        more = f"every setting, what it was made with, and its shards: okl models show {head} --all"
        return "\n".join([head, *aligned(rows), "", more])
    rows += _rows({"identity": found["identity"], "ancestors": found["ancestors"]})
    for part in ("decision", "environment"):
        rows += [[f"{part}.{name}", text] for name, text in flat(found[part])]
    learnt = [["shard", "rows", "sha256"]]
    learnt += [[str(one.get("name", "-")), number(one.get("rows")), one["sha256"][:16]] for one in shards]
    return "\n".join([head, *aligned(rows), "", *aligned(learnt)])


def _learnt(shards: int, rows: int) -> str:
    return f"{shards:,} {'shard' if shards == 1 else 'shards'}, {rows:,} rows"


def _learnt_from(found: Mapping[str, Any]) -> str:
    """How many rows, and how, where that is more to say than what was new; "" otherwise."""
    how, rows = str(found["environment"].get("how") or ""), found["learnt_rows"]
    told = [f"{rows:,} rows"] if rows is not None and (how or rows != found["rows"]) else []
    return ": ".join([*told, *([how] if how else [])])


def _given(found: Mapping[str, Any]) -> set[str]:
    """Names of the settings that say what was learnt from and by which solver, and of those not as they are anyway."""
    train = TrainSettings.model_construct(data="").model_dump(mode="json")
    usual = flattened(train | {"ingest": IngestSettings().model_dump(mode="json")})
    told = set()
    for name, value in flattened(found["settings"]).items():
        setting = name.removeprefix("train.")
        odd = setting not in HIDDEN and not setting.startswith("judging.") and usual.get(setting, value) != value
        if odd or setting in ("data", "solver"):
            told.add(name)
    return told


def _rows(facts: Mapping[str, Any]) -> list[list[str]]:
    """Facts as rows of a table."""
    return [[name, text] for name, text in flat(facts)]
