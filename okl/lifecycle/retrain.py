"""The stages of a retraining run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from okl.certificates.certify import gap_proof
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.data.ingest.run import COPIED
from okl.distributed import open_for
from okl.distributed.cluster_file import check_execution_options
from okl.foundation.errors import ConfigError, DataError, DivergedError, listed
from okl.foundation.telemetry import NullObserver, Observer
from okl.lifecycle import versions
from okl.lifecycle.champion import LEARNER_STATE, Challenger, ModelHistory, open_champion, save_state
from okl.lifecycle.contract import learnable
from okl.lifecycle.decide import decide_publication
from okl.lifecycle.intake import Intake
from okl.lifecycle.lineage_checks import check_lineage_start, input_difference, start_lineage
from okl.lifecycle.report import RetrainResult, history_of, report_page
from okl.lifecycle.scoring import Scoring
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import PAGE, ShardRecord, ShardStore
from okl.models.file import Model, save_model
from okl.models.registry import CHAMPION, MODEL, PREVIOUS, Registry, Version, flattened
from okl.report.format import counted
from okl.report.render import html, markdown
from okl.report.retraining import skipped_files, solvers_sentence, unseen_rows_sentence
from okl.runs.run import Run
from okl.runs.select import choose_solver
from okl.solvers.factory import training_columns
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


CHOOSE_AGAIN = (
    "Solver and settings were chosen on the first files, and may not suit these. To choose again, retrain the latest "
    "files under another name."
)


@dataclass(eq=False)
class RetrainingRun(Run[RetrainSettings]):
    """One retraining.

    A process may be killed in every stage: the next run continues from the champion and the stored shards. A run
    without new shards does nothing; nor does a run whose challenger was compared before.
    """

    STAGES = RETRAIN_STAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        self._model = Registry(self.settings.registry).model(self.settings.name)
        self.store = ShardStore(self._model.folder / "data")
        self.record = RetrainResult(self.settings, str(self._model.folder.parent))
        self._pending: list[ShardRecord] = []

    @property
    def name(self) -> str:
        return self.settings.name

    def check_settings(self) -> None:
        check_execution_options(self.settings.train)

    def open_execution(self) -> Execution:
        return open_for(self.settings.train, self.name)

    def discover(self) -> dict[str, Any]:
        """List the files and find those that are new since the champion."""
        if self.settings.mlflow is not None and find_spec("mlflow") is None:
            raise ConfigError("The option mlflow needs the package mlflow. Install it with: pip install 'okl[mlflow]'.")
        self.store.remove_leftovers()
        self.history = ModelHistory(open_champion(self._model), self.store.records())
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
        stored = self.store.reference()
        if champion and stored and (why := input_difference(champion.model.schema, stored)):
            back = f"Restore the champion before it: okl models rollback {self.name}"
            raise ConfigError(
                f"The champion {champion.version} does not fit the stored shards of {self.name}: {why}. "
                f"{back if PREVIOUS in self._model.state().aliases else 'Create a model with another name.'}"
            )
        reference = stored or (champion.model.schema if champion else None)
        if reference is None and new:
            reference = start_lineage(self._model, self.settings, new, self._choose)
        if reference is not None:
            self.settings = self.record.settings = versions.with_solver(self.settings, self.history, self.store)
            check_lineage_start(self.settings, reference)
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
        given, group = self.settings.train.replaced(data=str(data.folder)), self.settings.ingest.group
        choice = choose_solver(given, data, self.observer, group)
        self.record.chosen = choice.record["why"]
        train = choice.settings.replaced(rescale="stored", metric="auto")  # of several sizes, the largest one
        self.store.set_choice({"solver": train.solver} | versions.options_of(train.model_dump(mode="json")))
        return training_columns(choice.settings, data, metric=choice.metric).schema

    def score(self) -> dict[str, Any]:
        """Score the new rows with the champion before training; quarantine shards that contradict it or are noise."""
        champion, record = self.history.champion, self.record
        record.history = history_of(self.history)
        if champion is None or not self._pending:
            return {"shards": 0}
        scoring = Scoring(self.settings, self.store, champion, self.history, self.execution)
        scoring.score(self._pending)
        record.progressive, record.drift, self._pending = scoring.rows, scoring.drift(), scoring.accepted
        if record.drift["suspected"] and self.store.choice().get("solver") == self.settings.train.solver:
            record.data_warnings.append(CHOOSE_AGAIN)
        self.intake.bad += scoring.rejected
        self._stop_at(self.intake.bad)
        return {"shards": len(scoring.rows), "rejected": len(scoring.rejected), "drift": record.drift["why"]}

    def learn(self) -> dict[str, Any]:
        """Train a challenger, unless there are no new shards or the same challenger was compared before."""
        record = self.record
        if not self._pending:
            reason = "There are no new shards to train on." if self.intake.bad else record.reason
            record.reason = " ".join([reason, *skipped_files(self.intake.as_json([]))])
            return {"skipped": record.reason}
        self._plan = versions.plan_learning(self.settings, self.store, self.history, self._pending)
        if self.history.champion is not None:
            record.changed = versions.changes_since(
                self.history.champion.version, self._plan.lineage, "the champion so far"
            )
        rejected = self._attempts.shards_of_later(self._plan.judged)
        before = self._attempts.find(self._plan.judged)
        before = before or versions.retraction_reason(self._model, self._plan.lineage, rejected)
        if before is not None:
            record.outcome, record.reason = "judged before", before
            return {"skipped": before}
        try:
            challenger = self._plan.learn(self.store, self.execution, self.observer)
        except DivergedError as error:
            record.outcome, record.reason = "kept", f"Kept: the challenger diverged. {error}"
            return {"diverged": str(error)}
        record.challenger = challenger
        return {"how": challenger.how, "seconds": challenger.seconds} | (
            {"anew": self._plan.why} if self._plan.why else {}
        )

    def evaluate(self) -> dict[str, Any]:
        """Compare champion and challenger on the same reserved rows; without a champion, compare with a constant."""
        challenger = self.record.challenger
        if challenger is None:
            return {"skipped": self.record.reason}
        looks = self._attempts.looks()
        judgement = decide_publication(
            self.settings, self.store, self.history, self._plan.accepted, challenger, self.execution, looks
        )
        self.record.apart = self.history.apart
        rows = challenger.data.rows("train")
        sentence = unseen_rows_sentence(self.history.apart, rows, judgement.decision.publish)
        if self.history.champion is not None:
            before = self.history.champion.model.configuration
            if before.get("solver"):  # none where a comparison chose the champion
                options = versions.options_of(before)
                sentence += solvers_sentence(before["solver"], self.settings.train.solver, options)
        self.record.judgement, self.record.reason = judgement, judgement.decision.reason + sentence
        return {"decision": judgement.decision.kind, "reason": judgement.decision.reason}

    def certify(self) -> dict[str, Any]:
        """Compute the certificate of a batch solution."""
        challenger = self.record.challenger
        if challenger is None or challenger.online:
            return {"skipped": "an online learner" if challenger else self.record.reason}
        solver: SubgradientSolver = challenger.solver  # type: ignore[assignment]  # or an accelerated one, alike
        self.record.certificate = gap_proof(solver, challenger.state).as_json()
        return {name: value for name, value in self.record.certificate.items() if isinstance(value, int | float | str)}

    def publish(self) -> dict[str, Any]:
        """Publish the challenger in one step, or keep the champion; or raise ConflictError or RegistryError."""
        record = self.record
        challenger, judgement = record.challenger, record.judgement
        if challenger is None or judgement is None:
            return {"skipped": record.reason}
        if self.settings.dry_run or not judgement.decision.publish:
            record.outcome = "dry run" if self.settings.dry_run else "kept"
            return {"outcome": record.outcome}
        record.outcome = "published"
        predictor = judgement.predictor or challenger.predictor
        model = versions.next_model(
            challenger, predictor, self.history, self.settings, tuple(self.execution.processors)
        )
        planned = self._plan.lineage
        lineage = versions.measured_lineage(planned, judgement, record.certificate, challenger)
        self._result = self._describe()
        write = partial(write_version, model=model, challenger=challenger, result=self._result)
        expected = {CHAMPION: self.history.parent}  # another process has published first
        published = self._model.publish(write, lineage, promote=True, expected=expected, why=record.reason)
        # by another run, and rolled back since
        if not published.new and (why := versions.retraction_reason(self._model, planned)) is not None:
            record.outcome, record.reason = "judged before", why
            return {"outcome": record.outcome}
        record.version, record.folder = published.version.number, str(published.version.folder)
        return {"version": record.version, "new": published.new}

    def report(self) -> dict[str, Any]:
        """Record the decision and write the report."""
        record = self.record
        if record.outcome == "kept":
            record.report = str(self._attempts.page(self._plan.judged))
        elif record.folder is not None:
            record.report = f"{record.folder}/{PAGE}"
        self._result = self._describe()
        if record.outcome == "kept":
            self._attempts.keep(self._plan.judged, record.reason, html(report_page(self._result)))
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
