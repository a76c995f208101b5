"""Training in this process, from the first check to the report, and the stages that a run goes through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from okl.configuration import TrainSettings
from okl.planning import check, check_workers
from okl.progress import NullObserver, Observer, perform
from okl.trainingrun import TrainingRun

TRAIN_STAGES = ("ingest", "plan", "learn", "evaluate", "save", "report")


def stages_of(settings: TrainSettings) -> tuple[str, ...]:
    """The stages of a run: with "certify" after "evaluate" if it is asked for."""
    place = TRAIN_STAGES.index("save")
    return (*TRAIN_STAGES[:place], "certify", *TRAIN_STAGES[place:]) if settings.certify else TRAIN_STAGES


def train(settings: TrainSettings, observer: Observer | None = None, resume: Path | None = None) -> dict[str, Any]:
    """Train, evaluate and save a model in this process (and on Dask if the settings say so), without Prefect.

    Parameters
    ----------
    settings : everything that decides the model; observer : whoever watches
    resume : unfinished folder of a run of the same settings, to go on with; see okl.checkpoints.unfinished

    Returns
    -------
    what `okl train --json` prints: model, run, rows, seconds, progressive, train, test, baselines, ...

    Raises
    ------
    OklError : one sentence that says what is wrong; nothing half-written stays
    """
    check_before(settings, resume)
    return perform(TrainingRun(settings, observer or NullObserver(), resume), stages_of(settings))


def check_before(settings: TrainSettings, resume: Path | None) -> None:
    """Refuse what can be known to be wrong before anything is started; see `okl.planning.check`.

    resume : see `train`; what a run was begun with was checked then, and its source need not be there any more
    """
    if resume is None:
        check(settings)
    else:
        check_workers(settings)
