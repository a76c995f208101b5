"""The base of all runs: stages, data, output folder, execution, timeline, result and clean-up."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, count
from os import getpid
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from okl.data.dataset import Dataset, Scale
from okl.data.execution import Execution
from okl.data.ingest.run import check_not_ingested, check_source, ingest
from okl.data.manifest import is_dataset, open_dataset
from okl.distributed import open_for
from okl.foundation.folders import PublishedFolder, RunFolder
from okl.foundation.locations import Place, name_after, okl_home, place_of
from okl.foundation.settings import ExecutionSettings, IngestSettings
from okl.foundation.telemetry import NullObserver, Observer, Timeline, naming, recording

if TYPE_CHECKING:
    from okl.runs.compare_settings import CompareSettings
    from okl.solvers.settings import TrainSettings

    DataSettings = TrainSettings | CompareSettings  # of a data set, or of a source that is ingested first

SettingsT = TypeVar("SettingsT", bound=BaseModel)


@dataclass(eq=False)
class Run(ABC, Generic[SettingsT]):
    """A run: `perform` it, or call `perform_stage` for each of its `stages` in order and always `close` it.

    Each stage is a method without arguments that returns a summary to log. A subclass names its stages, its output
    folder if it has one, and the settings of its execution.

    in_memory : whether the data are a temporary file of a table in memory, whose location nothing may keep
    """

    STAGES: ClassVar[tuple[str, ...]]

    settings: SettingsT
    observer: Observer = field(default_factory=NullObserver)
    in_memory: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.timeline = Timeline()
        self.output: RunFolder | PublishedFolder | None = None
        self._resources = ExitStack()
        self._execution: Execution | None = None
        self._result: dict[str, Any] = {}

    # What a subclass defines

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name of the run in logs."""

    @abstractmethod
    def report_markdown(self) -> str:
        """Return the report as Markdown with embedded figures."""

    @abstractmethod
    def metrics_table(self) -> list[dict[str, Any]]:
        """Return the metrics, one flat row each."""

    def check_settings(self) -> None:
        """Raise an error for wrong settings or data without reading rows or starting a server or workers."""

    def open_execution(self) -> Execution:
        assert isinstance(self.settings, ExecutionSettings), "other settings say how"
        return open_for(self.settings, self.name)

    # What all runs share

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the names of the stages in order."""
        return self.STAGES

    @property
    def execution(self) -> Execution:
        """Return the execution of the run, opened at the first use."""
        if self._execution is None:
            self._execution = self.open_execution()
        return self._execution

    @property
    def folder(self) -> Place:
        assert self.output is not None, "this run has an output folder"
        return self.output.folder

    @property
    def staging(self) -> Path:
        """Return the folder in which the output is written until the run is complete."""
        assert self.output is not None, "this run has an output folder"
        return self.output.staging

    def perform(self) -> dict[str, Any]:
        """Check the settings, perform all stages, close the run in any case, and return its result."""
        self.check_settings()
        try:
            for stage in self.stages:
                self.perform_stage(stage)
            return self.result()
        finally:
            self.close()
            self.observer.finish()

    def perform_stage(self, stage: str) -> dict[str, Any]:
        """Perform a stage and return its summary."""
        if not self.timeline.stages:
            self._resources.enter_context(recording(self.timeline))
            self._resources.enter_context(naming(self.name))
        self.begin_stage(stage)
        summary: dict[str, Any] = getattr(self, stage)()
        return summary

    def begin_stage(self, stage: str) -> None:
        """Record the start of a stage, or of a long part of one."""
        self.observer.stage(stage)
        self.timeline.stage(stage)

    def report_rows(self, done: int, total: int | None) -> None:
        """Report the progress of a stage in rows."""
        self.observer.advance(done, total or 0, {})

    def complete(self, file: str = "result.json") -> None:
        assert self.output is not None, "this run has an output folder"
        (self.staging / file).write_text(json.dumps(self._result, indent=1, allow_nan=False))
        self.output.complete()

    def result(self) -> dict[str, Any]:
        """Return the object that the command prints with --json."""
        return self._result

    def close(self) -> None:
        """Close the workers, and remove an incomplete output folder unless it can be resumed."""
        try:
            if self._execution is not None:
                self._execution.close()
                self._execution = None
        finally:
            self._resources.close()
            if self.output is not None:
                self.output.close()


def new_run_folder(out: str | None, name: str) -> Place:
    """Return `out`, or a new folder named by the run and the time in okl's home folder."""
    if out is not None:
        return place_of(out).absolute()
    stem = f"{name}-{datetime.now():%Y%m%d-%H%M%S}-{getpid()}"
    runs = okl_home() / "runs"
    folders = chain([stem], (f"{stem}-{k}" for k in count(2)))  # a chain: unpacking an endless count fills the memory
    return next(runs / folder for folder in folders if not (runs / folder).exists())


def run_folder(settings: DataSettings, prefix: str = "") -> Place:
    """Return the folder of a run: `out`, or a new folder named by the model and the time in okl's home folder."""
    return new_run_folder(settings.out, prefix + (settings.name or name_after(settings.data)))


def check_data(
    settings: DataSettings, check: Callable[[Dataset], None], check_unread: Callable[[IngestSettings], None]
) -> None:
    """Check a data set, or a source before it is ingested; DataError for data, ConfigError for settings."""
    if is_dataset(settings.data):
        check_not_ingested(settings.data, settings.ingest)
        check(open_dataset(settings.data))
        return
    ingest_settings = settings.ingest or IngestSettings()
    check_source(settings.data, ingest_settings)
    check_unread(ingest_settings)


DEFAULT_HOLDOUT = 0.2
IN_MEMORY = "table in memory"
Trial = Callable[[IngestSettings, Dataset, Callable[[IngestSettings, Path], Dataset]], IngestSettings]


def open_run_data(
    run: Run[Any],
    settings: DataSettings,
    default_holdout: float | None = None,
    default_scale: Scale = "none",
    trial: Trial | None = None,
) -> Dataset:
    """Open the data set of a run, or ingest its source into the output folder, on the workers if there are any.

    default_holdout : share of test rows of a source without a split, drawn by class
    default_scale : scaling of a source whose settings have none; see `okl.data.ingest.run.ingest`
    trial : returns better settings by the data set of the given ones and others; see `okl.runs.encodings`
    """
    if is_dataset(settings.data):
        return open_dataset(settings.data)
    ingest_settings = settings.ingest or IngestSettings()
    destination = run.staging / "data"
    by = partial(ingest, settings.data, default_holdout=default_holdout, default_scale=default_scale)
    of_run = partial(by, destination, progress=run.report_rows, execution=run.execution)
    made = of_run(ingest_settings)
    if trial is not None:
        better = trial(ingest_settings, made.dataset, lambda given, folder: by(folder, given).dataset)
        if better != ingest_settings:
            run.observer.stage("ingest")
            made = of_run(better, overwrite=True)
    if run.in_memory:
        run.settings = run.settings.model_copy(update={"data": IN_MEMORY})
    return made.dataset
