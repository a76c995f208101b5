"""What a version to be is other than the one before it: figures, data and settings, for its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.registry.entry import CHAMPION
from okl.registry.lineage import Lineage
from okl.registry.model import RegisteredModel
from okl.registry.version import Version
from okl.store.wording import flat

BY_PLACE = ("data", "name", "out", "weights_sha256", "judging")  # of settings: where things lie, or what judged them


def version_before(model: RegisteredModel) -> Version | None:
    """The champion, or the newest version where there is none; None of a model that has no version."""
    head = model.head()
    if not head.state.latest:
        return None
    return model.resolved(head.state.latest if head.state.champion is None else CHAMPION, head)


def changes_since(before: Version, now: Lineage, what: str) -> dict[str, Any]:
    """Both values by name, that of the version before in front, of all that is not the same.

    Parameters
    ----------
    what : the version before is, for people

    Returns
    -------
    name, what, same_rows; metrics, data, settings: name to a pair; as `okl.store.reportchanges.changes` draws it
    """
    # one that goes on, or looks at a window again, has as its own what its parent had not
    counted = "{} learnt" if before.lineage.parent is None and now.parent is None else "new {}"
    pairs = {
        "metrics": (_figures(before.lineage.metrics), _figures(now.metrics)),
        "data": (_data(before.lineage, counted), _data(now, counted)),
        "settings": _settings(before.lineage.settings, now.settings),
    }
    return {"name": str(before), "what": what, "same_rows": False} | {
        part: {
            name: [one.get(name), other.get(name)]
            for name in dict.fromkeys([*one, *other])
            if one.get(name) != other.get(name)
        }
        for part, (one, other) in pairs.items()
    }


def _figures(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a run its test rows, of a retraining the reserved rows."""
    parts = (metrics.get(part) for part in ("test", "challenger", "progressive"))
    return next((dict(part) for part in parts if part), {})


def _data(lineage: Lineage, counted: str) -> dict[str, Any]:
    """counted : the name of a number of shards or rows."""
    shards = lineage.shards
    times = [shard["last_time"] for shard in shards if shard.get("last_time") is not None]
    return {
        counted.format("shards"): len(shards),
        counted.format("rows"): sum(int(shard.get("rows", 0)) for shard in shards),
        "last shard": shards[-1].get("name") if shards else None,
    } | ({"latest time": times[-1]} if times else {})


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Texts of settings by name; where one is a run's and the other a retraining's, of those that both have."""
    one, other = (dict(flat(_of_learning(settings))) for settings in (before, now))
    alike = ("train" in before) == ("train" in now)
    names = one.keys() | other.keys() if alike else one.keys() & other.keys()
    kept = [{name: text for name, text in texts.items() if name in names} for texts in (one, other)]
    return kept[0], kept[1]


def _of_learning(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A retraining keeps those of learning under a name of their own."""
    together = {**(settings.get("train") or {}), **{name: settings[name] for name in settings if name != "train"}}
    return {name: value for name, value in together.items() if name not in BY_PLACE}
