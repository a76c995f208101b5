"""Base classes of the estimators, and the solver settings that their parameters mean.

An estimator builds the settings of its solver, which the command reads too: both check values in one place, and an
option that an estimator does not have keeps the default of the command.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, assert_all_finite, check_is_fitted, validate_data

from okl.data.dataset import Schema
from okl.data.execution import Rows
from okl.foundation.errors import ConfigError, DataError, listed, quoted
from okl.foundation.settings import settings_from
from okl.foundation.types import Doubles, FloatArray, Integers, Precision, Task
from okl.foundation.validation import check_choice
from okl.losses import online_losses
from okl.metrics.calibration import LOG_ODDS, normalised
from okl.metrics.definitions import predicted_classes
from okl.solvers.base import named_reasons
from okl.solvers.online.base import BuildContext, BuiltLearner, LearnerFactory
from okl.solvers.settings import listed_solvers, owners_of, solver_settings

SAMPLE_ROWS = 4096  # rows that "auto" parameters are chosen on
LEAST_FIRST = 256  # rows of the first partial_fit, fewer of which choose far smaller step sizes
Auto = Literal["auto"]
RandomState = int | np.random.RandomState | None
Labels = NDArray[Any]
ClassWeight = dict[Any, float] | Literal["balanced"] | None

OPTIONS = {"n_frequencies": "frequencies", "max_iter": "max_iterations"}
"""Options of the command by their names in estimators, where these differ."""


def options_of(estimator: Any, **changes: Any) -> Any:
    """Return the settings of an estimator's solver with its parameters, or changes, as options; None means "auto".

    Raises ConfigError : a parameter out of its range, of another type, or of another solver
    """
    solver = estimator.solver_name
    kind = solver_settings(solver)
    shown = {OPTIONS.get(field.name, field.name): field.name for field in fields(estimator)}
    values = {option: _plain(getattr(estimator, name)) for option, name in shown.items()} | changes
    values = {option: "auto" if value is None else value for option, value in values.items()}
    for option in getattr(estimator, "ONLY_OF_SOME", ()):
        if option not in kind.model_fields and values.pop(option, "auto") != "auto":
            raise ConfigError(
                f"{option} = {getattr(estimator, option)!r} is set, but the solver {solver} has no {option}: it "
                f"belongs to {listed_solvers(owners_of(option))}. Remove it."
            )
    own = {option: value for option, value in values.items() if option in kind.model_fields}
    return settings_from(kind, own, type(estimator).__name__, shown, strict=True)


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, and a list as a tuple."""
    return value.item() if isinstance(value, np.generic) else tuple(value) if isinstance(value, list) else value


def draw_seed(rng: np.random.RandomState) -> int:
    """Draw the seed of a map; first of all draws, so that it does not depend on the number of rows."""
    return int(rng.randint(2**31 - 1))


def seed_of(random_state: RandomState) -> int:
    """Return an int as it is, as the seed of a command, and draw a seed from anything else."""
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return draw_seed(check_random_state(random_state))


def threads_of(n_jobs: Any) -> int:
    """Return the number of threads that n_jobs means, or raise ConfigError."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ConfigError(f"n_jobs = {n_jobs!r}; expected a whole number such as 2, -1 for all cores, or None for 1.")
    threads: int = effective_n_jobs(n_jobs)
    return threads


def classes_of(estimator: Any, labels: Labels) -> Labels:
    """Return sorted labels (classes,); DataError for one class, scikit-learn's ValueError for continuous targets."""
    name = type(estimator).__name__
    kinds = set(map(type, labels)) if labels.dtype == object else set()
    if not all(issubclass(kind, str) for kind in kinds):
        types = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(
            f"Unknown label type: {name} requires text or numbers, but y is an array of objects of type {types}. "
            "Convert them, such as by y.astype(str)."
        )
    check_classification_targets(labels)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise DataError(f"{name} requires at least two classes, but y holds one class: {classes.tolist()[0]!r}.")
    return classes


def row_weights(given: ArrayLike | None, inputs: Any) -> Doubles | None:
    """Return sample weights (rows,) of mean 1, None for all 1; ValueError or DataError for impossible ones."""
    if given is None:
        return None
    weights = _check_sample_weight(given, inputs, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise DataError("Every row has sample_weight 0. Give at least one row a weight above 0.")
    of_rows: Doubles = weights / weights.mean()
    return of_rows


def check_weighted(classes: Labels, codes: NDArray[Any]) -> None:
    """Raise DataError unless every class is among the codes of rows with a weight."""
    if len(missing := np.setdiff1d(np.arange(len(classes)), codes)):
        raise DataError(
            f"Every row of class {classes.tolist()[missing[0]]!r} has sample_weight 0. Give at least one row of each "
            "class a weight above 0."
        )


def weights_of_classes(
    given: ClassWeight, classes: Labels, labels: Labels, sample_weight: Doubles | None = None
) -> tuple[float, ...] | None:
    """Return class_weight for each class in order, or None; ConfigError for a label not there."""
    if given is None:
        return None
    names = classes.tolist()
    unknown = [label for label in given if label not in names] if isinstance(given, Mapping) else []
    if unknown and any(name not in given for name in names):  # further labels are as in scikit-learn
        shown = listed([*map(repr, names)])
        raise ConfigError(f"class_weight has the label {unknown[0]!r}, but y holds {shown}. Give weights of these.")
    own = {} if sample_weight is None else {"sample_weight": sample_weight}
    return tuple(float(weight) for weight in compute_class_weight(given, classes=classes, y=labels, **own))


def check_numbers(y: Any) -> None:
    """Raise DataError for targets that are dates, differences of dates, or text without numbers."""
    targets = np.asarray(y)
    if targets.dtype.kind in "mM":
        raise DataError(f"y holds dates or times ({targets.dtype}); expected numbers, such as days since a date.")
    if targets.dtype.kind not in "OU":
        return
    try:
        targets.astype(object).astype(np.float64)
    except TypeError:  # objects of other kinds
        return
    except ValueError as error:
        name, value = getattr(y, "name", None) or "y", str(error).partition(": ")[2]
        raise DataError(
            f"The target {name} holds {value}; expected numbers. Classes need a classifier, such as "
            "okl.KernelClassifier."
        ) from None


def large_values_refused() -> np.errstate:
    """Let scikit-learn refuse values too large for the precision, which become infinite without a warning."""
    return np.errstate(over="ignore", invalid="ignore")


_TEXT = re.compile("could not convert string|Cannot cast|(DateTime|TimeDelta)64DType")


@contextmanager
def only_numbers(estimator: Any, X: Any) -> Iterator[None]:
    """Raise DataError in place of errors of scikit-learn, NumPy and pandas for NaN, text or dates in X."""
    name = type(estimator).__name__
    try:
        yield
    except (ValueError, TypeError) as error:
        if str(error).startswith("Input X contains NaN"):
            raise DataError(
                f"Input X contains NaN. {name} takes no missing values; okl.KernelClassifier and "
                "okl.KernelRegressor do. Use these, or fill or drop such rows."
            ) from None
        if not _TEXT.search(str(error)):
            raise
        columns: Any = X.select_dtypes(exclude=["number", "bool"]).columns if hasattr(X, "select_dtypes") else ()
        where = f" in column {quoted(str(columns[0]), 25)}" if len(columns) else ""
        raise DataError(
            f"Input X contains text or dates{where}, but {name} takes numbers. Encode them, or use "
            "okl.KernelClassifier or okl.KernelRegressor."
        ) from None


# Classifiers: labels in and out.


class ScoringEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator that scores rows."""

    SOLVER: ClassVar[str]
    ONLY_OF_SOME: ClassVar[tuple[str, ...]] = ()  # options that some of its solvers do not have

    @property
    def solver_name(self) -> str:
        """Return the name of its solver, as in `okl train --solver`."""
        return self.SOLVER

    @property
    def _takes_sparse(self) -> bool:
        return False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        return tags

    def _valid(self, *data: Any, reset: bool, **options: Any) -> Any:
        """Return inputs (rows, n_features), and y if it is given, both finite."""
        accepted = "csr" if self._takes_sparse else False
        if options.get("y_numeric"):
            check_numbers(data[1])
        with large_values_refused(), only_numbers(self, data[0]):
            valid = validate_data(self, *data, accept_sparse=accepted, reset=reset, **options)
            if not options.get("y_numeric"):
                return valid
            targets = valid[1].astype(np.float64)
            assert_all_finite(targets, input_name="y")  # None among objects is NaN only now
            return valid[0], targets

    def _scores(self, X: ArrayLike) -> FloatArray:
        """Return scores (rows,) for one output, (rows, n_outputs) for several."""
        raise NotImplementedError


class ScoringClassifier(ClassifierMixin, ScoringEstimator):  # type: ignore[misc]
    """A classifier with labels classes_ and scores (rows,) for two classes, (rows, n_classes) for several."""

    classes_: Labels

    @property
    def _class_weight(self) -> Any:
        return getattr(self, "class_weight", None)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return scores (rows,) for two classes, positive for the second, or (rows, n_classes)."""
        return self._scores(X)

    def predict(self, X: ArrayLike) -> Labels:
        """Return labels (rows,)."""
        chosen = predicted_classes(self._scores(X))
        labels: Labels = self.classes_[chosen]
        return labels


class BatchEstimator(ScoringEstimator):
    """An estimator that is fitted to all rows at once."""

    def _learn_classes(
        self, rows: Rows, n_outputs: int, weights: tuple[float, ...] | None, sample_weight: Doubles | None
    ) -> None:
        """Learn inputs with targets -1 and +1, or class indices.

        weights : of the classes, in order; sample_weight : of the rows; None for all 1
        """
        raise NotImplementedError


@dataclass(kw_only=True, eq=False, repr=False)
class BatchClassifier(ScoringClassifier, BatchEstimator):
    """A classifier that is fitted to all rows at once.

    Parameters
    ----------
    class_weight : factor of the losses of each class's rows, by label; "balanced" for rows / (classes * rows of it)

    Attributes
    ----------
    classes_ : labels in order, the second of two has scores from 0 upward
    """

    class_weight: ClassWeight = None

    def _fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> None:
        inputs, labels = self._valid(X, y, reset=True)
        self.classes_ = classes_of(self, labels)
        given = row_weights(sample_weight, inputs)
        codes = np.searchsorted(self.classes_, labels).astype(np.float64)
        if given is not None:
            check_weighted(self.classes_, codes[given > 0.0])
        weights = weights_of_classes(self.class_weight, self.classes_, labels, given)
        if not all(0.0 < weight < float("inf") for weight in weights or ()):
            raise ConfigError(f"class_weight = {self.class_weight!r}, but each weight must be a finite number above 0.")
        two = len(self.classes_) == 2
        targets, n_outputs = (2.0 * codes - 1.0, 1) if two else (codes, len(self.classes_))
        self._learn_classes(Rows(inputs, targets), n_outputs, weights, given)


# The base class of online learners.

NO_PROBABILITIES = "Its scores are not probabilities.{} Put it into scikit-learn's CalibratedClassifierCV."
CHUNK_ROWS = 65536  # gathered at once in shuffled order; a multiple of every block, so that it changes no bit


# dataclasses write the constructors: scikit-learn wants every parameter spelled out, and nothing else done there
@dataclass(kw_only=True, eq=False, repr=False)
class OnlineEstimator(ScoringEstimator):
    """Online estimator: it predicts a row, suffers the loss, and updates its weights, one row at a time.

    The same rows, parameters and random_state give the same bits, whatever n_jobs is; the scores of a row do not depend
    on the other rows, to the last bit.

    Parameters
    ----------
    passes : int >= 1, over the rows in `fit`; shuffle : the rows before each pass
    precision : "float32" or "float64", of inputs, weights and scores
    n_jobs : threads, None for 1, -1 for all cores; no result depends on it
    random_state : int, RandomState or None, of maps, samples and orders

    Attributes
    ----------
    learner_ : the learner with its settings; state_ : what was learned
    chosen_ : what "auto" parameters became, each with its reason
    n_features_in_, feature_names_in_ : of the inputs
    """

    passes: int = 20
    shuffle: bool = True
    precision: Precision = "float32"
    n_jobs: int | None = None
    random_state: RandomState = None

    def _options(self, n_rows: int | None, **changes: Any) -> Any:
        """Return the settings of the solver. n_rows : of a pass, None for a stream of unknown length"""
        return options_of(self, **changes)

    def _factory(self, options: Any, schema: Schema) -> LearnerFactory:
        """Return the learner that the settings mean."""
        factory: LearnerFactory = options.factory(schema)
        return factory

    def _valid(self, *data: Any, reset: bool, **options: Any) -> Any:
        check_choice("precision", str(self.precision), ("float32", "float64"))
        if not isinstance(self.shuffle, bool | np.bool_):
            raise ConfigError(f"shuffle = {self.shuffle!r}; expected True or False.")
        options.setdefault("dtype", self.precision)
        return super()._valid(*data, reset=reset, **options)

    @property
    def _first(self) -> bool:
        """Return whether no row was learned yet."""
        return not hasattr(self, "learner_")

    def _begin(
        self, inputs: FloatArray, targets: Labels, task: Task, n_classes: int, n_rows: int | None, **changes: Any
    ) -> None:
        """Make the learner from the rows at hand, in place of an earlier one. changes : see `options_of`"""
        weights = changes.pop("class_weights", None)
        options = self._options(n_rows, **changes)
        rng = check_random_state(self.random_state)
        seed = draw_seed(rng)
        sample = _rows(inputs, targets, rng.permutation(len(targets))[:SAMPLE_ROWS])
        features = tuple(f"x{index}" for index in range(inputs.shape[1]))
        schema = Schema(features, "y", task, tuple(range(n_classes)))
        factory: Any = self._factory(options, schema)
        if weights is not None:
            factory = replace(factory, class_weights=weights)
        context = BuildContext(schema, sample, n_rows, 1, "stream", seed, self.precision)
        built: BuiltLearner = factory.build(context)
        self.learner_, self.chosen_ = built.learner, named_reasons(built.chosen, self)
        is_free = getattr(self, "step_size", None) == "auto" and "step_size" in self.chosen_  # some have none
        if is_free and n_rows is None and len(targets) < LEAST_FIRST:
            sentence = (
                f"The first call of partial_fit chooses the step size, on {len(targets):,} rows. Give it {LEAST_FIRST} "
                "or more, in random order, or set step_size."
            )
            warnings.warn(sentence, UserWarning, stacklevel=4)
        self.state_ = self.learner_.start()
        self._order_rng = rng

    def _learn_passes(self, inputs: FloatArray, targets: Labels) -> None:
        """Learn all rows several times, in a new random order each time or as they come."""
        for _ in range(self.passes):
            order = self._order_rng.permutation(len(targets)) if self.shuffle else np.arange(len(targets))
            self._learn(inputs, targets, order)

    def _learn(self, inputs: FloatArray, targets: Labels, order: Integers | None = None) -> None:
        """Learn rows once, in some order or as they come; what was learned before is kept if this fails."""
        order = np.arange(len(targets)) if order is None else order
        state, n_threads = self.state_, threads_of(self.n_jobs)
        for start in range(0, len(order), CHUNK_ROWS):
            rows = _rows(inputs, targets, order[start : start + CHUNK_ROWS])
            state = self.learner_.learn(state, rows, n_threads)
        self.state_ = state

    def _scores(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self)
        inputs = self._valid(X, dtype=self.learner_.precision, reset=False)
        return self.learner_.predictor(self.state_).scores(inputs, threads_of(self.n_jobs))


def _rows(inputs: FloatArray, targets: Labels, chosen: Integers) -> Rows:
    return Rows(inputs[chosen], np.asarray(targets[chosen], dtype=np.float64))


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineClassifier(ScoringClassifier, OnlineEstimator):
    """An online learner of two classes or several.

    Attributes
    ----------
    classes_ : labels in order, the second of two has positive scores
    """

    LOG_ODDS: ClassVar[bool] = False  # whether scores by the logistic loss are the logarithm of the odds

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit rows X (rows, n_features) with labels y (rows,), from the start.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DataError, a ValueError : y holds one class only
        """
        inputs, labels = self._valid(X, y, reset=True)
        self.classes_ = classes_of(self, labels)
        targets = self._targets(labels)
        self._begin_classes(inputs, targets, labels, len(targets))
        self._learn_passes(inputs, targets)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Fit the model to further rows, once, in the given order.

        With bandwidth and step_size given, calls that end at multiples of 256 rows do what one call with all rows does.
        The first call takes all classes that will ever come and chooses "auto" parameters on its rows: give it 256
        or more, in random order, or set bandwidth and step_size.

        Raises
        ------
        ConfigError, DataError, both ValueErrors : no or other classes; a label not among them; "balanced" weights
        """
        first = self._first
        inputs, labels = self._valid(X, y, reset=first)
        if first:
            if classes is None:
                raise ConfigError(
                    "The first call of partial_fit requires classes. Pass all labels that later calls may hold."
                )
            if self._class_weight == "balanced":
                raise ConfigError(
                    'class_weight = "balanced" requires all rows at once. Use fit, or give a weight for each label.'
                )
            self.classes_ = classes_of(self, np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ConfigError(
                f"classes = {classes!r} differ from those of the first call, {self.classes_.tolist()!r}. Pass the "
                "same classes, or leave them out."
            )
        targets = self._targets(labels)
        if first:
            self._begin_classes(inputs, targets, labels, None)
        self._learn(inputs, targets)
        return self

    @available_if(lambda self: self._has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Return probabilities (rows, 2) of two classes, from scores that are log-odds (loss="logistic")."""
        return normalised(LOG_ODDS.probabilities(self._scores(X).astype(np.float64)))

    @property
    def _has_probabilities(self) -> bool:
        # tracked scores are mixed for rows that change, and are too far from 0
        logistic = getattr(self, "loss", None) == "logistic" and not getattr(self, "track", False)
        if self.LOG_ODDS and logistic and len(getattr(self, "classes_", (0, 1))) == 2:
            return True
        raise AttributeError(
            NO_PROBABILITIES.format(' Two classes have some with loss="logistic", without track.' * self.LOG_ODDS)
        )

    def _begin_classes(self, inputs: FloatArray, targets: FloatArray, labels: Labels, n_rows: int | None) -> None:
        # a wrong name is an error whatever the classes are
        loss = check_choice("loss", getattr(self, "loss", "hinge"), online_losses("binary"))
        several = len(self.classes_) > 2
        task: Task = "multiclass" if several else "binary"
        weights = weights_of_classes(self._class_weight, self.classes_, labels)
        changes = {"loss": "multiclass-hinge" if several else loss, "class_weights": weights}
        self._begin(inputs, targets, task, len(self.classes_), n_rows, **changes)

    def _targets(self, labels: Labels) -> FloatArray:
        index = np.minimum(np.searchsorted(self.classes_, labels), len(self.classes_) - 1)
        if (unseen := self.classes_[index] != labels).any():
            raise DataError(
                f"y holds {labels[unseen].tolist()[0]!r}, but the classes are {self.classes_.tolist()!r}. Remove "
                "such rows, or pass all labels as classes."
            )
        return index.astype(np.float64) if len(self.classes_) > 2 else 2.0 * index - 1.0


# Online regressors: the scale of the target.


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineRegressor(RegressorMixin, OnlineEstimator):  # type: ignore[misc]
    """An online learner of a number; targets may be of any scale.

    Parameters
    ----------
    epsilon : float >= 0; residuals up to this are not learned, in standard deviations of the target
    scale_target : learn the target less its mean, in standard deviations, as `fit` or the first `partial_fit` finds
        them; False learns it as it is, with epsilon in its own unit, as the paper does

    Attributes
    ----------
    target_mean_, target_spread_ : of the scaled target, in the target's unit
    """

    epsilon: float = 0.1
    scale_target: bool = True

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit rows X (rows, n_features) with targets y (rows,), from the start.

        Raises
        ------
        ConfigError, a ValueError : a parameter is out of its range
        DivergedError : the step size given is too large
        """
        inputs, targets = self._valid(X, y, reset=True, y_numeric=True)
        self._scale_and_begin(inputs, targets, len(targets))
        self._learn_passes(inputs, self._scaled(targets))
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the model to further rows, once, in the given order.

        With bandwidth and step_size given and scale_target=False, calls that end at multiples of 256 rows do what one
        call with all rows does.
        The first call chooses "auto" parameters and the target's scale on its rows: give it 256 or more, in random
        order, or set bandwidth, step_size and scale_target=False.
        """
        first = self._first
        inputs, targets = self._valid(X, y, reset=first, y_numeric=True)
        if first:
            self._scale_and_begin(inputs, targets, None)
        self._learn(inputs, self._scaled(targets))
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return targets (rows,) in their own unit, float64."""
        scores = self._scores(X).astype(np.float64)
        return scores * self.target_spread_ + self.target_mean_

    def _scale_and_begin(self, inputs: FloatArray, targets: Labels, n_rows: int | None) -> None:
        self.target_mean_, self.target_spread_ = 0.0, 1.0
        if self.scale_target:
            with large_values_refused():
                mean, spread = float(np.mean(targets, dtype=np.float64)), float(np.std(targets, dtype=np.float64))
            self.target_mean_, self.target_spread_ = finite_scale(targets, mean, spread)
        self._begin(inputs, self._scaled(targets), "regression", 0, n_rows)

    def _scaled(self, targets: Labels) -> FloatArray:
        return (np.asarray(targets, dtype=np.float64) - self.target_mean_) / self.target_spread_


def finite_scale(targets: Labels, center: float, spread: float) -> tuple[float, float]:
    """Return the center and the spread of targets, 1 where they are constant; DataError unless both are finite."""
    if not np.isfinite([center, spread]).all():
        raise DataError(f"Targets up to {np.abs(targets).max():g} have no finite standard deviation. Scale them down.")
    return center, spread or 1.0
