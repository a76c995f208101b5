"""The automatic choice of solver, kernel and size as scikit-learn estimators of arrays and tables."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import RegressorMixin
from sklearn.datasets import dump_svmlight_file
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from okl.data.dataset import Dataset, Label, Schema
from okl.data.ingest.columns import SPLIT, check_present
from okl.data.ingest.run import NUMBERS_AS_TEXT, ingest
from okl.data.ingest.sources import MANY_COLUMNS
from okl.data.manifest import lost_digits, provenance
from okl.data.reading import read_rows
from okl.data.sparse import MOST_COLUMNS
from okl.data.values import is_text
from okl.distributed.in_process import LocalExecution
from okl.estimators import base
from okl.features.predictors import CalibratedPredictor, KernelExpansion, LinearPredictor, Predictor
from okl.foundation.errors import ConfigError, DataError, DivergedError
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.telemetry import NullObserver
from okl.foundation.types import Doubles, FloatArray, Optimise, Task
from okl.foundation.validation import check_at_least
from okl.metrics.calibration import ScoreCalibration
from okl.models.file import Model
from okl.models.inputs import check_names, class_indices, table_of
from okl.report.progress import observed
from okl.runs.api import in_python, location_of
from okl.runs.baselines import fit_logistic
from okl.runs.calibrate import MOST_ROWS, calibrated, class_weights_of, shifts_of
from okl.runs.encodings import encoding_by_trial
from okl.runs.growing_models import train_growing_models
from okl.runs.model_sizes import ENOUGH_LANDMARKS
from okl.runs.results import rare_values
from okl.runs.run import DEFAULT_HOLDOUT
from okl.runs.select import choose_solver
from okl.solvers.factory import make_solver, training_columns
from okl.solvers.online.settings import FogdSettings
from okl.solvers.ridge.gram import Outputs, WeightedRows, part_of
from okl.solvers.ridge.penalty_path import SAMPLE_ROWS, fit_rows
from okl.solvers.ridge.settings import RidgeSettings
from okl.solvers.ridge.solver import RidgeSolver, plain_inputs
from okl.solvers.settings import TrainSettings

# Rows in memory as a data set: the encoders of `okl train` read them from a temporary file.


def is_table(values: Any) -> bool:
    """Return whether rows are a table with named columns (pandas, polars, Arrow), and no array."""
    if hasattr(values, "collect"):  # lazy, and refused in a sentence
        return True
    return hasattr(values, "columns") and (hasattr(values, "__arrow_c_stream__") or hasattr(values, "iloc"))


def checked_table(values: Any) -> Any:
    """Return a table as it is, a record batch as a table; DataError for two columns of one name."""
    if isinstance(values, pa.RecordBatch) or hasattr(values, "collect"):
        values = table_of(values)
    check_names(values.column_names if isinstance(values, pa.Table) else values.columns)
    return values


def without_options(text: str) -> str:
    """Return a sentence on a column without the options of commands in brackets; text is a parameter here, too.

    >>> without_options("Left out (--category z) or copy it to the scores (--key z). --text z takes its words.")
    'Left out. text="z" takes its words.'
    """
    text = re.sub(r" \(--[^()]*\)", "", text)
    text = text.replace(", leave it out or copy it to the scores", " or leave it out")
    return in_python(text.replace(" or copy it to the scores", ""))


def named_columns(values: Any) -> pa.Table:
    """Return rows as an Arrow table; columns of an array, or of a table without names, are named x0, x1, ..."""
    if not is_table(values):
        columns = np.asarray(values)
        if columns.dtype == np.longdouble:  # which Arrow does not have
            columns = columns.astype(np.float64)
        return pa.table({f"x{index}": column for index, column in enumerate(columns.T)})
    if not all(isinstance(name, str) for name in values.columns) and not isinstance(values, pa.Table):
        values = values.set_axis([f"x{index}" for index in range(values.shape[1])], axis=1)
    return table_of(values)


Rows = Any
"""A pyarrow.Table, or a csr_array of many columns."""


def _dense_or_sparse(rows: Any) -> Any:
    """Return sparse rows as an array, unless they have many columns, and other rows as they are; or raise DataError."""
    if not issparse(rows):
        return rows
    if rows.shape[1] > MOST_COLUMNS:
        raise DataError(
            f"X has {rows.shape[1]:,} columns, but sparse rows have at most {MOST_COLUMNS:,}. Select columns, or fold "
            "them into fewer by a hash, as scikit-learn's FeatureHasher does."
        )
    if rows.shape[1] <= MANY_COLUMNS:
        return rows.toarray()
    rows = csr_array(rows, copy=True)
    rows.sum_duplicates()
    return rows


@contextmanager
def _file_of(rows: Rows, targets: NDArray[Any], name: str) -> Iterator[Path]:
    """Yield a temporary file of rows and their targets: Parquet of a table, svmlight text of sparse rows."""
    if isinstance(rows, pa.Table):
        with location_of(rows.append_column(name, pa.array(targets)), "X", without_options) as location:
            yield Path(str(location))
        return
    with TemporaryDirectory(prefix="okl-rows-") as folder:
        file = Path(folder) / "X.svm"
        dump_svmlight_file(rows, targets, str(file), zero_based=True)
        yield file


@dataclass(kw_only=True, eq=False, repr=False)
class AutomaticEstimator(base.ScoringEstimator):
    """Solver, scaling, kernel, bandwidth and size chosen on a sample of the rows, as `okl train` does.

    Rows are an array of numbers, or a table (pandas, polars, Arrow) whose columns are numbers, text, dates or booleans;
    values may be missing. Nothing has to be scaled or encoded before. SciPy's sparse matrices are arrays, too, unless
    they have more than 1,024 columns: as `okl train` does, a linear model is then fitted to the rows, divided by their
    lengths. The same rows and parameters give the same bits,
    whatever n_jobs is, and those of `okl train` on these rows as training rows.

    With sample_weight, the choice is made without the weights. Kernel least squares and linear logistic regression are
    fitted with them; where fogd was chosen, kernel least squares of the same kernel are.

    Parameters
    ----------
    budget_seconds : float > 0, limit of choice and training on a machine with two cores, counted in operations
    validation : "rows" for shuffled folds, "blocks" for contiguous folds of rows that are similar to their neighbours;
        "auto" for rows
    metric : "auto" or "diagonal" to try a learnt weight for each input among the candidates, "none" to leave it out
    n_jobs : threads, None for 1, -1 for all cores
    random_state : int, RandomState or None, of samples, landmarks and orders
    text : column of a table, or several, whose words and pairs of words become sparse inputs of a linear model
    max_categories : int >= 1, inputs for the most frequent values of a column of text, all other values share one;
        None for 64, and those in at least 5 rows while all rows hold at most 30 million numbers, or the mean target of
        each value if there are more than 64 and that is better on held-out rows
    verbose : whether fit shows its progress on standard error

    Attributes
    ----------
    model_ : okl.models.file.Model, which can be explained, saved and exported
    settings_ : the settings that were chosen; choice_ : the candidates, and sentences with the reasons
    notes_ : sentences on columns that were left out, are suspect, or have many values without an input
    n_features_in_, feature_names_in_ : of the columns
    """

    budget_seconds: float = 60.0
    validation: Literal["auto", "rows", "blocks"] = "auto"
    metric: Literal["auto", "none", "diagonal"] = "auto"
    n_jobs: int | None = None
    random_state: base.RandomState = 0
    text: str | Sequence[str] | None = None
    max_categories: int | None = None
    verbose: bool = False

    SOLVER: ClassVar[str] = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, **options: Any) -> tuple[Rows, base.Labels]:
        """Return columns, or sparse rows, and finite y (rows,); X is validated as scikit-learn does.

        Raises DataError : a value of y is missing or infinite, or a table has no rows
        """
        given = np.asarray(y)
        if given.ndim == 1 and (odd := _missing_or_infinite(given)).any():
            # the beginning is what scikit-learn has
            kind = "infinity" if given.dtype.kind == "f" and not np.isnan(given).any() else "NaN"
            where = f"in {int(odd.sum()):,} of {len(odd):,} rows, first in row {int(odd.argmax())}"
            raise DataError(f"Input y contains {kind} {where}. Leave such rows out.")
        if is_table(X):
            X = checked_table(X)
            if not len(X):
                raise DataError("X has no rows; expected at least two.")
            if not len(X.columns):
                raise DataError("X has no columns; expected at least one.")
            validate_data(self, X, y, skip_check_array=True)
            targets = column_or_1d(y, warn=True)
            assert_all_finite(targets)
            check_consistent_length(X, targets)
        else:
            X, targets = validate_data(self, X, y, **_ACCEPTED, ensure_min_samples=2, **options)
            X = _dense_or_sparse(X)
        return X if issparse(X) else named_columns(X), targets

    def _fit(
        self,
        rows: Rows,
        name: str,
        targets: NDArray[Any],
        task: Task,
        sample_weight: ArrayLike | None,
        labels: tuple[Label, ...] = (),
        **options: Any,
    ) -> None:
        """Choose and fit.

        Parameters
        ----------
        name : of the target; targets : (rows,), class indices or numbers; labels : of the classes
        options : of the settings
        """
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, targets, dtype=np.float64, ensure_non_negative=True)
            rows, targets, weights = self._of_positive_weight(rows, targets, weights)
        threads = base.threads_of(self.n_jobs)
        values = {
            "data": "X",
            "threads": threads,
            "seed": base.seed_of(self.random_state),
            "budget_seconds": self.budget_seconds,
            "validation": self.validation,
            "metric": self.metric,
            **options,
        }
        named = {"seed": "random_state", "threads": "n_jobs", "class_weights": "class_weight"}
        settings = settings_from(TrainSettings, values, type(self).__name__, named)
        ingested = self._of_ingestion(rows, name, task)
        notes = list[str]()
        shown = observed(None if self.verbose else NullObserver())
        source = _file_of(rows, targets, ingested.target)
        with source as file, LocalExecution(threads) as execution, shown as observer:
            observer.stage("ingest")
            data = ingest(file, file.with_name("data"), ingested).dataset
            observer.stage("encode")
            better = encoding_by_trial(
                settings, ingested, data, lambda one, place: ingest(file, place, one).dataset, observer=observer
            )
            if better != ingested:
                ingested, data = better, ingest(file, file.with_name("data"), better, overwrite=True).dataset
            notes += map(without_options, data.warnings)
            for sentence in (*lost_digits(data.schema), *(note for note in notes if NUMBERS_AS_TEXT in note)):
                warnings.warn(sentence, UserWarning, stacklevel=3)
            observer.stage("plan")
            choice = choose_solver(settings, data, observer)
            observer.stage("learn")
            chosen, record = choice.settings, choice.record
            if weights is not None:
                direct = [model for model, _ in choice.models if model.solver in ("ridge", "logistic")]
                predictor, data = _fit_weighted((direct or [chosen])[-1], data, weights, threads, choice.metric)
            else:
                needed = (_needs_test_rows(model, data.schema) for model, _ in choice.models)
                if choice.calibration is None and any(needed):
                    share = min(DEFAULT_HOLDOUT, MOST_ROWS / len(targets))
                    split = ingested.model_copy(update={"holdout": share, "stratify": True})
                    # the inputs of the choice, of which there would be others in fewer rows
                    data = ingest(file, file.with_name("split"), split, reference=data.schema).dataset
                data = training_columns(chosen, data, metric=choice.metric)
                best = train_growing_models(choice, data, execution, observer)
                chosen, trained, record = best.settings, best.trained, best.record
                predictor, without = calibrated(
                    chosen, trained.state, trained.predictor, data, threads, choice.calibration
                )
                if "none" in without:
                    notes.append(
                        "The model has no probabilities: a class has too few held-out rows. Give more rows of it."
                    )
            origin = provenance(data, chosen.seed)
        schema = data.schema if not labels else _with_labels(data.schema, labels)
        self.model_ = Model(schema, predictor, chosen.model_dump(mode="json"), origin)
        self.settings_, self.choice_ = chosen, record
        rare = [f"{one[0].upper()}{one[1:]}." for one in rare_values(data.schema, "max_categories")]
        self.notes_ = (*notes, *rare)

    def _of_positive_weight(
        self, rows: Rows, targets: NDArray[Any], weights: Doubles
    ) -> tuple[pa.Table, NDArray[Any], Doubles]:
        """Return rows of positive weight, their targets and their weights, of mean 1."""
        if self.text or not isinstance(rows, pa.Table):
            raise ConfigError(
                f"sample_weight is given with {'text' if self.text else 'sparse rows'}, whose models take weights of "
                "classes only. Remove it."
            )
        positive = weights > 0.0
        rows, targets, weights = rows.filter(pa.array(positive)), targets[positive], weights[positive]
        return rows, targets, weights / weights.mean()

    def _of_ingestion(self, rows: Rows, name: str, task: Task) -> IngestSettings:
        most = None if self.max_categories is None else check_at_least("max_categories", self.max_categories, 1)
        options: dict[str, Any] = {"task": task, "compression": "none", "max_categories": most}
        if not isinstance(rows, pa.Table):
            return IngestSettings(storage="sparse", svmlight_index=0, **options)
        if SPLIT in rows.column_names and is_text(rows.schema.field(SPLIT).type):
            raise ConfigError(
                "A text column named 'split' divides rows into train and test. Rename it or leave it out."
            )
        while name in rows.column_names:
            name += "'"
        texts = (self.text,) if isinstance(self.text, str) else tuple(self.text or ())
        for column in texts:
            check_present(column, rows.column_names, "X", "text")
        return IngestSettings(target=name, text=texts, **options)

    def _rows(self, X: Any) -> Rows:
        """Return the columns of rows to predict, or sparse rows, validated as scikit-learn does."""
        check_is_fitted(self)
        if is_table(X):
            X = checked_table(X)
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            X = validate_data(self, X, reset=False, **_ACCEPTED)
            known = self.model_.schema.sparse
            if known is not None and not known.texts:
                X = csr_array(X, copy=True)
                X.resize((X.shape[0], known.n_columns))  # the last columns may be 0 in all rows of the training
                return X
            X = _dense_or_sparse(X)
        # warned of above where only one of the calls had names: columns in order, as in scikit-learn
        table, names = named_columns(X), getattr(self, "feature_names_in_", None)
        return table.rename_columns([f"x{i}" for i in range(table.num_columns)] if names is None else names.tolist())

    def _scores(self, X: Any) -> FloatArray:
        rows = self._rows(X)
        return self.model_.scores(rows, base.threads_of(self.n_jobs))


_ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": "allow-nan"}


def _missing_or_infinite(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each value (rows,) whether it is NaN, infinite, None or pandas.NA."""
    if values.dtype.kind == "f":
        return np.asarray(~np.isfinite(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    try:
        missing = pa.array(values, from_pandas=True).is_null()
    except pa.ArrowException:  # of values of different types
        return np.zeros(len(values), dtype=bool)
    return np.asarray(missing.to_numpy(zero_copy_only=False))


def _needs_test_rows(settings: TrainSettings, schema: Schema) -> bool:
    """Return whether probabilities need rows that the model is not trained on; see `okl.runs.calibrate`."""
    options = settings.options
    if schema.task == "regression" or settings.solver in ("logistic", "l2-svm"):
        return False
    if isinstance(options, FogdSettings):
        return schema.task != "binary" or options.loss != "logistic"
    return isinstance(options, RidgeSettings) and options.penalty != "auto"


def _with_labels(schema: Schema, labels: tuple[Label, ...]) -> Schema:
    """Return a schema of class indices with the labels that they stand for; labels of other types stay indices."""
    if all(isinstance(label, str) for label in labels):
        return replace(schema, labels=labels)
    if all(type(label) in (bool, int, float) for label in labels):
        return replace(schema, labels=labels, stored_labels=tuple(map(float, labels)))
    return schema


def _fit_weighted(
    settings: TrainSettings, data: Dataset, weights: Doubles, n_threads: int, metric: tuple[float, ...]
) -> tuple[Predictor, Dataset]:
    """Return the predictor of a chosen model, fitted to all rows with weights (rows,), and the data as it reads them.

    settings : of ridge or logistic, which take weights, or another solver, in whose place ridge is fitted
    """
    if settings.solver not in ("ridge", "logistic"):
        n_landmarks = min(ENOUGH_LANDMARKS, len(weights))
        settings = settings.replaced(solver="ridge", precision="float64", n_landmarks=n_landmarks)
    data = training_columns(settings, data, metric=metric)
    read = [
        read_rows(data, shard, (group,), "float64")
        for shard in data.split("train")
        for group in range(len(shard.row_groups))
    ]
    inputs, targets = (np.concatenate(parts) for parts in zip(*read, strict=True))
    rows = WeightedRows(inputs, targets, weights)
    if settings.solver == "logistic":
        return _weighted_logistic(settings, data.schema, rows), data
    return _weighted_ridge(settings, data, rows, n_threads), data


def _weighted_ridge(settings: TrainSettings, data: Dataset, rows: WeightedRows, n_threads: int) -> Predictor:
    solver, schema = make_solver(settings, data), data.schema
    assert isinstance(solver, RidgeSolver), "its settings are those of ridge"
    sample = part_of(rows, np.random.default_rng(settings.seed).permutation(len(rows.targets))[:SAMPLE_ROWS])
    basis, _ = solver.basis_of(sample.inputs, rows.inputs, schema)
    outputs = Outputs(schema.task, schema.n_outputs, solver.class_weights, solver.criterion)
    solution = fit_rows(basis, rows, outputs, solver.penalty, True, n_threads, sample, schema.task != "regression")
    if not solution.solved:
        raise DivergedError("The columns are so large that only rounding error is left. Scale them.")
    predictor = solution.predictor(basis)
    if solution.calibration is None:
        return predictor
    assert isinstance(predictor, LinearPredictor | KernelExpansion), "a basis makes no others"
    return CalibratedPredictor(predictor, solution.calibration, shifts_of(settings, schema))


def _weighted_logistic(settings: TrainSettings, schema: Schema, rows: WeightedRows) -> Predictor:
    of_classes, classes = class_weights_of(settings, schema), class_indices(schema, rows.targets)
    weights, priors = rows.weights, (0.0,) * schema.n_outputs
    if of_classes is not None:
        weights, logs = weights * np.array(of_classes)[classes], np.log(of_classes)
        priors = tuple((-logs).tolist()) if schema.n_outputs > 1 else (float(logs[0] - logs[1]),)
    inputs = np.asarray(rows.inputs, dtype=np.float64)
    cost = float(settings.options.C)  # type: ignore[attr-defined]
    slopes, offsets = fit_logistic(inputs, classes.astype(np.int64), cost, weights)
    constant = np.zeros((len(slopes), 1))  # of the column that the map adds
    features = plain_inputs(inputs.shape[1], "float64")
    predictor = LinearPredictor(features, np.ascontiguousarray(np.hstack([slopes, constant])), offsets)
    return CalibratedPredictor(predictor, ScoreCalibration(1.0, priors), shifts_of(settings, schema))


def _has_probabilities(estimator: Any) -> bool:
    """Return whether there are probabilities; of a classifier that is not fitted, that there may be."""
    if hasattr(estimator, "model_") and not estimator.model_.has_probabilities:
        raise AttributeError(
            "There are no probabilities: a class has too few rows to hold some out. Give more rows of each class."
        )
    return True


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(base.ScoringClassifier, AutomaticEstimator):
    """A classifier that chooses its solver, scaling, kernel, bandwidth and size, with calibrated probabilities.

    Where the chosen solver is trained online and does not give probabilities, 20% of the rows, at most 32,768, are held
    out for these. So they are of sparse rows and words, but the linear model is then trained again on all rows.

    Parameters
    ----------
    optimise : "log-loss", "auc", "average-precision", "balanced-accuracy" or "accuracy"; "auto": log-loss if fewer than
        20% of the rows are outside the most frequent class, accuracy otherwise
    class_weight : factor of the losses of each class's rows, by label; "balanced" for rows / (classes * rows of it).
        With weights, or optimise="balanced-accuracy", predict is not the class of the largest probability
    budget_seconds : float > 0, limit of choice and training on a machine with two cores, counted in operations
    validation : "rows" for shuffled folds, "blocks" for contiguous folds of similar neighbouring rows; "auto" for rows
    metric : "auto" or "diagonal" to try a learnt weight for each input, "none" to leave it out
    n_jobs : threads, None for 1, -1 for all cores; random_state : int, RandomState or None
    text : column of a table, or several, whose words and pairs of words become sparse inputs of a linear model
    max_categories : int >= 1, inputs for the most frequent values of a column of text; None for 64
    verbose : whether fit shows its progress on standard error

    Attributes
    ----------
    classes_ : labels in order
    threshold_ : probability from which on the second of two classes is predicted
    model_ : okl.models.file.Model, which can be explained, saved and exported
    settings_, choice_ : the settings that were chosen, and the candidates with the reasons
    notes_ : sentences on columns that were left out, are suspect, or have many values without an input
    n_features_in_, feature_names_in_ : of the columns

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> rows = load_iris(as_frame=True).frame
    >>> model = KernelClassifier().fit(rows.drop(columns="target"), rows["target"])
    >>> bool(model.score(rows.drop(columns="target"), rows["target"]) > 0.95)
    True
    """

    optimise: Optimise = "auto"
    class_weight: base.ClassWeight = None

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X, an array or a table, with labels y (rows,).

        sample_weight : (rows,) at least 0; rows of weight 0 are left out

        Warns
        -----
        UserWarning : most differences of a column are lost in float32; a column is left out as its numbers are text

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DataError, a ValueError : y holds one class only; a column is neither number, text nor date
        """
        table, labels = self._checked(X, y)
        self.classes_ = base.classes_of(self, labels)
        codes = np.searchsorted(self.classes_, labels)
        of_rows: Doubles | None = None
        if sample_weight is not None:
            of_rows = _check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
            base.check_weighted(self.classes_, codes[of_rows > 0.0])
        given = base.weights_of_classes(self.class_weight, self.classes_, labels, of_rows)
        weights = {str(code): weight for code, weight in enumerate(given or ())} or "none"
        task: Task = "binary" if len(self.classes_) == 2 else "multiclass"
        names = tuple(self.classes_.tolist())
        self._fit(
            table, target_name(y), codes, task, sample_weight, names, class_weights=weights, optimise=self.optimise
        )
        return self

    @property
    def threshold_(self) -> float:
        """Return the probability from which on the second of two classes is predicted; AttributeError without one."""
        predictor = self.model_.predictor
        if len(self.classes_) != 2 or not isinstance(predictor, CalibratedPredictor):
            raise AttributeError("There is no threshold_: it is of two classes, and of a model with probabilities.")
        return predictor.threshold

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Doubles:
        """Return probabilities (rows, n_classes), of the labels in classes_; see threshold_ for what is predicted."""
        rows = self._rows(X)
        return self.model_.predict_proba(rows, base.threads_of(self.n_jobs))


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRegressor(RegressorMixin, AutomaticEstimator):  # type: ignore[misc]
    """A regressor that chooses its solver, scaling, kernel, bandwidth and size.

    Parameters and attributes : those of KernelClassifier, without optimise, class_weight, classes_ and threshold_

    Examples
    --------
    >>> x = np.linspace(-3.0, 3.0, 200)[:, np.newaxis]
    >>> bool(KernelRegressor().fit(x, np.sin(x[:, 0])).score(x, np.sin(x[:, 0])) > 0.999)
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit rows X, an array or a table, with targets y (rows,).

        Raises
        ------
        DataError, a ValueError : a target that is missing or infinite; all targets are equal
        ConfigError, ValueError : as `KernelClassifier.fit` does
        """
        base.check_numbers(y)
        table, targets = self._checked(X, y, y_numeric=True)
        targets = np.asarray(targets, dtype=np.float64)
        if len(targets) > 1 and targets.min() == targets.max():
            raise DataError(f"Every target is {targets[0]:.15g}; expected numbers that differ. Choose another target.")
        self._fit(table, target_name(y), targets, "regression", sample_weight)
        return self

    def predict(self, X: Any) -> Doubles:
        """Return targets (rows,)."""
        rows = self._rows(X)
        return self.model_.predict(rows, base.threads_of(self.n_jobs))


def target_name(y: Any) -> str:
    """Return the name of a series, or y."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else "y"
