"""How a run begins or goes on: the folder that it is kept in, and the data in it or elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from okl.checkpoints.origin import refuse_other_settings
from okl.checkpoints.unfinished import newest_head
from okl.configuration import IngestSettings, TrainSettings
from okl.execution.protocol import Execution
from okl.runfolder import CHECKPOINT, RunFolder, name_of, resumable_in
from okl.runlog import run_logger
from okl.store.dataset import Dataset
from okl.store.ingest import ingest
from okl.store.manifest import is_dataset, open_dataset, verify
from okl.store.publishing import PublishedFolder, local_folder

_LOG = run_logger()


def open_folder(
    place: RunFolder | PublishedFolder, settings: TrainSettings, resume: Path | None
) -> dict[str, Any] | None:
    """Make a run's folder, or lock the one that is gone on with.

    Parameters
    ----------
    place : where the run will be kept; resume : unfinished folder of a run of the same settings, None for a new run

    Returns
    -------
    what the checkpoint in the unfinished folder says that it belongs to, None for a new run

    Raises
    ------
    CheckpointError : the unfinished run had other settings; ConfigError : the place is taken or cannot be written to
    """
    if resume is None:
        place.open()
        if others := resumable_in(local_folder(place.folder).parent):
            names = ", ".join(name_of(one) for one in others)
            _LOG.warning("Unfinished, to be gone on with by okl train --resume: %s.", names)
        return None
    place.reopen(resume)
    about = newest_head(resume).about
    refuse_other_settings(about, settings, str(place.folder))
    # vectors too: workers of a process that was killed may live a little longer, and write to those of its name
    for left in resume.iterdir():
        if left.name not in (CHECKPOINT, "data"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return about


def open_data(
    place: RunFolder | PublishedFolder,
    settings: TrainSettings,
    resumed: bool,
    progress: Callable[[int, int | None], None],
    opened: Callable[[], Execution],
) -> Dataset:
    """Open the data set of a run, or make one from its source in the run's folder, or verify what was made there.

    opened : opens the place where work runs; called where a source is ingested, which its workers then do
    """
    if is_dataset(settings.data):
        return open_dataset(settings.data)
    here = place.beside / "data"
    if resumed:
        made = open_dataset(here)
        verify(made)
        return made
    asked = settings.ingest or IngestSettings()
    return ingest(settings.data, here, asked, progress=progress, execution=opened()).dataset
