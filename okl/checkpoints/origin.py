"""What a checkpoint belongs to: data, settings, code. What differs in one of them would not learn the same bits."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from okl import extensions
from okl.configuration import TrainSettings
from okl.errors import CheckpointError
from okl.planning import mode_of
from okl.provenance import RECORDED, processor, version_of
from okl.store.dataset import Dataset

WHERE_IT_RUNS = frozenset(
    {"workers", "scheduler", "cluster", "tls", "threads", "out", "name", "checkpoint_seconds", "checkpoint_rounds"}
)
"""Settings that decide no bit of the model."""


@dataclass(frozen=True)
class Origin:
    """What a run learns from, and by which code.

    settings : all of them, as JSON; mode : what auto means there
    data_sha256 : of the manifest, which holds those of its shards; source_sha256 : of okl's own code
    versions : of okl, Python, what computes, and extensions in use; processor : kind
    key : of whoever began the run, "" for nobody
    """

    settings: dict[str, Any]
    mode: str
    data_sha256: str
    source_sha256: str
    versions: dict[str, str]
    processor: str
    key: str = ""

    @classmethod
    def of(cls, settings: TrainSettings, data: Dataset, key: str = "") -> Origin:
        """Of a run that begins, or goes on, now."""
        versions = {name: version_of(name) for name in RECORDED} | {"python": platform.python_version()}
        versions |= extensions.origins(settings.solver, settings.loss, settings.map)
        stored = settings.model_dump(mode="json")
        return cls(stored, mode_of(settings), data.sha256, source_sha256(), versions, processor(), key)

    def going_on(self, about: Mapping[str, Any]) -> Origin:
        """Of a run that is gone on with, from what its checkpoint says: what auto means stays, wherever it runs now."""
        settings = self.settings | _place_in(about["settings"])
        return replace(self, key=about["key"], mode=about["mode"], settings=settings)

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)


def _place_in(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings those that tell what the mode auto means, beside the solver."""
    return {name: settings[name] for name in ("workers", "scheduler", "cluster")}


def in_mode_of(begun: Mapping[str, Any], settings: TrainSettings) -> TrainSettings:
    """Settings of a run that is gone on with, in the mode that auto meant where it was begun.

    In another mode it would not learn the same bits.

    begun : settings that the run was begun with, as JSON, from which these may differ in where the work runs
    """
    mode = mode_of(settings.model_copy(update=_place_in(begun)))
    return settings if mode == mode_of(settings) else settings.model_copy(update={"mode": mode})


def refuse_other_settings(about: Mapping[str, Any], settings: TrainSettings, run: str) -> None:
    """Raise CheckpointError if settings are not those that a run was begun with, but for where it runs.

    The mode auto is what it was there, see `in_mode_of`.

    about : what a checkpoint of the run says that it belongs to
    """
    before: dict[str, Any] = about["settings"] | {"mode": about["mode"]}
    now = settings.model_dump(mode="json") | {"mode": mode_of(in_mode_of(before, settings))}
    for name in now:
        if name not in WHERE_IT_RUNS and now[name] != before.get(name):
            raise CheckpointError(
                f"{run} was begun with {name} = {before.get(name)!r}, but {name} = {now[name]!r} was given. Leave it "
                "out to go on with that run, or leave --resume out to begin another."
            )


def refuse_other_origin(stored: Origin, now: Origin, data: object, run: str) -> None:
    """Raise CheckpointError unless data and code are those that a checkpoint was written with.

    data, run : where they are, for people
    """
    if stored.data_sha256 != now.data_sha256:
        raise CheckpointError(
            f"{run} learnt from data of sha256 {stored.data_sha256[:12]}, but {data} has {now.data_sha256[:12]}. Bring "
            "back the data that it began with, or leave --resume out to begin another run."
        )
    before, after = (
        stored.versions | {"code": stored.source_sha256[:12]},
        now.versions | {"code": now.source_sha256[:12]},
    )
    differing = [name for name in after if before.get(name) != after[name]]
    if differing:
        then, here = (", ".join(f"{name} {one.get(name)}" for name in differing) for one in (before, after))
        raise CheckpointError(
            f"{run} was begun with {then}, but this is {here}: it would not learn the same bits. Go on with the okl "
            "that it began with, or leave --resume out to begin another run."
        )


@cache
def source_sha256() -> str:
    """Of all of okl's own code: a version number says little of a checkout."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
