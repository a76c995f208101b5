"""Result of a training run as JSON: metrics, certificate, constraints, and the origin of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from okl.certificates.certify import Certification, excess_proof, gap_proof, regret_proof, tracking_proof
from okl.data.dataset import BESIDE_WORDS, DAY_PARTS, ROBUST, SIGNS, WEEKDAYS, Dataset, Encoding, Schema, Shard
from okl.data.encoder import missing_word_of
from okl.data.execution import Execution, Traffic
from okl.data.ingest.targets import RARE_ROWS
from okl.data.ingest.value_formats import described, have_leading_zeros
from okl.data.manifest import is_dataset, peak_memory_bytes, provenance, read_manifest
from okl.data.reading import read_columns, read_rows, sample_rows, scaled_inputs, targets_of
from okl.data.values import DAYS_TO_2000, YEAR_DAYS
from okl.features.metric_learning import metric_shares
from okl.features.predictors import CalibratedPredictor, Predictor
from okl.foundation import plugins
from okl.foundation.folders import PublishedFolder, RunFolder
from okl.foundation.locations import Place
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import Observer
from okl.foundation.types import Criterion, Precision
from okl.metrics.calibration import ScoreCalibration
from okl.metrics.criterion import criterion_of
from okl.metrics.definitions import LargestLosses, Tally, finite_or_none
from okl.models.file import Model
from okl.models.inputs import (
    DATED_ROWS,
    LATER,
    Replaced,
    class_indices,
    later_sentences,
    predictions,
    share_of_other,
)
from okl.models.quality import (
    Importances,
    in_scaled_unit,
    in_target_unit,
    permutation_importance,
    permuted_criterion,
    rows_to_permute,
)
from okl.report.format import scalar_metrics
from okl.runs.baselines import ConstantPredictor
from okl.runs.calibrate import calibrated
from okl.runs.checkpoint import RunCheckpoints
from okl.runs.evaluate import predictor_tallies
from okl.runs.loop import TrainedSolver, progressive_metric
from okl.solvers.base import (
    CHOSEN_AUTOMATICALLY,
    GIVEN,
    CertifiedSolver,
    ConvergenceCurve,
    LearningCurve,
    SolverProgress,
    named_reasons,
)
from okl.solvers.online.constrained import ConstrainedLearner
from okl.solvers.online.constraints import columns_of, measure_constraints, parse_constraints
from okl.solvers.online.settings import RADIUS, OnlineSettings, constraints_of
from okl.solvers.online.solver import OnlineSolver
from okl.solvers.online.tracking import TrackingLearner
from okl.solvers.options import FourierOptions
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.settings import PegasosSettings

if TYPE_CHECKING:
    from okl.runs.memory import MemoryPlan

# Constraints

THEOREM = (
    "Rows were processed in sequence with fixed constraints: by Theorem 2 of Yi et al. (ICML 2021), the total "
    "violation grows at most as rows^(1/4), the regret as rows^(1/2)."
)
CONSTANT = (
    "Rows were processed in sequence with fixed constraints and a constant step: Lemma 1 of Yi et al. (ICML 2021) "
    "bounds the regret. Growth rates need a step size chosen by the number of rows (Theorem 1) or a decaying one."
)
TRACKED = (
    "Rows were processed in sequence with fixed constraints: by Theorem 3 of Yi et al. (ICML 2021), the total "
    "violation grows at most as rows^(1/2), and the regret against weights that change along a path of length P as "
    "(rows (1 + P))^(1/2)."
)
BEYOND = (
    "The gain exceeds the largest value in the theorems of Yi et al. (ICML 2021): no bound is claimed for violation or "
    "regret."
)
SHOWN_COLUMNS = 5  # of the rows of largest loss
RECTIFIED = (
    "Rows were processed in sequence with fixed constraints: by Theorem 1 of Guo et al. (NeurIPS 2022), the total "
    "violation stays bounded, and with decaying steps the regret grows at most as rows^(1/2)."
)
RECTIFIED_TRACKED = "No theorem applies to RECOO with several step sizes."
NO_THEOREM = "No theorem applies: shards were trained separately, rows were repeated, or the constraints were updated."


def constraint_figures(
    trained: TrainedSolver, measured: Mapping[str, list[dict[str, Any]] | None], rows: int
) -> dict[str, Any]:
    """Return values and violations of constraints by split as JSON values; empty without constraints."""
    solver, state = trained.solver, trained.state
    if not isinstance(solver, OnlineSolver) or not isinstance(state.learner, ConstrainedLearner):
        return {}
    assert isinstance(trained.curve, LearningCurve)
    learner, exact = state.learner, solver.mode == "stream" and solver.passes == 1
    constraints, chosen = learner.kept, learner.chosen(state.learned)
    limits: list[dict[str, Any]] = [
        {
            "constraint": name,
            "low": finite_or_none(float(constraints.low[index])),
            "high": finite_or_none(float(constraints.high[index])),
            **{split: figures[index] for split, figures in measured.items() if figures is not None},
        }
        for index, name in enumerate(constraints.names)
    ]
    return {
        "constraints": {
            "rows": rows,
            "radius": constraints.radius,
            "margin": float(constraints.margins.max()),
            "limits": limits,
            "met": all((limit["train"]["excess"] or 0.0) == 0.0 for limit in limits),
            "violation_a_row": chosen["violation_a_row"],
            "violation_as_learnt": chosen["violation_as_learnt"],
            "gain": learner.gain,
            "largest_gain": learner.largest_gain,
            "theorem": _theorem(learner, exact),
            "curve": trained.curve.violations(),
        }
    }


def _theorem(learner: ConstrainedLearner, exact: bool) -> str:
    """Return the sentence on the theorem that applies to a run."""
    if not learner.fixed or not exact:
        return NO_THEOREM
    if not learner.covered:
        return RECTIFIED_TRACKED if learner.rectified else BEYOND
    if learner.n_experts > 1:
        return TRACKED
    if learner.rectified:
        return RECTIFIED
    return THEOREM if learner.decaying else CONSTANT


# Metrics of model and baselines, certificate, and origin of the data

Tallies = Mapping[str, Mapping[str, Tally] | None]
"""Tallies by split and name of the predictor; None for a split without rows."""


def split_metrics(schema: Schema, tallies: Tallies, split: str, name: str) -> dict[str, Any] | None:
    """Return the metrics of a predictor on a split; None if it was not evaluated there."""
    of_split = tallies[split]
    if of_split is None or name not in of_split:
        return None
    report = in_scaled_unit(schema, of_split[name].report())
    if name == "model":
        return report
    # matrices and histograms are drawn of the model only
    return scalar_metrics(report) | {key: report[key] for key in ("excess",) if key in report}


def predictor_metrics(
    schema: Schema, tallies: Tallies, name: str, trained: TrainedSolver | None, of_baseline: bool = False
) -> dict[str, dict[str, Any] | None]:
    """Return the metrics of a predictor during training, on training rows and on test rows.

    trained : solver that predicted during training, if any
    of_baseline : return those of the constant baseline during training, which `trained` also counts
    """
    progress, progressive = None if trained is None else trained.progress, None
    if isinstance(progress, SolverProgress):
        error = progress.baseline_error if of_baseline else progress.error
        progressive = {progressive_metric(schema.task): error}
    measured = {split: split_metrics(schema, tallies, split, name) for split in ("train", "test")}
    return {"progressive": progressive, **measured}


def convergence_entries(trained: TrainedSolver, regret: Certification | None) -> dict[str, Any]:
    """Return learning curve and windows of an online run or convergence of another, and the certificate if any."""
    points = trained.curve.points()
    if isinstance(trained.curve, ConvergenceCurve):
        solver = trained.solver
        proof = gap_proof(solver, trained.state).as_json() if isinstance(solver, CertifiedSolver) else None
        return {"convergence": points} | ({} if proof is None else {"certificate": proof})
    watched = trained.watch.as_json() if trained.watch else {}
    return {"curve": points} | watched | ({"certificate": regret.as_json()} if regret else {})


def describe_data(data: Dataset, folder: Place) -> dict[str, Any]:
    """Return the description of a run's data set and its folder."""
    schema = data.schema
    return {
        "folder": str(folder),
        "sha256": data.sha256,
        "task": schema.task,
        "target": schema.target,
        "labels": list(schema.labels),
        "class_counts": list(schema.class_counts),
        "features": schema.n_features,
        "columns": len(schema.source_columns),
        "train_rows": data.rows("train"),
        "test_rows": data.rows("test"),
        "scale": schema.scaling,
        "warnings": [*later_test_dates(data), *data.warnings],
    } | ({"sparse": True} if schema.sparse else {})


def later_test_dates(data: Dataset) -> list[str]:
    """Return a sentence on dates of test rows that are later than all training dates; none without such."""
    schema, found = data.schema, Replaced({DATED_ROWS: data.rows("test")})
    dates = {encoding.inputs[0]: encoding.column for encoding in schema.encodings if encoding.is_date}
    if not dates:
        return []
    last = {name: np.float32(schema.feature_statistics[schema.features.index(name)].maximum) for name in dates}
    for shard in data.split("test"):
        for group in range(len(shard.row_groups)):
            for name, values in zip(dates, read_columns(data, shard, group, [*dates]).columns, strict=True):
                found[LATER + dates[name]] += int((values.to_numpy() > last[name]).sum())
    return later_sentences(found, schema, "test ")


def assumptions(data: Dataset, given: IngestSettings | None) -> list[str]:
    """Return a sentence for each default that decided how a source was read with the given settings."""
    used, schema, n_test = read_manifest(data.folder).settings, data.schema, data.rows("test")
    sentences = []
    if (given is None or given.holdout is None) and used.get("holdout") is not None:
        share, wanted = f"{n_test / (n_test + data.rows('train')):.0%}", f"{used['holdout']:.0%}"
        about = "" if share == wanted else "about "  # by chance where they are many
        by_class = f"; of each class of at most {RARE_ROWS:,} rows, exactly {wanted}" if about else ", by class"
        drawn = "" if schema.task == "regression" else by_class
        if group := used.get("group"):
            drawn = f" as whole groups of {group!r}"
        sentences.append(f"{about}{wanted} of the rows ({n_test:,}) are test rows, drawn at random{drawn} (--holdout)")
    as_is, is_open = "(--rescale none leaves them as they are)", given is None or given.scale == "none"
    if schema.features and is_open and schema.texts and schema.scale == ROBUST[BESIDE_WORDS]:
        sentences.append(f"columns beside the words are scaled to 0 .. 1, heavy tails squashed {as_is}")
    elif schema.features and is_open and used.get("scale") != "none":
        sentences.append(f"inputs are standardised, as a solver was given {as_is}")
    if len(schema.labels) > 2 and (given is None or given.task == "auto") and not isinstance(schema.labels[0], str):
        sentences.append(
            f"the {len(schema.labels)} whole numbers of {schema.target} are classes; if they count or measure "
            "something: --task regression"
        )
    named = [label for label in schema.labels if isinstance(label, str)]
    is_reversed = len(named) == 2 and schema.task == "binary" and named[0] > named[1]
    if is_reversed and (given is None or given.positive is None):
        sentences.append(
            f"precision, recall and thresholds are about {schema.labels[1]!r}, the rare class (--positive)"
        )
    is_svmlight = schema.svmlight is not None or (schema.sparse is not None and not schema.texts)
    if is_svmlight and schema.task == "regression" and (given is None or given.task == "auto"):
        sentences.append("labels of more than 10 values are numbers; if they are classes: --task multiclass")
    if schema.texts:
        texts = _named([text.column for text in schema.texts])
        sentences.append(f"with a text column ({texts}), all columns are sparse inputs (--text)")
    columns = dict(zip(schema.features, schema.feature_statistics, strict=False))
    missing = [
        encoding.column
        for encoding in schema.encodings
        if encoding.missing and encoding.kind == "number" and columns[encoding.inputs[-1]].minimum < 1.0  # 1: no value
    ]
    if missing:
        sentences.append(f"missing numbers of {_named(missing)} are the training mean, with a 0/1 input (--missing)")
    digits = [encoding.column for encoding in schema.encodings if have_leading_zeros(encoding.categories)]
    if digits := [name for name in digits if given is None or name not in given.categories]:
        sentences.append(f"digits of {_named(digits)} have leading zeros, so they are categories (numbers have none)")
    sentences += _words_as_categories(schema)
    if dates := [encoding.column for encoding in schema.encodings if encoding.is_date]:
        parts = {part for encoding in schema.encodings if encoding.is_date for part in encoding.parts}
        timed = bool(parts.intersection(DAY_PARTS))
        steps = "" if parts.isdisjoint(WEEKDAYS) else ", weekday and hour" if timed else ", weekday"
        cycles = "year, week and day" if timed else "year and week"
        sentences.append(f"dates of {_named(dates)} are split into year and position in {cycles}{steps} (--dates)")
    if times := [encoding.column for encoding in schema.encodings if encoding.kind == "time"]:
        sentences.append(f"times of {_named(times)} are positions in the day, so that 23:59 is near 00:00 (--dates)")
    if means := [encoding.column for encoding in schema.encodings if encoding.means]:
        sentences.append(
            f"inputs of {_named(means)} are target means of their values, for training rows from other folds "
            "(--many-values)"
        )
    sentences += rare_values(schema, "--max-categories")
    options = {"number": "decimal", "time": "category", "duration": "category"}
    for form in schema.formats[:3]:
        option = options.get(form.kind, "date-order") if form.unit in SIGNS else "category"
        sentences.append(f"{described(form)} (--{option})")
    if len(schema.formats) > 3:
        others = _named([form.column for form in schema.formats[3:]])
        sentences.append(f"text of {others} is read as numbers, dates or times")
    return sentences


def rare_values(schema: Schema, option: str) -> list[str]:
    """Return a sentence on each column in many of whose rows values have no input of their own."""
    return [
        f"the {len(encoding.categories)} most frequent values of {encoding.column}, each in at least "
        f"{_rows_of_rarest(schema, encoding)} training rows, are inputs; all others, in {share:.0%} of the rows, share "
        f"one ({option})"
        for encoding in schema.encodings
        if not encoding.means and (share := share_of_other(schema, encoding)) >= RARE_VALUES
    ]


def _rows_of_rarest(schema: Schema, encoding: Encoding) -> int:
    """Return the training rows of the rarest value with an input."""
    first = schema.features.index(encoding.inputs[0])
    return min(round(each.count * each.mean) for each in schema.feature_statistics[first:][: len(encoding.categories)])


def is_mode_of_workers(settings: TrainSettings) -> bool:
    """Return whether workers decided the mode, in which another model comes out than in one process."""
    return settings.mode == "auto" and settings.has_workers and isinstance(settings.options, OnlineSettings)


def constraint_assumptions(settings: TrainSettings, schema: Schema) -> list[str]:
    """Return the sentences on the radius of constrained weights, and on their columns that are not inputs."""
    constraints, bound = parse_constraints(constraints_of(settings.options))
    if not constraints:
        return []
    radius = getattr(settings.options, "radius", None)
    free = [f"weights have a norm of at most {RADIUS:g} (--radius)"] if radius is None and bound is None else []
    kept = [name for name in columns_of(constraints) if name in schema.keys]
    return [*free, *([f"{_named(kept)}, used in constraints, is no input (--key)"] if kept else [])]


def sparse_baselines(settings: TrainSettings, schema: Schema) -> list[str]:
    """Return the sentence on the baselines that sparse rows do not have."""
    own = ", which is itself linear" if getattr(settings.options, "kernel", "linear") == "linear" else ""
    return [f"no model is trained beside this one{own}: --beside takes dense rows"] if schema.sparse else []


def _words_as_categories(schema: Schema) -> list[str]:
    """Return a sentence on text columns with words such as 'n/a', which pandas reads as missing values."""
    words = {encoding.column: missing_word_of(encoding) for encoding in schema.encodings}
    columns = [column for column, word in words.items() if word]
    if not columns:
        return []
    return [
        f"text {words[columns[0]]!r} of {_named(columns)} is a category of its own, not a missing value; "
        "pandas.read_csv makes it a missing one: score files, or read tables with keep_default_na=False"
    ]


RARE_VALUES = 0.05
"""Share of the rows with values without an input of their own, above which a sentence names the column."""


def _named(columns: Sequence[str]) -> str:
    return ", ".join(columns[:3]) + (f" and {len(columns) - 3} more columns" if len(columns) > 3 else "")


def flat_metrics(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each metric of a result: predictor, split, metric, value."""
    sources = {"model": result, **result["baselines"]}
    return [
        {"predictor": name, "split": split, "metric": metric, "value": value}
        for name, source in sources.items()
        for split in ("progressive", "train", "test")
        for metric, value in ((source or {}).get(split) or {}).items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]


# The result, as printed by `okl train --json`


@dataclass(eq=False)
class RunRecord:
    """Results of a run, filled in stage by stage.

    place : folder of the run, during and after it; choice : record of the automatic choice; empty without one
    metric_sentence : on the metric that was learnt for a given solver
    predictor : the model's, with probabilities if it has any; calibration : how these were found
    in_folds : calibration of the automatic choice, see `calibrated`
    criterion : by which the model is compared with the baselines; proof : certificate of an online run, if requested
    linear : linear baseline of an online learner, trained as it is; None for others
    beside : linear baseline and those on request, by name; tallies : tallies of model and baselines, by split
    importance : importances of the columns on a sample of the test rows; None without these, or if it took too long
    errors : rows of largest loss with the values of the most important columns
    kept_to : values of the constraints, by split
    """

    place: RunFolder | PublishedFolder
    choice: dict[str, Any] = field(default_factory=dict)
    metric_sentence: str = ""
    proof: Certification | None = None
    data: Dataset = field(init=False)
    memory: MemoryPlan = field(init=False)
    learnt: TrainedSolver = field(init=False)
    predictor: Predictor = field(init=False)
    calibration: dict[str, Any] = field(default_factory=dict)
    in_folds: ScoreCalibration | None = None
    criterion: Criterion = field(init=False)
    linear: TrainedSolver | None = None
    beside: dict[str, Predictor] = field(default_factory=dict)
    tallies: Tallies = field(init=False)
    importance: Importances | None = None
    errors: dict[str, Any] = field(default_factory=dict)
    kept_to: Mapping[str, list[dict[str, Any]] | None] = field(init=False)
    traffic: Traffic = field(init=False)
    weights_sha256: str = field(init=False)

    def chosen(self, settings: TrainSettings) -> dict[str, Any]:
        """Return the values that the solver used, with reasons; values of the automatic choice are not "as given"."""
        used = self.learnt.solver.chosen(self.learnt.state)
        return named_reasons(used, settings.options, CHOSEN_AUTOMATICALLY if self.choice else GIVEN)

    def measure(self, settings: TrainSettings, execution: Execution) -> None:
        """Calibrate the model, and evaluate it and the baselines on both splits, then the constraints."""
        data, n_threads = self.data, execution.n_threads
        self.predictor, self.calibration = calibrated(
            settings, self.learnt.state, self.learnt.predictor, data, n_threads, self.in_folds
        )
        schema, model = data.schema, self.predictor
        self.criterion = criterion_of(settings.judged_by(schema.task), schema.task, schema.class_counts, schema.target)
        if self.criterion == "log-loss" and not isinstance(model, CalibratedPredictor):
            self.criterion = "auc" if schema.task == "binary" else "accuracy"
        constant = ConstantPredictor(schema)
        predictors: dict[str, Predictor] = {"model": model, constant.name: constant} | self.beside
        splits: dict[str, tuple[Shard, ...]] = {"train": data.split("train"), "test": data.split("test")}
        self.tallies = {
            split: predictor_tallies(data, shards, predictors, settings.precision, execution, self.criterion)
            if shards
            else None
            for split, shards in splits.items()
        }
        self.importance = self._importances(settings, n_threads)
        self.errors = self._largest_errors(settings)
        constraints, _ = parse_constraints(constraints_of(settings.options))
        parts = (constraints, model, settings.precision, execution)
        self.kept_to = {
            split: measure_constraints(data, shards, *parts) if constraints and shards else None
            for split, shards in splits.items()
        }

    def _largest_errors(self, settings: TrainSettings) -> dict[str, Any]:
        """Return the rows of largest loss on test rows if there are any, otherwise on training rows."""
        split = "test" if self.tallies["test"] is not None else "train"
        tallies = self.tallies[split]
        if tallies is None or (largest := tallies["model"].largest) is None:
            return {}
        columns = list(self.data.schema.source_columns)
        if self.importance is not None:
            columns = [one.column for one in self.importance.columns]
        rows = largest_errors(self.data, self.predictor, largest, columns[:SHOWN_COLUMNS], settings.precision)
        on = f"{split}{'' if split == 'test' else 'ing'} rows"
        return {"on": on, "rows": rows} | ({} if self.importance is None else {"by_importance": True})

    def _importances(self, settings: TrainSettings, n_threads: int) -> Importances | None:
        schema, predictor = self.data.schema, self.predictor
        if schema.sparse or not self.data.split("test"):
            return None
        most, repeats = rows_to_permute(schema, predictor, self.data.rows("train") + self.data.rows("test"))
        if not most:
            return None
        rows = sample_rows(self.data, "test", most, settings.seed, settings.precision)
        if len(rows.targets) < 2:
            return None
        criterion = permuted_criterion(self.criterion, len(rows.targets), predictor)
        return permutation_importance(
            schema, predictor, rows.inputs, rows.targets, criterion, repeats, settings.seed, n_threads
        )

    def _record_of(self, importance: Importances) -> dict[str, Any]:
        """Return importances as a record; fractions : columns whose least or largest number is not whole."""
        measured = zip(self.data.schema.features, self.data.schema.feature_statistics, strict=True)
        fractions = [name for name, column in measured if column.minimum % 1.0 or column.maximum % 1.0]
        return importance.as_json() | {"on": "test rows", "fractions": fractions}

    def prove(self, settings: TrainSettings, execution: Execution, observer: Observer) -> Certification:
        """Compute the certificate: regret of an online run, or the gap of Pegasos."""
        trained, data = self.learnt, self.data
        assert isinstance(trained.solver, OnlineSolver), (
            "check refuses to certify other solvers, which certify themselves"
        )
        assert isinstance(trained.curve, LearningCurve)
        recorded = trained.curve.recorded()
        options = settings.options
        if isinstance(options, PegasosSettings):
            self.proof = excess_proof(trained.solver, trained.state, data, options.confidence, execution)
        elif isinstance(trained.state.learner, TrackingLearner):
            self.proof = tracking_proof(trained.solver, trained.state, recorded, data, execution, observer)
        else:
            # sparse rows have no other frequencies
            dependent = isinstance(options, FourierOptions) and options.map != "independent"
            independent = not dependent or data.schema.sparse is not None
            self.proof = regret_proof(trained.state, recorded, data, execution, observer, independent)
        return self.proof

    def model(self, settings: TrainSettings, processors: Sequence[str]) -> Model:
        """Return the model to save, with its provenance; processors : processor models that trained it."""
        origin = provenance(self.data, settings.seed)
        origin |= {"processors": list(processors), "chosen": self.chosen(settings)}
        if used := plugins.origins(*settings.names):
            origin["extensions"] = used
        return Model(self.data.schema, self.predictor, settings.model_dump(mode="json"), origin)

    def as_json(self, settings: TrainSettings, keeper: RunCheckpoints, execution: Execution) -> dict[str, Any]:
        """Return the result; settings : settings of the run after the automatic choice."""
        trained, schema, folder = self.learnt, self.data.schema, self.place.folder
        rows, shares = self.data.rows("train"), metric_shares(schema)
        why = {"why": self.metric_sentence} if self.metric_sentence else {}
        constant = ConstantPredictor(schema).name
        data_in_run = self.data.folder.parent == self.place.staging  # and moves with it
        return {
            "model": str(folder / "model"),
            "run": str(folder),
            "name": settings.name or folder.name,
            "rows": rows,
            "seconds": trained.seconds,
            "total_seconds": keeper.total_seconds(),
            "rows_per_second": self.rows_per_second(settings),
            "peak_memory_bytes": peak_memory_bytes(),
            "memory_plan": self.memory.as_json(),
            **predictor_metrics(schema, self.tallies, "model", trained),
            "baselines": {
                constant: predictor_metrics(schema, self.tallies, constant, trained, True),
                "linear": None,
                **{name: predictor_metrics(schema, self.tallies, name, self.linear) for name in self.beside},
            },
            "weights_sha256": self.weights_sha256,
            "mode": settings.training_mode,
            "workers": execution.n_workers,
            "resumed": keeper.resumed,
            "rounds": self.traffic.rounds,
            "bytes_sent": self.traffic.bytes_sent,
            "bytes_received": self.traffic.bytes_received,
            "chosen": self.chosen(settings),
            "criterion": self.criterion,
            "assumptions": [
                *([] if is_dataset(settings.data) else assumptions(self.data, settings.ingest)),
                *constraint_assumptions(settings, self.data.schema),
                *([] if self.beside else sparse_baselines(settings, self.data.schema)),
            ],
            **({"mode_of_workers": True} if is_mode_of_workers(settings) else {}),
            **({"calibration": self.calibration} if self.calibration else {}),
            **({"importance": self._record_of(self.importance)} if self.importance else {}),
            **({"largest_errors": self.errors} if self.errors else {}),
            **({"metric": {"shares": shares} | why} if shares or why else {}),
            **convergence_entries(trained, self.proof),
            **constraint_figures(trained, self.kept_to, rows),
            **({"choice": self.choice} if self.choice else {}),
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, folder / "data" if data_in_run else self.data.folder),
        }

    def rows_per_second(self, settings: TrainSettings) -> float:
        return self.data.rows("train") * settings.options.n_passes / max(self.learnt.seconds, 1e-9)


# The rows of largest loss, with their targets, predictions and values

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def largest_errors(
    data: Dataset, predictor: Predictor, largest: LargestLosses, columns: Sequence[str], precision: Precision
) -> list[dict[str, Any]]:
    """Return the rows of largest loss as JSON values, the largest first; one row group is in memory at a time.

    largest : positions and losses of the rows; columns : source columns whose values are returned
    Returns for each row loss, target, prediction, score (of several classes, that of the predicted one), probability of
        the true class if there are probabilities, keys and values by column, shard (its path) and row (position in it).
    Raises DataError : a shard is missing or damaged
    """
    shards = {shard.index: shard for shard in data.shards}
    places = zip(largest.losses.tolist(), largest.shards.tolist(), largest.rows.tolist(), strict=True)
    return [
        {"loss": finite_or_none(loss)} | _row(data, predictor, shards[index], row, columns, precision)
        for loss, index, row in places
    ]


def _row(
    data: Dataset, predictor: Predictor, shard: Shard, row: int, columns: Sequence[str], precision: Precision
) -> dict[str, Any]:
    schema = data.schema
    ends = np.cumsum(shard.row_groups)
    group = int(np.searchsorted(ends, row, side="right"))
    inside = row - int(ends[group]) + shard.row_groups[group]
    table = read_columns(data, shard, group, [*schema.features, schema.target, *schema.keys]).slice(inside, 1)
    stored = np.array([table.column(name)[0].as_py() for name in schema.features], dtype=np.float64)
    inputs: Any = scaled_inputs(schema, stored[np.newaxis], precision)
    if schema.sparse is not None:
        inputs = read_rows(data, shard, (group,), precision).inputs[[inside]]
    targets = targets_of(schema, table.column(schema.target).to_numpy().astype(np.float64))
    scores = predictor.scores(inputs)
    shown, score = predictions(schema, scores)[0], float(scores.max())
    target: Any
    if schema.task == "regression":
        target, score = float(in_target_unit(schema, targets)[0]), float(in_target_unit(schema, scores)[0])
    else:
        target = schema.labels[int(class_indices(schema, targets)[0])]
    entry = {"target": target, "prediction": shown.item() if isinstance(shown, np.generic) else shown}
    entry["score"] = finite_or_none(score)
    if isinstance(predictor, CalibratedPredictor):
        entry["probability"] = float(predictor.probabilities(scores)[0, class_indices(schema, targets)[0]])
    encodings = {encoding.column: encoding for encoding in schema.encodings}
    columns = [name for name in columns if name in encodings or name in schema.features]  # sparse rows have no columns
    by_input = dict(zip(schema.features, stored.tolist(), strict=True))
    return entry | {
        "keys": {name: _plain(table.column(name)[0]) for name in schema.keys},
        "values": {name: _value(encodings.get(name), name, by_input) for name in columns},
        "shard": shard.path,
        "row": row,
    }


def _value(encoding: Encoding | None, column: str, stored: dict[str, float]) -> Any:
    """Return the value of a source column from stored inputs; None where it is missing."""
    if encoding is None:
        return _shortest(stored[column])
    if encoding.missing and stored.get(encoding.inputs[-1]) == 1.0:
        return None
    if encoding.means:  # of training rows they are in no table
        inputs = np.array([[stored.get(name, np.nan)] for name in encoding.inputs], dtype=np.float32)
        found = np.flatnonzero((encoding.table == inputs).all(axis=0))
        one = [*encoding.categories, "(other)", None][found[0]] if len(found) == 1 else ""
        return f"one of {len(found) or len(encoding.categories)} values" if one == "" else one
    if encoding.kind == "category":
        named = [*encoding.categories, *(["(other)"] if encoding.other else [])]
        return next((word for word, name in zip(named, encoding.inputs, strict=False) if stored.get(name) == 1.0), None)
    first = stored.get(encoding.inputs[0])
    if first is None or encoding.kind == "number":
        return None if first is None else _shortest(first)
    if encoding.kind == "time":
        turn = math.atan2(first, stored.get(encoding.inputs[1], math.nan)) / (2 * math.pi)
        return None if math.isnan(turn) else f"{EPOCH + timedelta(minutes=round(1440 * turn)):%H:%M}"
    try:
        moment = EPOCH + timedelta(days=DAYS_TO_2000 + first * YEAR_DAYS)
        if encoding.kind == "date":
            return f"{moment + timedelta(hours=12):%Y-%m-%d}"
        return f"{moment + timedelta(seconds=30):%Y-%m-%d %H:%M}"
    except OverflowError:  # Python's dates have the years 1 to 9999
        return "after the year 9999" if first > 0.0 else "before the year 1"


def _shortest(value: float) -> float | int | None:
    """Return the shortest number that float32 rounds to the value, as inputs are stored."""
    if not math.isfinite(value):
        return None
    short = float(str(np.float32(value)))
    return int(short) if short == int(short) and abs(short) < 1e15 else short


def _plain(value: pa.Scalar) -> Any:
    plain = value.as_py()
    return plain if plain is None or isinstance(plain, str | int | bool) else str(plain)
