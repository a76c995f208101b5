"""Model comparison: table, significance tests, winner, and the stages of the run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, stdev, variance
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from okl.data.dataset import BESIDE_WORDS, ROBUST, Dataset, Scaling, Schema
from okl.data.execution import Execution
from okl.data.manifest import group_of, is_dataset, peak_memory_bytes, provenance
from okl.data.reading import MANY_GROUPS, sample_rows, stored_row_bytes
from okl.data.squash import with_squashed
from okl.distributed.cluster_file import check_execution_options
from okl.features.base import FeatureMap, transform_rows
from okl.features.linear import SparseInputs, StandardisedLinear
from okl.features.predictors import BasePredictor, CalibratedPredictor, LinearPredictor, Predictor
from okl.foundation.errors import DataError, DivergedError
from okl.foundation.folders import check_published, output_folder
from okl.foundation.locations import COMPARED, Place, place_of
from okl.foundation.telemetry import Observer
from okl.foundation.types import Criterion, Doubles, FloatArray
from okl.metrics.calibration import fit_calibration
from okl.metrics.criterion import TESTS, paired_t
from okl.models.file import Model, save_model
from okl.models.inputs import class_indices
from okl.report.comparison import comparison_page
from okl.report.format import scalar_metrics
from okl.report.render import html, markdown
from okl.runs import compare_grids
from okl.runs.baselines import ConstantPredictor
from okl.runs.calibrate import LEAST_OF_CLASS as LEAST_CALIBRATED
from okl.runs.calibrate import calibrated
from okl.runs.compare_grids import Sample
from okl.runs.compare_models import AUTO, LEAST_SQUARES, check_models, left_out, map_choice, model_names, train_settings
from okl.runs.compare_search import CompareCandidate, Judge, ModelSearch, Trial, solve_path, with_biases
from okl.runs.compare_settings import CompareSettings
from okl.runs.evaluate import predictor_tallies
from okl.runs.growing_models import train_growing_models
from okl.runs.loop import run_loop
from okl.runs.results import assumptions, describe_data
from okl.runs.run import Run, check_data, open_run_data, run_folder
from okl.runs.select import choose_solver
from okl.solvers.accelerated.choice import MethodChoice
from okl.solvers.accelerated.fitting import Fitted
from okl.solvers.accelerated.models import is_model, model_class
from okl.solvers.accelerated.operators import matrix_rows
from okl.solvers.accelerated.problem import class_moments
from okl.solvers.base import CHOSEN_AUTOMATICALLY, named_reasons, reasons_of
from okl.solvers.factory import make_solver, training_columns
from okl.solvers.online.solver import SAMPLE_ROWS

# Paired significance tests of two models, over folds or over the rows of a holdout.

CORRECTED = "corrected resampled t-test (Nadeau & Bengio, 2003)"


def corrected_resampled_t(differences: Sequence[float], test_share: float) -> float:
    """Return the two-sided p-value of a mean difference over folds whose training rows overlap.

    t = mean / sqrt((1 / k + test_share) variance), with k - 1 degrees of freedom, k folds.

    differences : of a metric, one for each fold, at least two
    test_share : test rows divided by training rows of a fold, 1 / (k - 1) for k folds

    Source: Nadeau & Bengio, Machine Learning 52, 2003, section 3, the corrected resampled t-test; the folds of one
    cross validation replace random splits, as in Bouckaert & Frank, PAKDD 2004.

    >>> round(corrected_resampled_t([0.02, 0.03, 0.01, 0.02, 0.02], 0.25), 4)
    0.0135
    """
    k, mean, spread = len(differences), fmean(differences), variance(differences)
    if spread <= 1e-30:  # equal differences: a spread of this size is rounding
        return 1.0 if abs(mean) <= 1e-15 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / math.sqrt((1.0 / k + test_share) * spread), k - 1))


# The table of a comparison: a row for each candidate with its spread, its certificate and a test against the best.

BIASES = ("own", "none", "error-minimising")


def constant_score(schema: Schema, criterion: Criterion) -> float:
    """Return the score of a constant prediction: the majority class, the shares of the classes, or the mean."""
    if criterion == "squared-error":
        return 0.0
    shares = np.array(schema.class_counts) / sum(schema.class_counts)
    if criterion == "accuracy":
        return float(shares.max())
    if criterion == "log-loss":
        return 1.0 + float(shares[shares > 0.0] @ np.log(shares[shares > 0.0]))
    return {"auc": 0.5, "average-precision": float(shares[-1])}.get(criterion, 1.0 / len(shares))


def winner_of(candidates: Sequence[CompareCandidate]) -> CompareCandidate | None:
    """Return the candidate with the best mean accuracy; ties give the first; None if all failed."""
    measured = [candidate for candidate in candidates if not candidate.failure]
    return max(measured, key=lambda candidate: candidate.mean(*candidate.choice()), default=None)


def table_of(candidates: Sequence[CompareCandidate], test_share: float, judge: Judge) -> list[dict[str, Any]]:
    """Return a row for each candidate, the best first, failed ones last; test_share : test rows by training rows."""
    best = winner_of(candidates)
    rows = [_row(candidate, best, test_share, judge) for candidate in candidates]
    return sorted(rows, key=lambda row: (row["mean"] is None, -(row["mean"] or 0.0)))


def _row(candidate: CompareCandidate, best: CompareCandidate | None, test_share: float, judge: Judge) -> dict[str, Any]:
    row: dict[str, Any] = {
        "model": candidate.name,
        "kind": "certified" if is_model(candidate.name) else "ridge" if candidate.name in LEAST_SQUARES else "online",
        "status": "failed" if candidate.failure else "measured",
        "note": candidate.failure,
        "parameter": candidate.grid.parameter if is_model(candidate.name) else None,
        "seconds": candidate.seconds,
        "best": candidate is best,
        "mean": None,
        "path": _path(candidate),
    }
    if candidate.failure or best is None:
        return row
    grid_point, bias = candidate.choice()
    trials = candidate.trials[grid_point]
    own = [trial.score(bias) for trial in trials]
    by_bias = {name: _of_bias(candidate, name) for name in BIASES if name in candidate.biases}
    row |= {
        "mean": candidate.mean(grid_point, bias),
        "spread": spread(own),
        "scores": own,
        "bias": bias,
        "biases": by_bias,
        "place": candidate.grid.points[grid_point] if is_model(candidate.name) else None,
        "value": mean_value(trials),
        "tried": len(candidate.grid.points),
        "chosen": [trial.chosen for trial in trials],
        "relative_gap": _largest_gap(trials),
        "iterations": max(trial.iterations for trial in trials),
        "difference": candidate.mean(grid_point, bias) - best.mean(*best.choice()),
        "p_value": 1.0 if candidate is best else _p_value(trials, bias, best, test_share, judge),
    }
    return row | _log_loss(trials, best.trials[best.choice()[0]], test_share)


def _log_loss(trials: Sequence[Trial], best: Sequence[Trial], test_share: float) -> dict[str, float]:
    """Return the log loss and the p-value that it equals that of the best; empty where it was not computed."""
    pairs = [
        (mine.log_losses, theirs.log_losses)
        for mine, theirs in zip(trials, best, strict=True)
        if mine.log_losses is not None and theirs.log_losses is not None
    ]
    if len(pairs) < len(trials):
        return {}
    apart = [mine - theirs for mine, theirs in pairs]
    p_value = (
        corrected_resampled_t([float(rows.mean()) for rows in apart], test_share)
        if len(apart) > 1
        else paired_t(len(apart[0]), float(apart[0].sum()), float(np.square(apart[0]).sum())).two_sided
    )
    return {"log_loss": fmean(float(mine.mean()) for mine, _ in pairs), "log_loss_p_value": p_value}


def spread(values: Sequence[float]) -> float | None:
    """Return the standard deviation, with n - 1 in the denominator; None for one value."""
    return stdev(values) if len(values) > 1 else None


def mean_value(trials: Sequence[Trial]) -> float | None:
    """Return the parameter, averaged over the parts, whose valid ranges differ a little."""
    values = [trial.value for trial in trials if trial.value is not None]
    return fmean(values) if values else None


def _of_bias(candidate: CompareCandidate, bias: str) -> dict[str, float | None]:
    grid_point = max(candidate.alive, key=lambda some: candidate.mean(some, bias))
    values = [trial.score(bias) for trial in candidate.trials[grid_point]]
    return {"mean": fmean(values), "spread": spread(values), "value": mean_value(candidate.trials[grid_point])}


def _path(candidate: CompareCandidate) -> list[dict[str, Any]]:
    """Return the score of the better bias rule at each grid point, on the largest number of rows used."""
    rows = []
    for grid_point, trials in sorted(candidate.trials.items()):
        if any(trial.failure for trial in trials) or not is_model(candidate.name):
            continue
        bias = max(candidate.biases, key=lambda name: candidate.mean(grid_point, name))
        rows.append(
            {
                "place": candidate.grid.points[grid_point],
                "value": mean_value(trials),
                "rows": candidate.tried_rows[grid_point],
                "mean": candidate.mean(grid_point, bias),
                "relative_gap": _largest_gap(trials),
            }
        )
    return rows


def _largest_gap(trials: Sequence[Trial]) -> float | None:
    return max((trial.relative_gap for trial in trials if trial.relative_gap is not None), default=None)


def _p_value(trials: Sequence[Trial], bias: str, best: CompareCandidate, test_share: float, judge: Judge) -> float:
    grid_point, best_bias = best.choice()
    theirs = best.trials[grid_point]
    if len(trials) == 1:
        return judge.p_value(trials[0], bias, theirs[0], best_bias)
    pairs = zip(theirs, trials, strict=True)
    return corrected_resampled_t([first.score(best_bias) - mine.score(bias) for first, mine in pairs], test_share)


# Refit of the winner on all training rows, or on as many as fit the memory limit.

MORE_ITERATIONS, TOLERANCE_FACTOR = 4, 0.1
PATH_SHARES = (0.25, 0.5, 0.75, 1.0)  # of the grid, up to the chosen point
DUAL_BYTES = 128  # for each row: the vectors of the method, float64


@dataclass(frozen=True, eq=False)
class Winner:
    """Refitted winner; its schema has the scaling and metric of its inputs.

    values : of the parameter, for each class against the rest; chosen : by an online solver or ridge
    certificate : as JSON; None for online solvers and ridge
    """

    predictor: Predictor
    schema: Schema
    rows: int
    values: tuple[float, ...] = ()
    certificate: dict[str, Any] | None = None
    chosen: dict[str, Any] | None = None


def fit_winner(
    settings: CompareSettings,
    data: Dataset,
    best: CompareCandidate,
    feature_map: FeatureMap | None,
    execution: Execution,
    observer: Observer,
) -> Winner:
    """Train the best candidate again with its parameter and bias rule.

    feature_map : map of certified models; None: the inputs; observer : of rows done, the total, and metrics
    """
    name = best.name
    if not is_model(name):
        return _train_solver(settings, data, name, execution, observer)
    chosen, bias = best.choice()
    columns = data.schema.n_features + (0 if feature_map is None else feature_map.n_columns)
    sparse = data.schema.sparse is not None
    item_bytes = np.dtype(settings.precision).itemsize
    row_bytes = DUAL_BYTES + (stored_row_bytes(data, data.split("train")[0]) if sparse else columns * item_bytes)
    n_rows = max(2, min(data.rows("train"), int(settings.memory * 2**30 / row_bytes)))
    rows = sample_rows(data, "train", n_rows, settings.seed, settings.precision, MANY_GROUPS)
    features = rows.inputs if feature_map is None else transform_rows(feature_map, rows.inputs, execution.n_threads)
    signs = compare_grids.signs_of_classes(rows.targets, max(2, len(data.schema.labels)))
    grid = compare_grids.on_rows(best.grid, features, signs)
    method = MethodChoice(
        tolerance=TOLERANCE_FACTOR * settings.tolerance, max_iterations=MORE_ITERATIONS * settings.iterations
    )
    # warm-started from more regularised values: a cold start takes several times the iterations
    steps = sorted({round(share * chosen) for share in PATH_SHARES}) if grid.parameter != "kappa" else [chosen]
    points = [grid.points[step] for step in steps]
    values, fits = list[float](), list[Fitted]()
    for index, sign in enumerate(signs):
        observer.advance(index * len(sign), len(signs) * len(sign), {})
        some_rows: Any = matrix_rows(features, sign, execution.n_threads)  # minimax models take no sparse ones
        solved = solve_path(grid, points, some_rows, index, method, partial(class_moments, some_rows))[-1]
        values.append(solved.parameter)
        fits.append(solved.solution)
    weights, own = [fit.weights for fit in fits], [fit.bias for fit in fits]
    biases = with_biases(weights, own, model_class(name).HAS_OWN_BIAS, features, signs).biases[bias]
    shared = SparseInputs(columns, settings.precision) if sparse else feature_map
    predictor = affine_predictor(shared, np.array(weights), np.array(biases), settings)
    return Winner(predictor, data.schema, len(rows.targets), tuple(values), _certificate(fits))


def with_probabilities(winner: Winner, best: CompareCandidate) -> Winner:
    """Return the winner, calibrated on the scores of the folds where these are of enough rows of two classes.

    It predicts the classes that it did before.
    """
    grid_point, bias = best.choice()
    held = [(trial.held[bias], trial.held_classes) for trial in best.trials[grid_point] if trial.held]
    predictor = winner.predictor
    if len(held) < len(best.trials[grid_point]) or not isinstance(predictor, BasePredictor):
        return winner
    scores, classes = (np.concatenate(parts) for parts in zip(*held, strict=True))
    if np.sort(np.bincount(classes, minlength=2))[-2] < LEAST_CALIBRATED:
        return winner
    calibration = fit_calibration(scores, classes)
    return replace(winner, predictor=CalibratedPredictor(predictor, calibration, calibration.offsets))


def _certificate(fits: list[Fitted]) -> dict[str, Any]:
    """Return the certificate as JSON; over classes, gaps and objectives are summed, the relative gap is the largest."""
    certificates = [fit.certificate for fit in fits]
    return {
        "kind": "duality gap",
        "gap": sum(some.gap for some in certificates),
        "relative_gap": max(some.relative_gap for some in certificates),
        "objective": sum(some.primal for some in certificates),
        "dual_objective": sum(some.dual for some in certificates),
        "iterations": sum(fit.iterations for fit in fits),
        "outcome": reasons_of([fit.outcome for fit in fits]),
    }


def affine_predictor(
    feature_map: FeatureMap | None, weights: FloatArray, biases: FloatArray, settings: CompareSettings
) -> LinearPredictor:
    """Return a predictor with scores <w, x> - bias, of weights (n_outputs, n_columns) and biases (n_outputs,)."""
    precision = settings.precision
    if feature_map is not None:
        return LinearPredictor(feature_map, weights.astype(precision), (-biases).astype(precision))
    n_inputs = weights.shape[1]
    inputs = StandardisedLinear(np.zeros(n_inputs, dtype=precision), np.ones(n_inputs, dtype=precision), 1.0)
    return LinearPredictor(inputs, np.column_stack([weights, -biases]).astype(precision))


def _train_solver(
    settings: CompareSettings, data: Dataset, name: str, execution: Execution, observer: Observer
) -> Winner:
    """Train as `okl train` does, online solvers in one pass over all rows; the memory limit does not apply."""
    if name == AUTO:
        choice = choose_solver(train_settings(settings, name), data)
        columns = training_columns(choice.settings, data, metric=choice.metric)
        best = train_growing_models(choice, columns, execution)
        trained, used = best.trained, best.settings.options.model_dump(exclude_unset=True)
        of_solver = named_reasons(trained.solver.chosen(trained.state), None, CHOSEN_AUTOMATICALLY)
        chosen = {"solver": best.settings.solver} | used | of_solver
        parts = (best.settings, trained.state, trained.predictor, columns)
        predictor, _ = calibrated(*parts, execution.n_threads, choice.calibration)
        return Winner(predictor, columns.schema, data.rows("train"), chosen=chosen)
    of_winner = train_settings(settings, name)
    solver = make_solver(of_winner, data)
    made = run_loop(solver, solver.start(data, execution), data, execution, observer)
    chosen = named_reasons(solver.chosen(made.state), of_winner.options)
    return Winner(made.predictor, data.schema, data.rows("train"), chosen=chosen)


# Stages of a comparison.

LEAST_OF_CLASS = 2


@dataclass(eq=False)
class ComparisonRun(Run[CompareSettings]):
    """Comparison run."""

    STAGES = ("plan", "search", "refit", "evaluate", "save", "report")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.output = output_folder(_folder(self.settings))

    @property
    def name(self) -> str:
        return self.folder.name

    def check_settings(self) -> None:
        check(self.settings)

    def plan(self) -> dict[str, Any]:
        """Read the sample, draw the map, make the grids and start workers."""
        settings = self.settings
        assert self.output is not None
        self.output.open()
        self._opened = open_run_data(self, settings)
        self.data = scaled_data(settings, self._opened)
        self._standardises = settings.rescale == "auto" and self.data.schema.scale != self._opened.schema.scale
        if not is_dataset(settings.data):
            named = replace(self.data, folder=place_of(settings.data))  # errors name the source
            check_models(settings, named)
        self.names = model_names(settings, self.data.schema.task, self.data.schema.sparse is not None)
        n_classes = max(2, len(self.data.schema.labels))
        shared = (self.data, settings.rows, settings.seed, settings.precision, settings.folds, settings.holdout)
        sample, self.feature_map, self.chosen = Sample(*shared), None, dict[str, Any]()
        if (choice := map_choice(settings, self.names)) is not None:
            few = sample.all().inputs[:SAMPLE_ROWS]
            self.feature_map, self.chosen = choice.draw(self.data.schema, few, settings.seed, settings.precision)
        self.sample = Sample(*shared, self.feature_map)
        rows = self.sample.all()
        if self.data.schema.task != "regression":
            self._check_classes(np.bincount(class_indices(self.data.schema, rows.targets), minlength=n_classes))
        self._check_groups(self.sample.kinds(rows.targets))
        features, signs = self.sample.mapped(rows.inputs), compare_grids.signs_of_classes(rows.targets, n_classes)
        grids = {
            name: compare_grids.make_grid(name, features, signs, settings.grid) for name in self.names if is_model(name)
        }
        self._search = ModelSearch(settings, self.sample, self.names, grids, n_classes)
        return {"rows": len(rows.targets), "rungs": list(self._search.steps()), "models": list(self.names)}

    def _check_classes(self, counts: NDArray[np.int64]) -> None:
        """Raise DataError if a class of the data has too few sampled rows to be in the training rows of every fold."""
        rarest = int(np.argmin(counts))
        if counts[rarest] < LEAST_OF_CLASS and counts.sum() < self.data.rows("train"):
            raise DataError(
                f"Class {self.data.schema.labels[rarest]} has {counts[rarest]} of the {counts.sum():,} sampled rows; "
                f"each fold needs one to train on. Raise --rows, up to {self.data.rows('train'):,}."
            )

    def _check_groups(self, classes: Doubles) -> None:
        """Raise DataError if folds of whole groups, which classes may leave out, have too few rows."""
        tested, name = self.sample.tested(), group_of(self.data)
        n_parts = self.sample.n_parts if name is not None and self.settings.holdout != "test" else 0
        for part in range(n_parts):
            held = tested == part
            if not held.any() or len(np.unique(classes[~held])) < len(np.unique(classes)):
                raise DataError(
                    f"Folds are whole groups of {name!r}, and fold {part + 1} of {n_parts} would have "
                    f"{'no rows' if not held.any() else 'all rows of a class'}. Use fewer folds, or more groups."
                )

    def search(self) -> dict[str, Any]:
        """Fit and validate all values of all models."""
        started = time.perf_counter()
        candidates = self._search.run(self.execution, self.observer.advance)
        self._search_seconds = time.perf_counter() - started
        best = winner_of(candidates)
        if best is None:
            raise DivergedError(f"Every model failed. The first error: {candidates[0].failure}")
        self.best: CompareCandidate = best
        share = self.sample.test_rows(0) / self.sample.train_rows()
        self.table = table_of(candidates, share, self._search.judge)
        return {"winner": best.name, "mean": self.table[0]["mean"]}

    def refit(self) -> dict[str, Any]:
        """Train the winner again, and calibrate its scores."""
        data = self._opened if self.best.name == AUTO and self._standardises else self.data
        winner = fit_winner(self.settings, data, self.best, self.feature_map, self.execution, self.observer)
        self.winner: Winner = with_probabilities(winner, self.best)
        return {"rows": self.winner.rows, "certificate": self.winner.certificate}

    def evaluate(self) -> dict[str, Any]:
        """Compute metrics of the winner and the majority class on both splits."""
        data = replace(self.data, schema=self.winner.schema)
        constant = ConstantPredictor(self.data.schema)
        predictors = {"winner": self.winner.predictor, constant.name: constant}
        self.metrics: dict[str, dict[str, Any]] = {"train": {}, "test": {}}
        for split, figures in self.metrics.items():
            if shards := self.data.split(split):  # type: ignore[arg-type]  # one of both
                tallies = predictor_tallies(data, shards, predictors, self.settings.precision, self.execution)
                figures |= {name: scalar_metrics(tally.report()) for name, tally in tallies.items()}
        return {split: figures["winner"] for split, figures in self.metrics.items() if figures}

    def save(self) -> dict[str, Any]:
        """Write the winner's model folder."""
        row = self.table[0]
        chosen = {name: row[name] for name in ("model", "parameter", "value", "bias")} | self._chosen()
        origin = provenance(self.data, self.settings.seed) | {"chosen": chosen}
        settings = self.settings.model_dump(mode="json")
        model = Model(self.winner.schema, self.winner.predictor, settings, origin)
        self.weights_sha256 = save_model(model, self.staging / "model")
        return {"weights_sha256": self.weights_sha256}

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and publish the run's folder."""
        self._result = self._collect()
        (self.staging / "report.html").write_text(html(comparison_page(self._result)), encoding="utf-8")
        self.complete()
        return {"run": str(self.folder)}

    def report_markdown(self) -> str:
        return markdown(comparison_page(self._result))

    def metrics_table(self) -> list[dict[str, Any]]:
        return [scalar_metrics(row) for row in self._result["models"]]

    def _chosen(self) -> dict[str, Any]:
        """Return the chosen values of the winner, with those of the shared map if it was trained on it."""
        return (self.chosen if is_model(self.best.name) else {}) | (self.winner.chosen or {})

    def _collect(self) -> dict[str, Any]:
        settings, schema, sample, winner = self.settings, self.data.schema, self.sample, self.winner
        data_folder = place_of(settings.data).absolute() if is_dataset(settings.data) else self.folder / "data"
        constant = ConstantPredictor(schema).name
        baselines = {split: figures.get(constant) for split, figures in self.metrics.items()}
        criterion = self._search.judge.criterion
        return {
            "model": str(self.folder / "model"),
            "run": str(self.folder),
            "name": settings.name or self.name,
            "winner": {
                "model": self.best.name,
                "parameter": self.table[0]["parameter"],
                "value": winner.values[0] if len(winner.values) == 1 else None,
                "values": list(winner.values),
                "bias": self.best.choice()[1],
                "rows": winner.rows,
                "chosen": self._chosen(),
            },
            "certificate": winner.certificate,
            "models": self.table,
            "criterion": criterion,
            "assumptions": self._assumptions(),
            "constant": constant_score(schema, criterion),
            "test_name": CORRECTED if sample.n_parts > 1 else TESTS[criterion],
            "parts": sample.n_parts,
            "search_rows": len(sample.all().targets),
            "rungs": list(self._search.steps()),
            "judged_rows": sum(sample.test_rows(number) for number in range(sample.n_parts)),
            **{split: figures.get("winner") for split, figures in self.metrics.items()},
            "baselines": {constant: baselines},
            "weights_sha256": self.weights_sha256,
            "search_seconds": self._search_seconds,
            "total_seconds": time.perf_counter() - self.timeline.begun,
            "peak_memory_bytes": peak_memory_bytes(),
            "workers": self.execution.n_workers,
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, data_folder),
        }

    def _assumptions(self) -> list[str]:
        """Return a sentence for each default that decided how rows were read and models compared."""
        given = is_dataset(self.settings.data)
        sentences = [] if given else assumptions(self.data, self.settings.ingest)
        if self._standardises and self.data.schema.sparse is None:
            sentences.append("inputs are standardised (--rescale)")
        return [*sentences, *filter(None, [left_out(self.settings, self.data.schema)])]


def scaled_data(settings: CompareSettings, data: Dataset) -> Dataset:
    """Return a data set with the scaling of a comparison: as given, or standard if the data set has none."""
    wanted: Scaling = data.schema.scaling if settings.rescale == "auto" else settings.rescale
    if settings.rescale == "auto" and wanted == "none" and data.schema.feature_statistics:
        wanted = "standard" if data.schema.sparse is None else BESIDE_WORDS
    if wanted in ROBUST and not data.schema.squashed:
        data = with_squashed(data, settings.seed)
    return replace(data, schema=data.schema.scaled_as(wanted))


def check(settings: CompareSettings) -> None:
    """Raise an error for wrong settings or data without reading rows or starting a server or workers."""
    check_execution_options(settings)
    model_names(settings)
    check_data(settings, lambda data: check_models(settings, data), lambda ingest_settings: None)
    check_published(_folder(settings))


def _folder(settings: CompareSettings) -> Place:
    return run_folder(settings, COMPARED)
