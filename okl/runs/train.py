"""Training runs."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from okl.data.dataset import BESIDE_WORDS, Dataset, Scale
from okl.data.execution import Execution
from okl.data.ingest.run import check_source
from okl.data.manifest import is_dataset, open_dataset, provenance, verify
from okl.data.values import is_number
from okl.distributed.cluster_file import check_execution_options
from okl.foundation import folders
from okl.foundation.errors import ConfigError, DivergedError, LocationError
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.telemetry import run_logger
from okl.models.file import Model, save_model
from okl.report.sentences import warning_sentences
from okl.report.timeline import TIMELINE_FILE, describe_timeline, write_timeline
from okl.report.training import markdown_report, write_report
from okl.runs import checkpoint
from okl.runs.baselines import train_baselines
from okl.runs.calibrate import calibrated
from okl.runs.encodings import encoding_by_trial
from okl.runs.growing_models import train_growing_models
from okl.runs.loop import TrainedSolver, run_loop
from okl.runs.memory import plan_memory_on
from okl.runs.model_sizes import Size
from okl.runs.plan import check, check_solver
from okl.runs.results import RunRecord, flat_metrics, split_metrics
from okl.runs.run import DEFAULT_HOLDOUT, Run, open_run_data, run_folder
from okl.runs.select import Choice, choose_solver, learn_metric
from okl.solvers.accelerated.solver import AcceleratedSolver
from okl.solvers.base import Solver
from okl.solvers.factory import check_sensitive, make_solver, training_columns
from okl.solvers.online.constraints import columns_of, parse_constraints
from okl.solvers.online.settings import MapLearningOptions, OnlineSettings, constraints_of, tracks
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.settings import TrainSettings

_LOG = run_logger()
TRAIN_STAGES = ("ingest", "plan", "learn", "evaluate", "save", "report")
WORKER_VECTORS = "vectors"
BEST = "so-far"
"""Folder of the best model so far while a run trains, and the end of its name after an interrupt."""


def _with_constrained_keys(settings: TrainSettings) -> TrainSettings:
    """Return settings in which text columns that constraints use are keys: encoded ones cannot be constrained.

    Raises ConfigError : learn_sensitive is set, but all columns of constraints are keys
    """
    names = columns_of(parse_constraints(constraints_of(settings.options))[0])
    if not names:
        return settings
    given = settings.ingest or IngestSettings()
    fields = {field.name: field.type for field in check_source(settings.data, given).schema}
    taken = (*given.keys, given.target)
    texts = [name for name in names if name in fields and not is_number(fields[name]) and name not in taken]
    keyed = given.model_copy(update={"keys": (*given.keys, *texts)})
    if isinstance(settings.options, MapLearningOptions) and settings.options.learn_sensitive:
        check_sensitive(keyed.keys, names)
    return settings.model_copy(update={"ingest": keyed}) if texts else settings


def _with_scaling_beside_words(settings: TrainSettings) -> TrainSettings:
    """Return settings that scale the other columns of texts as the automatic choice does, unless a scaling is given."""
    given = settings.ingest
    is_open = settings.solver != "auto" and settings.rescale == "stored" and given is not None and given.scale == "none"
    return settings.replaced(rescale=BESIDE_WORDS) if is_open and given and given.text else settings


@dataclass(eq=False)
class TrainingRun(Run[TrainSettings]):
    """Training run, whose checkpoints another process can resume.

    resume : unfinished folder of a run to resume
    key : identifier under which the process that starts the run can find it again
    """

    STAGES = TRAIN_STAGES

    resume: Path | None = None
    key: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.output = folders.output_folder(run_folder(self.settings))
        self.record = RunRecord(self.output)
        self._checkpoints: checkpoint.RunCheckpoints | None = None
        self._worker_vectors: Path | None = None
        self._stored: checkpoint.Origin | None = None
        self._choice: Choice | None = None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages of the run, with "certify" before "save" if requested."""
        index = TRAIN_STAGES.index("save")
        certify = ("certify",) if self.settings.options.certifies else ()
        return (*TRAIN_STAGES[:index], *certify, *TRAIN_STAGES[index:])

    @property
    def data(self) -> Dataset:
        return self.record.data

    @property
    def checkpoints(self) -> checkpoint.RunCheckpoints:
        """Return the checkpoints of the run; the stage "plan" makes them."""
        assert self._checkpoints is not None, "plan comes first"
        return self._checkpoints

    def check_settings(self) -> None:
        """Validate the settings; those of an interrupted run were checked before, and its source may be gone."""
        if self.resume is None:
            check(self.settings)
        else:
            check_execution_options(self.settings)

    def ingest(self) -> dict[str, Any]:
        """Open the folder and the data set, or ingest the source into the folder."""
        stored, settings = self._open_folder(), self.settings
        is_source = not is_dataset(settings.data)
        if is_source and stored is not None:
            data = open_dataset(self.staging / "data")
            verify(data)
        else:
            if is_source:
                settings = self.settings = _with_scaling_beside_words(_with_constrained_keys(settings))
            # rows that follow change are evaluated as they come
            standardises = settings.rescale == "stored" and settings.options.standardises
            scale: Scale = "standard" if standardises else "none"
            holdout = None if tracks(settings.options) else DEFAULT_HOLDOUT
            begin = partial(self.begin_stage, "encode")
            trial = partial(encoding_by_trial, settings, begin=begin, observer=self.observer)
            data = open_run_data(self, settings, holdout, scale, trial)
        settings = self.settings  # which no longer name the file of a table in memory
        self.record.data = training_columns(settings, data, settings.data if is_source else None)
        if is_source:
            check_solver(settings, self.data)  # as far as it depends on the classes, which are known only now
        self._origin = checkpoint.Origin.of(settings, self.data, self.key)
        if stored is not None:
            self._stored = stored
            self._origin = self._origin.resumed_from(stored)
            checkpoint.check_same_origin(stored, self._origin, self.data.folder, str(self.folder))
        return {"rows": {name: self.data.rows(name) for name in ("train", "test")}, "shards": len(self.data.shards)}

    def plan(self) -> dict[str, Any]:
        """Start workers, choose, and start the solver or restore it; models of several sizes start in "learn"."""
        execution = self.execution
        self._resolve_settings()
        settings = self.settings
        self.record.memory = memory = plan_memory_on(settings, self.data, execution)
        _LOG.info("%s: %s", self.name, memory.sentence(execution.n_workers))
        self.solver = self._make_solver()
        self._checkpoints = checkpoint.RunCheckpoints(
            self.staging,
            self._origin,
            settings.checkpoint_seconds,
            settings.checkpoint_rounds,
            {"data": self.data} | ({} if self._worker_vectors is None else {"scratch": self._worker_vectors}),
            self._worker_vectors,
            self.timeline.begun,
        )
        position = None if self._stored is None else self._checkpoints.resume()
        if self._has_sizes:
            return {}
        self._start: Any = self.solver.start(self.data, execution) if position is None else position
        return self.solver.chosen(self._start if position is None else position.state)

    def learn(self) -> dict[str, Any]:
        """Run the training loop."""
        try:
            self.record.learnt = trained = self._learnt()
        except DivergedError:
            assert self.output is not None
            self.output.discard()
            raise
        # before `evaluate`, whose linear baseline has its own rounds
        self.record.traffic = self.checkpoints.total_traffic(self.execution)
        fast = self.record.rows_per_second(self.settings)
        return {"rows": self.data.rows("train"), "seconds": trained.seconds, "rows_per_second": fast}

    def _learnt(self) -> TrainedSolver:
        """Return the trained solver: of several sizes the best."""
        if not self._has_sizes:
            return run_loop(
                self.solver, self._start, self.data, self.execution, self.observer,
                self.checkpoints.of(checkpoint.MAIN),
                partial(self._keep, self.settings, self.solver),
            )  # fmt: skip
        assert self._choice is not None, "it has the sizes"
        keeper = self.checkpoints
        best = train_growing_models(
            self._choice, self.data, self.execution, self.observer, keeper.of, keeper.total_seconds, self._keep
        )
        self.settings, self.solver, self.record.choice = best.settings, best.trained.solver, best.record
        _LOG.info("%s: %s", self.name, best.record["why"][-1])
        return best.trained

    def _keep(self, settings: TrainSettings, solver: Solver[Any], state: Any) -> None:
        """Save the best model so far, which an interrupt leaves; a disk that is too full for it is left as it is.

        An online model has no probabilities yet: its calibration would score test rows after each pass.
        """
        if not isinstance(self.output, folders.RunFolder):
            return
        predictor = solver.predictor(state)
        if not isinstance(solver, OnlineSolver):
            threads, in_folds = self.execution.n_threads, self.record.in_folds
            predictor, _ = calibrated(settings, state, predictor, self.data, threads, in_folds)
        origin = provenance(self.data, settings.seed) | {"processors": list(self.execution.processors)}
        folder = self.staging / BEST
        shutil.rmtree(folder, ignore_errors=True)
        try:
            save_model(Model(self.data.schema, predictor, settings.model_dump(mode="json"), origin), folder / "model")
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)

    def perform_stage(self, stage: str) -> dict[str, Any]:
        """Perform a stage; after an interrupt or on a full disk, move the best model so far next to the folder."""
        try:
            return super().perform_stage(stage)
        except (KeyboardInterrupt, OSError) as error:
            best = None if not isinstance(self.output, folders.RunFolder) else self.staging / BEST
            if best is not None and (best / "model").is_dir():
                shutil.rmtree(self._so_far, ignore_errors=True)  # of an earlier interrupt of this run
                kept = best.rename(self._so_far)
                _LOG.warning("The best model so far is kept. To predict: okl predict %s ROWS --out SCORES", kept)
            elif isinstance(error, KeyboardInterrupt) and stage == "learn" and not folders.resumable(self.staging):
                seconds = self.settings.checkpoint_seconds
                why = "no checkpoint was due (--checkpoint-seconds, --checkpoint-rounds)."
                if seconds:
                    why = (
                        "it has no checkpoint yet. The first one is written when a step of the solver ends, at least "
                        f"{seconds:g} s (--checkpoint-seconds) after training began."
                    )
                _LOG.warning("Nothing of %s is kept: %s", self.name, why)
            raise

    @property
    def _so_far(self) -> Path:
        """Return the folder beside that of the run that an interrupt leaves."""
        return folders.local_folder(self.folder).with_name(f"{self.name}-{BEST}")

    @property
    def _has_sizes(self) -> bool:
        return self._choice is not None and len(self._choice.models) > 1

    def evaluate(self) -> dict[str, Any]:
        """Evaluate the model, the constant and the linear baseline on both splits."""
        record = self.record
        settings, data = self.settings, self.data
        options = settings.options
        self.observer.stage("baselines")
        if constraints_of(options) or tracks(options):
            record.linear = train_linear_online(settings, self.solver, data, self.execution, self.checkpoints.of)
            if record.linear is not None:
                record.beside["linear"] = record.linear.predictor
        else:
            record.beside |= train_baselines(settings, self.solver, data, self.execution)
        self.observer.stage("evaluate")
        record.measure(self.settings, self.execution)
        return {split: split_metrics(self.data.schema, record.tallies, split, "model") for split in record.tallies}

    def certify(self) -> dict[str, Any]:
        """Compute the certificate: regret of an online run, or the gap of Pegasos."""
        proof = self.record.prove(self.settings, self.execution, self.observer)
        return {name: value for name, value in proof.as_json().items() if name not in ("horizons", "comparisons")}

    def save(self) -> dict[str, Any]:
        """Write the model folder, in place of the best model so far."""
        model = self.record.model(self.settings, self.execution.processors)
        self.record.weights_sha256 = save_model(model, self.staging / "model")
        shutil.rmtree(self.staging / BEST, ignore_errors=True)
        return {"weights_sha256": self.record.weights_sha256}

    def report(self) -> dict[str, Any]:
        """Write report.html if the disk allows it and result.json, and publish the run's folder."""
        self.timeline.finish()
        result = self.record.as_json(self.settings, self.checkpoints, self.execution)
        if self._worker_vectors is not None:
            shutil.rmtree(self._worker_vectors, ignore_errors=True)
        try:
            write_timeline(self.timeline, self.staging / TIMELINE_FILE)
            result |= {"timeline": describe_timeline(self.timeline)}
            self._result = result | {"warnings": warning_sentences(result)}
            try:
                write_report(self._result, self.staging / "report.html")
            except OSError as error:  # such as a full disk: the model is worth more than its report
                _LOG.warning("%s: report.html was not written (%s). The model is complete.", self.name, error.strerror)
            self.complete()
        except OSError as error:
            raise self._saved_without_result(error) from None
        if isinstance(self.output, folders.RunFolder):
            shutil.rmtree(self._so_far, ignore_errors=True)  # of an interrupt: this model is what it was to become
        return {"run": str(self.folder)}

    def _saved_without_result(self, error: OSError) -> OSError | LocationError:
        """Move a run that lacks only its result next to its folder, and print the path, unless it can be resumed."""
        if not isinstance(self.output, folders.RunFolder) or self.output.resumable:
            return error
        shutil.rmtree(self._so_far, ignore_errors=True)
        saved = self.staging.rename(self._so_far)
        return LocationError(
            f"{folders.unwritable(self.folder, error)} The model is kept without its result: okl predict {saved} ROWS "
            "--out SCORES."
        )

    def close(self) -> None:
        """Close the workers, and remove an incomplete run unless it can be resumed."""
        if self._checkpoints is not None and self.output is not None and self.output.resumable:
            _LOG.warning("%s is unfinished. Resume it with okl train --resume %s", self.name, self.folder)
        self._checkpoints = None
        super().close()

    def report_markdown(self) -> str:
        return markdown_report(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """Return a row for each metric: predictor, split, metric, value."""
        return flat_metrics(self._result)

    def _open_folder(self) -> checkpoint.Origin | None:
        """Create the folder of a new run and return None; or lock that to resume and return its stored origin."""
        assert self.output is not None
        if self.resume is None:
            self.output.open()
            if others := folders.not_named_today(folders.local_folder(self.folder).parent):
                names = ", ".join(folders.name_of(run) for run in others)
                _LOG.warning("Earlier unfinished runs can be resumed with okl train --resume NAME: %s.", names)
            return None
        self.output.reopen(self.resume)
        stored = checkpoint.newest_origin(self.resume)
        checkpoint.check_same_settings(stored, self.settings, str(self.folder))
        # vectors too: workers of a killed process may live longer and still write to its files
        for left in self.resume.iterdir():
            if left.name not in (folders.CHECKPOINT, "data"):
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        return stored

    def _resolve_settings(self) -> None:
        """Make the automatic choice, which is the same after a crash, and restore the mode of a resumed run."""
        if self.settings.solver == "auto":
            self._choice = choice = self._choose()
            self.settings, self.record.choice = choice.settings, choice.record
            self.record.data = training_columns(self.settings, self.data, metric=choice.metric)
            self.record.in_folds = choice.calibration
            for sentence in choice.record["why"]:
                _LOG.info("%s: %s", self.name, sentence)
        elif self.settings.metric == "diagonal":
            metric, self.record.metric_sentence = learn_metric(self.settings, self.data, self.observer)
            self.record.data = self.data.with_metric(metric)
            _LOG.info("%s: %s", self.name, self.record.metric_sentence)
        # after the choice, because the automatic mode depends on the solver
        if self._stored is not None:
            self.settings = checkpoint.with_mode_of(self._stored.settings, self.settings)
            if self._choice is not None:
                models = (
                    (checkpoint.with_mode_of(self._stored.settings, each), size) for each, size in self._choice.models
                )
                self._choice = replace(self._choice, models=tuple(models))

    def _choose(self) -> Choice:
        """Return the automatic choice: that of a checkpoint, or a new one, which has a checkpoint if it took long."""
        if self._stored is not None and (earlier := checkpoint.checkpoints_of(self.staging, CHOICE)):
            return _choice_from(checkpoint.read_value(checkpoint.read_head(earlier[-1]), {}).state)
        choice, seconds = choose_solver(self.settings, self.data, self.observer), self.settings.checkpoint_seconds
        if self.output is not None and seconds and choice.record["seconds"] >= min(seconds, _LONG_CHOICE):
            keeper = checkpoint.RunCheckpoints(
                self.staging, self._origin, seconds, None, {}, started=self.timeline.begun
            )
            keeper.write(CHOICE, checkpoint.Position(_parts_of(choice)), self.execution)
        return choice

    def _make_solver(self) -> Solver[Any]:
        solver = make_solver(self.settings, self.data)
        if not isinstance(solver, AcceleratedSolver):
            return solver
        # workers save their vectors here, to restore those of a dead worker
        self._worker_vectors = self.staging / f"{WORKER_VECTORS}-{secrets.token_hex(4)}"
        self._worker_vectors.mkdir()
        return replace(solver, scratch=self._worker_vectors)


# The automatic choice in a checkpoint

CHOICE = "choice"
_LONG_CHOICE = 10.0  # seconds


def _parts_of(choice: Choice) -> dict[str, Any]:
    models = [(settings.model_dump(mode="json"), size and vars(size)) for settings, size in choice.models]
    return vars(choice) | {"models": models}


def _choice_from(parts: dict[str, Any]) -> Choice:
    models = (
        (settings_from(TrainSettings, settings, CHOICE), size and Size(**size)) for settings, size in parts["models"]
    )
    return Choice(**parts | {"models": tuple(models)})


# The linear baseline of an online learner that is under constraints or follows changing data: trained as it is

LINEAR_STEP_FACTORS = (1.0, 0.1, 0.01)


def train_linear_online(
    settings: TrainSettings,
    solver: Solver[Any],
    data: Dataset,
    execution: Execution,
    checkpoints_of: Callable[[str], checkpoint.LoopCheckpoints],
) -> TrainedSolver | None:
    """Return a linear model trained in the same way, or None; checkpoints_of : by the name of a loop."""
    assert isinstance(solver, OnlineSolver), "options of online solvers made it"
    assert isinstance(settings.options, OnlineSettings), "they made the solver"
    try:
        solver = replace(solver, factory=settings.options.linear_baseline(data.schema))
        start = solver.start(data, execution)
    except ConfigError:  # no linear model satisfies the constraints
        return None
    for number, factor in enumerate(LINEAR_STEP_FACTORS):  # rows of large norm may need smaller steps
        learner = replace(start.learner, step_size=start.learner.step_size * factor)
        loop = checkpoints_of(f"linear{number}")
        try:
            return run_loop(solver, loop.last() or replace(start, learner=learner), data, execution, checkpoints=loop)
        except DivergedError:
            continue
        except ConfigError:  # no linear model satisfies the constraints
            return None
    return None
