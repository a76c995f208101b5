"""Runs that were broken off and can be gone on with: finding them by name, folder, or by whoever began them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from okl.checkpoints.folder import Head, read_head
from okl.configuration import TrainSettings, settings_from
from okl.errors import CheckpointError
from okl.home import okl_home
from okl.planning import run_folder
from okl.runfolder import checkpoints_in, name_of, resumable, resumable_in
from okl.store.places import place_of
from okl.store.publishing import is_leftover, local_folder


def find_unfinished(run: str) -> Path:
    """The unfinished folder of a run.

    Parameters
    ----------
    run : the name of a run in okl's home, the folder that it was to take, or its unfinished folder itself

    Raises
    ------
    CheckpointError : there is none; the message names those that there are
    """
    place = place_of(run).absolute()
    if not isinstance(place, Path) and place.exists() and not is_leftover(place):
        raise CheckpointError(f"{place} is complete: there is nothing left to resume.")
    path = local_folder(place)
    if resumable(path):
        return path
    places = [path] if "/" in run else [path, okl_home() / "runs" / run]
    for place in places:
        if place.exists():
            raise CheckpointError(f"{place} is complete: there is nothing left to resume.")
        if found := [one for one in resumable_in(place.parent) if name_of(one) == place.name]:
            return max(found, key=lambda one: max(latest.stat().st_mtime for latest in checkpoints_in(one)))
    there = sorted({name_of(one) for place in places for one in resumable_in(place.parent)})
    told = f"Those that can be: {', '.join(there)}." if there else "Train again without --resume."
    raise CheckpointError(f"No unfinished run {run!r} with a checkpoint is in {places[-1].parent}. {told}")


def begun_by(key: str, settings: TrainSettings) -> Path | None:
    """The unfinished folder of a run that somebody began with a key; None if it left no checkpoint."""
    for folder in resumable_in(local_folder(run_folder(settings)).parent):
        with suppress(CheckpointError):  # somebody else's, damaged
            if newest_head(folder).about["key"] == key:
                return folder
    return None


def newest_head(folder: Path) -> Head:
    """What the newest checkpoint of an unfinished run says of itself."""
    return read_head(max(checkpoints_in(folder), key=lambda one: one.stat().st_mtime_ns))


def settings_of(folder: Path) -> TrainSettings:
    """The settings that an unfinished run was begun with.

    Raises
    ------
    CheckpointError : the checkpoint is damaged, or of settings that this okl does not have
    """
    stored: Mapping[str, Any] = newest_head(folder).about["settings"]
    unknown = sorted(set(stored) - set(TrainSettings.model_fields))
    if unknown:
        raise CheckpointError(
            f"{folder} was begun with settings that this okl does not have: {', '.join(unknown)}. Go on with the okl "
            "that it began with."
        )
    return settings_from(TrainSettings, dict(stored), str(folder))
