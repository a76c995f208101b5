"""A model that is retrained while good and bad shards arrive, and the checks at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from okl.lifecycle.retrain import retrain
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.registry import Registry
from tests.lifecycle.shards import content, land

ROWS, FEW = 8_000, 10


class Story:
    """The shards of a model, and checks of what was learnt from them."""

    def __init__(self, place: Path, name: str, train: dict[str, Any]) -> None:
        self.inbox, registry = place / f"in-{name}", str(place / "registry")
        self.settings = RetrainSettings.model_validate({
            "name": name, "source": str(self.inbox), "registry": registry, "settle_seconds": 0,
            "publish_if": "not worse", "ingest": {"scale": "standard", "keys": ["hour"]},
            "train": {"frequencies": 100, "bandwidth": 1.0, "seed": 1, "threads": 1, **train},
        })  # fmt: skip
        self.model = Registry(registry).model(name)
        self.day, self.next = 0, Counter[str]()
        self.wrong: dict[str, str] = {}

    @property
    def words(self) -> list[str]:
        """Arguments of the command, with the same settings."""
        return [
            *(self.settings.name, str(self.inbox), "--registry", str(self.settings.registry), "--settle-seconds", "0"),
            *("--publish-if", "not worse", "--scale", "standard", "--key", "hour", "--frequencies", "100"),
            *("--bandwidth", "1", "--step-size", "0.5", "--seed", "1", "--threads", "1"),
        ]

    def arrive(self) -> None:
        """Add the shard of a day; every fourth day also one that is too small or has its labels flipped."""
        self.day += 1
        land(self.inbox, f"day-{self.day:03d}.parquet", content(self.day, ROWS))
        if self.day % 4 == 2:
            land(self.inbox, few := f"few-{self.day:03d}.parquet", content(self.day + 10_000, FEW))
            self.wrong[few] = "too-few-rows"
        if self.day % 4 == 0:
            land(self.inbox, flipped := f"flipped-{self.day:03d}.parquet", content(self.day + 20_000, ROWS, True))
            self.wrong[flipped] = "contradiction"

    def check_champion(self, before: int) -> None:
        """Raise unless the champion is whole, and is the previous or the next version."""
        version = Registry(self.settings.registry).model(self.settings.name).version()
        version.verify()
        version.load()
        assert version.number in (before, before + 1), (before, version.number)

    def finish(self) -> list[str]:
        """Retrain until all accepted shards are learnt; return failed checks."""
        while retrain(self.settings)["outcome"] != "published":
            self.arrive()
        store = ShardStore(self.model.folder / "data")
        lineage: list[Any] = [
            shard for one in self.model.ancestry(self.model.version()) for shard in one.lineage.shards
        ]
        counts, records = Counter(shard["sha256"] for shard in lineage), store.records().values()
        accepted = {one.sha256: one for one in records if one.status == "accepted"}
        quarantined = {one.name: one.findings[0].kind for one in records if one.status == "quarantined"}
        print(
            f"{self.settings.name}: next runs: {dict(self.next)}; {self.model.version().number} versions of "
            f"{self.day + len(self.wrong)} shards, {len(self.wrong)} of them bad"
        )
        return [
            *(["a shard is twice, or not, in the lineage"] if counts != Counter(accepted.keys()) else []),
            *(["rows are missing"] if sum(one["rows"] for one in lineage) != sum(
                one.train_rows for one in accepted.values()) else []),
            *(["a shard is lost"] if len(accepted) + len(quarantined) != self.day + len(self.wrong) else []),
            *([f"quarantined were {quarantined}"] if quarantined != self.wrong else []),
        ]  # fmt: skip
