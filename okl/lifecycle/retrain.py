"""The stages of a retraining run."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from okl.certificates.certify import gap_proof
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.data.ingest.row_warnings import COPIED
from okl.distributed import open_for
from okl.distributed.cluster_file import check_execution_options
from okl.foundation.errors import ConfigError, DataError, DivergedError, LocationError, RegistryError, listed
from okl.foundation.folders import write_durably
from okl.foundation.locations import okl_home
from okl.foundation.telemetry import NullObserver, Observer
from okl.lifecycle import versions
from okl.lifecycle.champion import LEARNER_STATE, Challenger, ModelHistory, open_champion, save_state
from okl.lifecycle.choice import LaterChoice, choose_again, choose_for, due_choice, latest_drift, mark_compared, up_to
from okl.lifecycle.contract import learnable
from okl.lifecycle.decide import decide_publication
from okl.lifecycle.intake import Intake
from okl.lifecycle.lineage_checks import check_exclusive, check_lineage_start, input_difference, start_lineage
from okl.lifecycle.report import RetrainResult, history_of, report_page
from okl.lifecycle.scoring import Scoring
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import PAGE, ShardRecord, ShardStore, is_late, prepared_as
from okl.models.file import Model, save_model
from okl.models.registry import MODEL, Registry, Version
from okl.models.registry_descriptions import flattened
from okl.models.registry_log import CHAMPION, PINNED, PREVIOUS
from okl.report.format import counted
from okl.report.render import html, markdown
from okl.report.retraining import skipped_files, solvers_sentence, unseen_rows_sentence
from okl.runs.encodings import encoding_by_trial
from okl.runs.run import Run
from okl.solvers.subgradient.solver import SubgradientSolver

# Version files.

RESULT, REPORT = "result.json", "report.md"


def write_version(into: Path, model: Model, challenger: Challenger, result: Mapping[str, Any]) -> None:
    """Write model/, state/ (if online), result.json, report.md and report.html into an empty folder; or OSError."""
    save_model(model, into / MODEL)
    if challenger.online:
        save_state(into / LEARNER_STATE, challenger.state, {"data_sha256": challenger.data.sha256})
    (into / RESULT).write_text(json.dumps(result, indent=1, allow_nan=False), encoding="utf-8")
    page = report_page(result)
    (into / REPORT).write_text(markdown(page), encoding="utf-8")
    (into / PAGE).write_text(html(page), encoding="utf-8")


# MLflow logging.

LONGEST = 500  # letters of a parameter's value that every tracking store takes


def log_to_mlflow(where: str, result: Mapping[str, Any], version: Version | None) -> str:
    """Log a run into the experiment of the model's name at a tracking URI, and return its id.

    version : that was published, None if none was
    """
    client: Any = import_module("mlflow").MlflowClient(tracking_uri=where)
    existing = client.get_experiment_by_name(result["model"])
    experiment = existing.experiment_id if existing is not None else client.create_experiment(result["model"])
    run = str(client.create_run(experiment, run_name=f"{result['model']} {result['outcome']}").info.run_id)
    for name, value in flattened(result["settings"]).items():
        client.log_param(run, name, str(value)[:LONGEST])
    figures = {f"{who}.{name}": value for who, metrics in result["metrics"].items() for name, value in metrics.items()}
    figures |= {name: result[name] for name in ("seconds", "total_seconds", "bytes_read")}
    for name, value in figures.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            client.log_metric(run, name, float(value))
    for name in ("outcome", "reason", "version", "parent"):
        client.set_tag(run, f"okl.{name}", str(result[name]))
    client.log_dict(run, dict(result), "result.json")
    if version is not None:
        client.log_dict(run, version.lineage.as_json(), "lineage.json")
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / MODEL
            folder.mkdir()
            for path in version.published.files:
                if path.startswith(f"{MODEL}/"):
                    (folder / path.removeprefix(f"{MODEL}/")).write_bytes((version.files / path).read_bytes())
            client.log_artifacts(run, str(folder), MODEL)
    client.set_terminated(run)
    return run


# The stages.

RETRAIN_STAGES = ("discover", "hold", "score", "learn", "evaluate", "certify", "publish", "report")


def retrain(settings: RetrainSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Retrain a model in this process (and on Dask if the settings name it), without Prefect.

    Returns what `okl retrain --json` prints; raises OklError, and the champion stays as it is
    """
    return RetrainingRun(settings, observer or NullObserver()).perform()


@dataclass(frozen=True, eq=False)
class Candidate:
    """A trained challenger; choice : None if it has the settings so far; changed : as in the result."""

    settings: RetrainSettings
    plan: versions.LearningPlan
    challenger: Challenger
    choice: LaterChoice | None
    changed: dict[str, Any] | None


@dataclass(eq=False)
class RetrainingRun(Run[RetrainSettings]):
    """One retraining.

    A process may be killed in every stage: the next run continues from the champion and the stored shards. A run
    without new shards does nothing; nor does a run whose challenger was compared before.

    scheduled : whether nobody watches, so that no model begins anew where one was published before
    """

    scheduled: bool = False

    STAGES = RETRAIN_STAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model = Registry(self.settings.registry).model(self.settings.name)
        self.store = ShardStore(self._model.folder / "data")
        self.record = RetrainResult(self.settings, str(self._model.folder.parent))
        self._given = self.settings  # before a solver is filled in
        self._pending: list[ShardRecord] = []
        self._candidates: list[Candidate] = []
        self._before_change: set[str] = set()  # shards, and new ones older than those of the champion
        self._before_drift: tuple[str, ...] = ()  # shards

    @property
    def name(self) -> str:
        return self.settings.name

    def check_settings(self) -> None:
        check_execution_options(self.settings.train)
        check_exclusive(self.settings)

    def open_execution(self) -> Execution:
        return open_for(self.settings.train, self.name)

    def discover(self) -> dict[str, Any]:
        """List the files and find those that are new since the champion."""
        if self.settings.mlflow is not None and find_spec("mlflow") is None:
            raise ConfigError("The option mlflow needs the package mlflow. Install it with: pip install 'okl[mlflow]'.")
        if self.scheduled:
            self._check_registry()
        self.store.remove_leftovers()
        self.history = ModelHistory(open_champion(self._model), self.store.records())
        if self.history.champion is not None:
            self.store = self.store.as_read_by(self.history.champion.model.schema)
        self.record.parent = self.history.parent
        self._attempts = versions.Attempts(self._model, self.store.location, self.history.parent)
        self.intake = Intake(self.settings, self.store, self.history)
        found = self.intake.discover()
        if not (self.intake.files or self.intake.fresh or self.intake.unread):
            self.record.reason = f"There is no file in {self.settings.source}."
        return {"champion": self.history.parent} | found

    def hold(self) -> dict[str, Any]:
        """Check new shards: accept or quarantine them with a reason; DataError if on_bad is "stop"; or ConfigError."""
        champion, new = self.history.champion, self.intake.new
        self.intake.exclude()
        stored = self.store.reference()
        if champion and stored and (why := input_difference(champion.model.schema, stored)):
            back = f"Restore the champion before it: okl models rollback {self.name}"
            raise ConfigError(
                f"The champion {champion.version} does not fit the stored shards of {self.name}: {why}. "
                f"{back if PREVIOUS in self._model.state().aliases else 'Create a model with another name.'}"
            )
        reference = stored or (champion.model.schema if champion else None)
        if reference is None and new:
            begin = partial(self.observer.stage, "encode")
            trial = partial(
                encoding_by_trial, self.settings.train, begin=begin, of_values=False, observer=self.observer
            )
            reference = start_lineage(self._model, self.settings, new, self._choose, trial)
            self.observer.stage("hold")  # again, after the choice
        if reference is not None:
            self.settings = self._given = versions.with_threshold(self.settings, self.history)
            self.settings = self.record.settings = versions.with_solver(self.settings, self.history, self.store)
            check_lineage_start(self.settings, prepared_as(reference, champion.model.schema) if champion else reference)
            if new or self.intake.restorable:
                self.intake.validate(self.store.set_reference(reference), self.report_rows)
        self.history = ModelHistory(self.history.champion, self.store.records())
        if champion is None and not self.history.accepted():  # what refused files say decides nothing
            self.store.remove_reference()
            self.record.chosen, self.record.data_warnings = [], []
        elif self.intake.accepted and reference is not None:  # a run at the same time may have removed it
            self.store.set_reference(reference)
        self._pending = self.intake.pending(self.history)
        for record in self.intake.accepted:  # their reserved rows may be copies of rows that are trained on
            copied = [warning for warning in self.store.dataset(record).warnings if COPIED in warning]
            known = self.record.data_warnings
            known += [f"{record.name}: {warning}" for warning in copied if warning not in known]
        self.record.data_warnings += self.intake.ignored
        self._stop_at((*self.intake.bad, *self.intake.standing))
        return {"accepted": len(self.intake.accepted), "bad": len(self.intake.bad), "pending": len(self._pending)}

    def _choose(self, data: Dataset) -> Schema:
        """Choose solver, scaling and metric for the first shards, unless a solver is given or there is only one row."""
        self.record.data_warnings = [*data.warnings, *_of_short_periods(data.schema)]
        if self.settings.train.solver != "auto" or data.rows("train") < 2:
            return data.schema
        self.observer.stage("choose")
        options, schema, self.record.chosen = choose_for(self.settings, data, self.observer)
        self.store.set_choice(options)
        return schema

    def score(self) -> dict[str, Any]:
        """Score the new rows with the champion before training; quarantine shards that contradict it or are noise."""
        champion, record = self.history.champion, self.record
        record.history = history_of(self.history)
        if champion is None or not self._pending:
            return {"shards": 0}
        parts = (self.settings, self._given, self.store, champion, self.history, self.execution, self.observer)
        scoring = Scoring(*parts)
        scoring.score(self._pending)
        record.progressive, record.drift, self._pending = scoring.rows, scoring.drift(), scoring.accepted
        refused = {record.sha256 for record in scoring.rejected}
        self.intake.accepted = [record for record in self.intake.accepted if record.sha256 not in refused]
        self.intake.bad += scoring.rejected
        self._stop_at(self.intake.bad)
        return {"shards": len(scoring.rows), "rejected": len(scoring.rejected), "drift": record.drift["why"]}

    def learn(self) -> dict[str, Any]:
        """Train a challenger, unless there are no new shards or the same challenger was compared before.

        If a new choice of solver and settings is due, challengers with it are trained, too. Nothing is trained while
        the champion is pinned, unless by a dry run.
        """
        record, parts = self.record, (self._given, self.store, self.history, self._pending)
        version = None if self.settings.dry_run else self._model.state().aliases.get(PINNED)
        if version is not None:
            waiting = counted(len(self._pending), "new shard")
            record.outcome, advice = "pinned", f"To train again: okl models unpin {self.name}"
            record.reason = f"{self.name}@{version} is pinned: nothing was trained ({waiting} waiting). {advice}"
            return {"skipped": record.reason}
        due = due_choice(*parts)
        anew = bool(self.history.excluded and self.history.trained())
        choices: list[LaterChoice | None] = [None] if self._pending or anew else []
        choices += [] if due is None else choose_again(*parts, due, self.observer)
        if not choices:
            reason = "There are no new shards to train on." if self.intake.bad else record.reason
            record.reason = " ".join([reason, *skipped_files(self.intake.as_json([]))])
            return {"skipped": record.reason}
        wanted = up_to(*parts[2:])
        if due is not None:
            self.observer.stage("learn")
            self._before_change = {one.sha256 for one in wanted[: due.since]}
        self._before_change |= {one.sha256 for one in self._pending if is_late(one.last_time, self.history.watermark)}
        self._before_drift = tuple(
            one.sha256 for one in wanted[: max(due.since if due else 0, latest_drift(wanted)[1])]
        )
        summaries = [self._train(choice) for choice in choices]
        trained = [summary for summary in summaries if "seconds" in summary]
        return trained[-1] if trained else summaries[0]

    def _train(self, choice: LaterChoice | None) -> dict[str, Any]:
        """Train a challenger with a new choice, or with the settings so far, unless it was compared before."""
        record, champion, store = self.record, self.history.champion, self.store
        if choice is None:
            settings = self.settings
            entry = {} if self._given.train.solver != "auto" else versions.choice_entry(champion)
        else:
            settings, entry = versions.with_options(self._given, choice.options), choice.of_version
            store = store.as_read_by(choice.schema)
        plan = versions.plan_learning(settings, store, self.history, self._pending, entry, choice is not None)
        changed = None
        if champion is not None:
            changed = versions.changes_since(champion.version, plan.lineage, "the champion so far")
        record.changed = record.changed or changed
        rejected = self._attempts.shards_of_later(plan.judged)
        before = self._attempts.find(plan.judged)
        before = before or versions.retraction_reason(self._model, plan.lineage, rejected)
        if choice is not None and choice.compared and choice.champion == self.history.parent:
            before = "The same choice was made and compared before."
        if before is not None:
            if not self._candidates:
                record.outcome, record.reason = "judged before", before
            return {"skipped": before}
        try:
            challenger = plan.learn(store, self.execution, self.observer)
        except DivergedError as error:
            if not self._candidates:
                record.outcome, record.reason = "kept", f"Kept: the challenger diverged. {error}"
                self._plan = plan
            return {"diverged": str(error)}
        self._candidates.append(Candidate(settings, plan, challenger, choice, changed))
        record.challenger = challenger
        return {"how": challenger.how, "seconds": challenger.seconds} | ({"anew": plan.why} if plan.why else {})

    def evaluate(self) -> dict[str, Any]:
        """Compare champion and challenger on the same reserved rows; without a champion, compare with a constant.

        Of several challengers, the one with the least error on the newest rows is taken. Its tests have a share of the
        level.
        """
        record = self.record
        if not self._candidates:
            return {"skipped": record.reason}
        looks, number = self._attempts.looks(), len(self._candidates)
        judgements = [
            decide_publication(
                one.settings.model_copy(update={"level": one.settings.level / number}),
                self.store, self.history, one.plan.accepted, one.challenger, self.execution, looks,
                self._before_change, self._before_drift,
            )
            for one in self._candidates
        ]  # fmt: skip
        errors = [judgement.newest_error for judgement in judgements]
        best = errors.index(min(errors))
        taken, judgement = self._candidates[best], judgements[best]
        self._plan = taken.plan
        self.settings = record.settings = taken.settings
        record.challenger, record.changed, record.judgement = taken.challenger, taken.changed, judgement
        record.apart = self.history.apart
        rows = taken.challenger.data.rows("train")
        sentence = unseen_rows_sentence(self.history.apart, rows, judgement.decision.publish)
        if self.history.champion is not None and taken.choice is None:
            before = self.history.champion.model.configuration
            if before.get("solver"):  # none where a comparison chose the champion
                options = versions.options_of(before)
                sentence += solvers_sentence(before["solver"], self.settings.train.solver, options)
        record.reason = judgement.decision.reason + sentence
        if self._choices:
            chosen = taken.choice or self._choices[-1]
            record.choice = chosen.as_entry(taken.choice is not None, judgement.decision.publish)
        return {"decision": judgement.decision.kind, "reason": judgement.decision.reason}

    def certify(self) -> dict[str, Any]:
        """Compute the certificate of a batch solution."""
        challenger = self.record.challenger
        if challenger is None or challenger.online:
            return {"skipped": "an online learner" if challenger else self.record.reason}
        solver: SubgradientSolver = challenger.solver  # type: ignore[assignment]  # or an accelerated one, alike
        self.record.certificate = gap_proof(solver, challenger.state).as_json()
        return {name: value for name, value in self.record.certificate.items() if isinstance(value, int | float | str)}

    @property
    def _first_plan(self) -> versions.LearningPlan:
        """Return the plan by which a rejection is recorded: with the settings so far if there are new shards."""
        return self._candidates[0].plan if self._candidates else self._plan

    @property
    def _choices(self) -> list[LaterChoice]:
        return [one.choice for one in self._candidates if one.choice is not None]

    @property
    def _note(self) -> Path:
        """Return the file in okl's home that states that the model was published."""
        return okl_home() / "published" / hashlib.sha256(str(self._model.folder).encode()).hexdigest()[:16]

    def _check_registry(self) -> None:
        """Raise RegistryError if a model was published here before, but is gone: a disk may not be mounted."""
        if self._note.is_file() and not self._model.state().latest:
            raise RegistryError(
                f"{self._model.folder} has no version, but version {self._note.read_text().strip()} was published "
                f"there. Mount its disk or restore it. To start anew, run okl retrain {self.name} by hand once."
            )

    def publish(self) -> dict[str, Any]:
        """Publish the challenger in one step, or keep the champion; or raise ConflictError or RegistryError."""
        record = self.record
        challenger, judgement = record.challenger, record.judgement
        if challenger is None or judgement is None:
            return {"skipped": record.reason}
        if self.settings.dry_run or not judgement.decision.publish:
            record.outcome = "dry run" if self.settings.dry_run else "kept"
            if not self.settings.dry_run:
                mark_compared(self.store, self._choices, self.history.parent)
            return {"outcome": record.outcome}
        record.outcome = "published"
        predictor = judgement.predictor or challenger.predictor
        automatic = self._given.train.solver == "auto" and bool(self.store.choice())
        processors = tuple(self.execution.processors)
        model = versions.next_model(challenger, predictor, self.history, self.settings, processors, automatic)
        planned = self._plan.lineage
        lineage = versions.measured_lineage(planned, judgement, record.certificate, challenger)
        self._result = self._describe()
        write = partial(write_version, model=model, challenger=challenger, result=self._result)
        expected = {CHAMPION: self.history.parent, PINNED: None}  # another process has published first, or pinned
        published = self._model.publish(write, lineage, promote=True, expected=expected, why=record.reason)
        # by another run, and rolled back since
        if not published.new and (why := versions.retraction_reason(self._model, planned)) is not None:
            record.outcome, record.reason = "judged before", why
            return {"outcome": record.outcome}
        mark_compared(self.store, self._choices, published.version.number)
        with suppress(LocationError):  # the model is published
            write_durably(self._note, f"{published.version.number}\n")
        record.version, record.folder = published.version.number, str(published.version.folder)
        return {"version": record.version, "new": published.new}

    def report(self) -> dict[str, Any]:
        """Record the decision and write the report."""
        record = self.record
        if record.outcome != "published" and (exclusion := self.history.exclusion):
            record.data_warnings.append(
                f"{exclusion}, but the champion {self.name}@{self.history.parent} was trained on it and stays in use. "
                "To publish a model without it that is worse: --margin 1; or promote an earlier version."
            )
        if record.outcome == "kept":
            record.report = str(self._attempts.page(self._first_plan.judged))
        elif record.folder is not None:
            record.report = f"{record.folder}/{PAGE}"
        self._result = self._describe()
        if record.outcome == "kept":
            self._attempts.keep(self._first_plan.judged, record.reason, html(report_page(self._result)))
        if self.settings.mlflow is not None and record.judgement is not None:
            version = None if record.version is None else self._model.version(record.version)
            try:
                record.mlflow = f"run {log_to_mlflow(self.settings.mlflow, self._result, version)}"
            except Exception as error:  # whatever a server or its client raises: the version is published
                record.mlflow = f"Logging to MLflow at {self.settings.mlflow} failed: {error}"
            self._result = self._describe()
        return {"outcome": record.outcome, "reason": record.reason}

    def report_markdown(self) -> str:
        """Return the report as Markdown: new and rejected shards, both models' figures, the decision and its reason."""
        return markdown(report_page(self._result))

    def metrics_table(self) -> list[dict[str, Any]]:
        """Return one flat row a figure: predictor, metric, value."""
        return [
            {"predictor": name, "metric": metric, "value": value}
            for name, figures in (self._result.get("metrics") or {}).items()
            for metric, value in figures.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]

    def _describe(self) -> dict[str, Any]:
        self.record.shards = self.intake.as_json(self._pending)
        return self.record.as_json()

    def _stop_at(self, bad: Sequence[ShardRecord]) -> None:
        if self.settings.on_bad == "stop" and bad:
            remedy = f"train on it anyway with release {bad[0].key}" if learnable(bad[0].findings) else "correct it"
            raise DataError(
                f"{bad[0].reason} It is quarantined, and nothing was trained (on_bad = stop). Remove the file, or "
                f"{remedy}."
            )


def _of_short_periods(schema: Schema) -> list[str]:
    """Return a warning of dates that span less than a year in the first files, as those of later files lie beyond."""
    statistics = dict(zip(schema.features, schema.feature_statistics, strict=False))
    dates = {one.column: statistics.get(one.inputs[0]) for one in schema.encodings if one.is_date}
    spans = {name: years.maximum - years.minimum for name, years in dates.items() if years is not None}
    short = [
        f"{name!r} ({counted(max(1, round(365.2425 * span)), 'day')})" for name, span in spans.items() if span < 1.0
    ]
    if not short:
        return []
    return [
        f"Dates of a short period: {listed(short)}. Later files have later dates, which the model has not learned "
        "from: --dates drop, or ages (days since) instead of dates, may predict their rows better."
    ]
