"""Training runs: folder, data, stages, and the function that performs them without Prefect."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from okl.data.dataset import Dataset
from okl.data.executor import Execution
from okl.data.ingest.run import ingest
from okl.data.manifest import is_dataset, open_dataset, verify
from okl.distributed import open_for
from okl.distributed.opening import RunExecution, check_workers
from okl.foundation.errors import ConfigError, DivergedError
from okl.foundation.folders import (
    CHECKPOINT,
    PublishedFolder,
    RunFolder,
    local_folder,
    name_of,
    output_folder,
    resumable_in,
)
from okl.foundation.locations import Place
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import NullObserver, Observer, Timeline, naming, perform, recording, run_logger
from okl.models.file import save_model
from okl.report.results import RunResult
from okl.report.timeline import record_timeline
from okl.report.training import markdown_report, text_summary, write_report
from okl.runs.checkpoint import (
    MAIN,
    NoCheckpoints,
    Origin,
    RunCheckpoints,
    check_same_origin,
    check_same_settings,
    in_mode_of,
    newest_head,
)
from okl.runs.history import run_folder
from okl.runs.loop import TrainedSolver, run_loop
from okl.runs.plan import check, plan_memory_on
from okl.runs.results import RunRecord, flat_metrics, split_metrics
from okl.runs.select import choose_solver
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.base import Solver
from okl.solvers.factory import Certified, linear_alternative, make_solver, training_columns
from okl.solvers.online.settings import OnlineSettings
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.settings import TrainSettings

# Folder and data of a new or resumed run

_LOG = run_logger()


def open_folder(
    run_folder: RunFolder | PublishedFolder, settings: TrainSettings, resume: Path | None
) -> dict[str, Any] | None:
    """Create the folder of a run, or lock the one to resume.

    Parameters
    ----------
    run_folder : folder of the run
    settings : settings of the run
    resume : unfinished folder of a run with the same settings; None for a new run

    Returns
    -------
    origin stored in the checkpoint of the unfinished folder; None for a new run

    Raises
    ------
    CheckpointError : the unfinished run had other settings
    ConfigError : the folder exists or cannot be written
    """
    if resume is None:
        run_folder.open()
        if others := resumable_in(local_folder(run_folder.folder).parent):
            names = ", ".join(name_of(run) for run in others)
            _LOG.warning("Unfinished runs that okl train --resume can resume: %s.", names)
        return None
    run_folder.reopen(resume)
    about = newest_head(resume).about
    check_same_settings(about, settings, str(run_folder.folder))
    # vectors too: workers of a killed process may live longer and still write to its files
    for left in resume.iterdir():
        if left.name not in (CHECKPOINT, "data"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return about


def open_data(
    run_folder: RunFolder | PublishedFolder,
    settings: TrainSettings,
    resumed: bool,
    progress: Callable[[int, int | None], None],
    opened: Callable[[], Execution],
) -> Dataset:
    """Open the data set of a run; ingest a source into the run's folder, or verify the ingested one when resuming.

    opened : opens the execution, on whose workers a source is ingested
    """
    if is_dataset(settings.data):
        return open_dataset(settings.data)
    data_folder = run_folder.beside / "data"
    if resumed:
        made = open_dataset(data_folder)
        verify(made)
        return made
    ingest_settings = settings.ingest or IngestSettings()
    return ingest(settings.data, data_folder, ingest_settings, progress=progress, execution=opened()).dataset


# Stages of a run

VECTORS = "vectors"
_TRAININGRUN_LOG = run_logger()


@dataclass(eq=False)
class TrainingRun:
    """Training run: call the stages of `stages_of` in order, then always `close`.

    `close` removes the files of an incomplete run unless it can be resumed.

    Parameters
    ----------
    resume : unfinished folder of a run to resume
    key : identifier under which the starter of the run can find it again
    """

    settings: TrainSettings
    observer: Observer = field(default_factory=NullObserver)
    resume: Path | None = None
    key: str = ""

    def __post_init__(self) -> None:
        self._place = output_folder(run_folder(self.settings))
        self._begun = time.perf_counter()
        self._timeline, self._notes = Timeline(), ExitStack()
        self._result: dict[str, Any] = {}
        self._account = RunRecord(self._place)
        self._running = RunExecution(lambda: open_for(self.settings, self.folder.name))
        self._keeper: RunCheckpoints | None = None
        self._scratch: Path | None = None
        self._begun_with: dict[str, Any] | None = None

    @property
    def folder(self) -> Place:
        """Return the folder of the complete run."""
        return self._place.folder

    @property
    def data(self) -> Dataset:
        """Return the training data set."""
        return self._account.data

    def ingest(self) -> dict[str, Any]:
        """Open the data set, or ingest the source into the run's folder."""
        self._notes.enter_context(recording(self._timeline))
        self._notes.enter_context(naming(self.folder.name))
        self._timeline.stage("ingest")
        about = open_folder(self._place, self.settings, self.resume)
        data = open_data(self._place, self.settings, self.resume is not None, self._ingest_progress, self._running)
        named = None if is_dataset(self.settings.data) else self.settings.data
        self._account.data = training_columns(self.settings, data, named)
        self._origin = Origin.of(self.settings, self.data, self.key)
        if about is not None:
            self._begun_with = about["settings"]
            self._origin = self._origin.going_on(about)
            check_same_origin(Origin(**about), self._origin, self.data.folder, str(self.folder))
        return {"rows": {name: self.data.rows(name) for name in ("train", "test")}, "shards": len(self.data.shards)}

    def plan(self) -> dict[str, Any]:
        """Start workers, choose open settings and start the solver, or restore its state from a checkpoint."""
        self._timeline.stage("plan")
        execution = self._running()
        self._resolve_settings()
        settings = self.settings
        self._account.memory = memory = plan_memory_on(settings, self.data, execution)
        _TRAININGRUN_LOG.info("%s: %s", self.folder.name, memory.sentence(execution.n_workers))
        self.solver = self._make_solver()
        self._keeper = RunCheckpoints(
            self._place.beside,
            self._origin,
            settings.checkpoint_seconds,
            settings.checkpoint_rounds,
            {"data": self.data} | ({} if self._scratch is None else {"scratch": self._scratch}),
            self._scratch,
            self._begun,
        )
        stored_position = self._keeper.resume()
        self._begin: Any = self.solver.start(self.data, execution) if stored_position is None else stored_position
        return self.solver.chosen(self._begin if stored_position is None else stored_position.state)

    def learn(self) -> dict[str, Any]:
        """Run the training loop."""
        self._timeline.stage("learn")
        keeper, execution = self._keeping(), self._running()
        try:
            self._account.learnt = trained = run_loop(
                self.solver, self._begin, self.data, execution, self.observer, keeper.of(MAIN)
            )
        except DivergedError:
            self._place.discard()
            raise
        # before `evaluate`, whose linear baseline has its own rounds
        self._account.traffic = keeper.total_traffic(execution)
        fast = self._account.rows_per_second(self.settings)
        return {"rows": self.data.rows("train"), "seconds": trained.seconds, "rows_per_second": fast}

    def evaluate(self) -> dict[str, Any]:
        """Evaluate the model, the constant and the linear baseline on both splits."""
        self._timeline.stage("evaluate")
        account, execution, settings = self._account, self._running(), self.settings
        account.linear = train_linear_baseline(settings, self.solver, self.data, execution, self._keeping())
        account.measure(settings, execution)
        return {split: split_metrics(self.data.schema, account.tallies, split, "model") for split in account.tallies}

    def certify(self) -> dict[str, Any]:
        """Compute the certificate: regret of an online run, or the gap of Pegasos."""
        self._timeline.stage("certify")
        proof = self._account.prove(self.settings, self._running(), self.observer)
        return {name: value for name, value in proof.as_json().items() if name not in ("horizons", "comparisons")}

    def save(self) -> dict[str, Any]:
        """Write the model directory."""
        self._timeline.stage("save")
        model = self._account.model(self.settings, self._running().processors)
        self._account.weights_sha256 = save_model(model, self._place.beside / "model")
        return {"weights_sha256": self._account.weights_sha256}

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and rename the run's folder, which is then complete."""
        self._timeline.finish()
        result = self._account.as_json(self.settings, self._keeping(), self._running())
        self._result = result | record_timeline(self._timeline, self._running(), self._place.beside)
        write_report(self._result, self._place.beside / "report.html")
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        (self._place.beside / "result.json").write_text(json.dumps(self._result, indent=1, allow_nan=False))
        self._place.complete()
        return {"run": str(self.folder)}

    def close(self) -> None:
        """Close the workers, and remove an incomplete run unless it can be resumed."""
        try:
            self._running.close()
        finally:
            if self._keeper is not None and self._place.resumable:
                _TRAININGRUN_LOG.warning(
                    "%s is unfinished. Resume it with okl train --resume %s", self.folder.name, self.folder
                )
            self._keeper = None
            self._notes.close()
            self._place.close()

    def result(self) -> dict[str, Any]:
        """Return the object that `okl train --json` prints."""
        return self._result

    def report_markdown(self) -> str:
        """Return the report as Markdown with embedded figures."""
        return markdown_report(self._result)

    def summary(self) -> str:
        """Return the summary for a terminal."""
        return text_summary(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """Return a row for each metric: predictor, split, metric, value."""
        return flat_metrics(self._result)

    def _resolve_settings(self) -> None:
        """Make the automatic choice, which is the same after a crash, and restore the mode of a resumed run."""
        if self.settings.solver == "auto":
            choice = choose_solver(self.settings, self.data, self.observer)
            self.settings, self._account.choice = choice.settings, choice.record
            self._account.data = training_columns(self.settings, self.data)
            for sentence in choice.record["why"]:
                _TRAININGRUN_LOG.info("%s: %s", self.folder.name, sentence)
        # after the choice, because the automatic mode depends on the solver
        if self._begun_with is not None:
            self.settings = in_mode_of(self._begun_with, self.settings)

    def _make_solver(self) -> Solver[Any]:
        solver = make_solver(self.settings, self.data)
        if not isinstance(solver, AcceleratedSolver):
            return solver
        # workers save their vectors here, to restore those of a dead worker
        self._scratch = self._place.beside / f"{VECTORS}-{secrets.token_hex(4)}"
        self._scratch.mkdir()
        return replace(solver, scratch=self._scratch)

    def _keeping(self) -> RunCheckpoints:
        assert self._keeper is not None, "plan comes first"
        return self._keeper

    def _ingest_progress(self, done: int, total: int | None) -> None:
        self.observer.advance(done, total or 0, {})


# Training without Prefect

TRAIN_STAGES = ("ingest", "plan", "learn", "evaluate", "save", "report")


def stages_of(settings: TrainSettings) -> tuple[str, ...]:
    """Return the stages of a run, with "certify" after "evaluate" if requested."""
    index = TRAIN_STAGES.index("save")
    return (*TRAIN_STAGES[:index], "certify", *TRAIN_STAGES[index:]) if settings.options.certifies else TRAIN_STAGES


def train(settings: TrainSettings, observer: Observer | None = None, resume: Path | None = None) -> RunResult:
    """Train, evaluate and save a model in this process (and on Dask if the settings say so), without Prefect.

    Parameters
    ----------
    settings : settings of training
    observer : observer of the progress
    resume : unfinished folder of a run with the same settings, to resume; see okl.runs.checkpoint

    Returns
    -------
    result as printed by `okl train --json`: model, run, rows, seconds, progressive, train, test, baselines, ...

    Raises
    ------
    OklError : the run failed; no incomplete files remain
    """
    check_settings(settings, resume)
    return RunResult(perform(TrainingRun(settings, observer or NullObserver(), resume), stages_of(settings)))


def check_settings(settings: TrainSettings, resume: Path | None) -> None:
    """Validate settings before anything is started; see `okl.runs.plan.check`.

    resume : see `train`; the settings of an interrupted run were checked before, and its source may be gone
    """
    if resume is None:
        check(settings)
    else:
        check_workers(settings)


# The linear baseline

LINEAR_STEP_FACTORS = (1.0, 0.1, 0.01)


def train_linear_baseline(
    settings: TrainSettings,
    solver: Solver[Any],
    data: Dataset,
    execution: Execution,
    keeper: RunCheckpoints | None = None,
) -> TrainedSolver | None:
    """Return the linear baseline, trained in the same way; None if there is none."""
    if isinstance(solver, OnlineSolver):
        assert isinstance(settings.options, OnlineSettings), "they made the solver"
        other_factory = settings.options.linear_baseline(data.schema)
        try:
            return _learn_linear_online(replace(solver, factory=other_factory), data, execution, keeper)
        except ConfigError:  # no linear model satisfies the constraints
            return None
    other = linear_alternative(solver) if isinstance(solver, Certified) else None
    if other is None:
        return None
    loop = keeper.of("linear") if keeper else NoCheckpoints()
    try:
        return run_loop(other, loop.kept() or other.start(data, execution), data, execution, keeper=loop)
    except (ConfigError, DivergedError):  # kappa may be invalid for the plain inputs
        return None


def _learn_linear_online(
    solver: OnlineSolver, data: Dataset, execution: Execution, keeper: RunCheckpoints | None
) -> TrainedSolver | None:
    """Train the linear baseline with decreasing step sizes, since rows of large norm may need smaller ones."""
    start = solver.start(data, execution)
    for number, factor in enumerate(LINEAR_STEP_FACTORS):
        learner = replace(start.learner, step_size=start.learner.step_size * factor)
        loop = keeper.of(f"linear{number}") if keeper else NoCheckpoints()
        try:
            begin = loop.kept() or replace(start, learner=learner)
            return run_loop(solver, begin, data, execution, keeper=loop)
        except DivergedError:
            continue
    return None
