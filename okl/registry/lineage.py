"""Where a version comes from: its parent, what it learnt, how, and why it was published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from okl.errors import RegistryError
from okl.registry.sealed import digest_of

WINDOW_ROWS = "window_rows"  # in the environment of what was solved anew: rows of the shards that were read


def is_of_retraining(result: Mapping[str, Any]) -> bool:
    """Whether a result.json beside a model is a retraining's: its names mean other things than a run's.

    Its `progressive` is a list of shards, and its `metrics` are those of champion and challenger on reserved rows.
    """
    return "judged_on" in result


@dataclass(frozen=True)
class Lineage:
    """Of one version; that of its ancestors stands with them. All of it is kept as JSON, and outlasts pruning.

    parent : number of the version that it went on from; None: it began anew
    shards : what this version learnt and its parent had not, in order: sha256, name, rows and what else is known
    settings : those that decide its bits, and what else makes learning the same shards again another thing
    environment : code, packages, processor; metrics : measured figures; decision : what was decided, and why
    """

    parent: int | None = None
    shards: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Keep everything as JSON gives it back; raises RegistryError for what JSON does not hold."""
        try:
            for name, value in asdict(self).items():
                kept = json.loads(json.dumps(value, allow_nan=False))
                object.__setattr__(self, name, tuple(kept) if name == "shards" else kept)
        except (TypeError, ValueError) as error:
            raise RegistryError(f"A lineage holds what JSON does not ({error}). Give plain, finite values.") from None

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any]) -> Lineage:
        """Of what `as_json` gave."""
        return cls(**stored)

    def as_json(self) -> dict[str, Any]:
        """For the log."""
        return asdict(self)

    def identity(self, parent_identity: str | None) -> str:
        """The digest of what decides a version: its parent, its shards in their order, its settings.

        Code, packages and figures are left out: a window that was learnt is not learnt again after an upgrade.
        """
        shards = [shard["sha256"] for shard in self.shards]
        return digest_of({"parent": parent_identity, "shards": shards, "settings": dict(self.settings)})
