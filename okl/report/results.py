"""Result of a training run as a typed mapping, and its error compared with those of the baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import escape
from typing import Any, NamedTuple, Never

from okl.foundation.locations import Place, place_of
from okl.foundation.settings import IngestSettings
from okl.foundation.types import Criterion
from okl.metrics.criterion import METRICS, standard_error
from okl.metrics.definitions import metrics
from okl.models.file import Model, load_model
from okl.report.format import (
    BASELINE_NAMES,
    CRITERION_NAMES,
    MEASURED_ON,
    SPLIT_NAMES,
    criterion_value,
    duration,
    flatten,
    metric_name,
    metric_number,
    mistake_rate_text,
    number,
    percent,
    scalar_metrics,
    solver_text,
)
from okl.solvers.settings import TrainSettings

Metrics = Mapping[str, Any]
"""Values by name of the metric; confusion, reliability and histograms of residuals are nested."""


def entry(name: str, missing: Any = None) -> Any:
    """Return a read-only attribute for an entry; missing : its value for a result without the entry."""
    return property(lambda self: missing if self.get(name) is None else self[name])


class Result(dict[str, Any]):
    """Result of a run as a dictionary: what the command prints with --json, read-only.

    The main entries are attributes, too; one of an entry that a run does not have is None or empty.

    model : the trained model, loaded from its folder when first used; result["model"] is the folder
    run, name : folder and name of the run
    report : location of its report, an HTML page
    total_seconds, peak_memory_bytes, workers : of the run
    test, train : metrics on test rows and on training rows
    baselines : metrics by name of the baseline
    certificate : proof of quality, with its kind; empty without one
    criterion : by which models are compared
    settings, dataset : settings of the run, and description of its data set
    """

    run: str = entry("run", "")
    name: str = entry("name", "")
    total_seconds: float | None = entry("total_seconds")
    peak_memory_bytes: int | None = entry("peak_memory_bytes")
    workers: int = entry("workers", 0)
    test: Metrics | None = entry("test")
    train: Metrics | None = entry("train")
    baselines: Mapping[str, Mapping[str, Metrics | None] | None] = entry("baselines", {})
    certificate: Mapping[str, Any] = entry("certificate", {})
    settings: Mapping[str, Any] = entry("settings", {})
    dataset: Mapping[str, Any] = entry("dataset", {})

    @cached_property
    def model(self) -> Model:
        return load_model(self["model"])

    @property
    def report(self) -> Place:
        return place_of(self.run) / "report.html"

    @property
    def target(self) -> str:
        return str(self.dataset.get("target", "the target"))

    @property
    def criterion(self) -> Criterion:
        return self.get("criterion") or "accuracy"

    def as_dict(self) -> dict[str, Any]:
        """Return a copy as a plain dictionary."""
        return dict(self)

    def _summary(self) -> list[tuple[str, str]]:
        return [("Folder", self.run or "-")]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._summary())
        lines = [f"  {name:<{width}}  {text}" for name, text in self._summary()]
        return "\n".join([f"{type(self).__name__}: predicting {' '.join(self.target.split())}", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._summary())
        return f"<table><caption>Predicting {escape(self.target)}</caption>{rows}</table>"

    def _read_only(self, *_: Any, **__: Any) -> Never:
        raise TypeError("The result of a run is read-only. Change a copy: dict(result).")

    __setitem__ = __delitem__ = __ior__ = _read_only
    clear = pop = popitem = setdefault = update = _read_only

    def __reduce__(self) -> tuple[type[Result], tuple[dict[str, Any]]]:
        return type(self), (dict(self),)


class RunResult(Result):
    """Result of a training run: what `okl train --json` prints, with further attributes.

    `json.dumps(result)` writes what result.json holds, and `RunResult(json.load(file))` reads the result.json of any
    earlier run.

    Attributes
    ----------
    rows : number of training rows
    seconds : of training; rows_per_second : training rows of all passes by these seconds
    progressive : metrics of each row before it is trained on
    baselines : by name, majority or mean, and linear, the metrics test, train and progressive
    calibration : where the probabilities of a classifier come from
    importance : how much the error rises on test rows when the values of a column are permuted
    largest_errors : rows of largest loss, with targets, predictions and values of the most important columns
    metric : shares of the columns in the squared distance, in a learnt metric; empty without one
    chosen : values that the run chose, each with its reason as NAME_reason
    choice : candidates of the automatic choice, and why one was taken
    curve, convergence : learning curve of an online solver, or duality gap by iteration of another
    windows, drift, constraints, timeline, memory_plan : as in the report
    warnings : sentences that the command prints as warnings
    """

    rows: int | None = entry("rows")
    seconds: float | None = entry("seconds")
    rows_per_second: float | None = entry("rows_per_second")
    progressive: Metrics | None = entry("progressive")
    calibration: Mapping[str, Any] = entry("calibration", {})
    importance: Mapping[str, Any] = entry("importance", {})
    largest_errors: Mapping[str, Any] = entry("largest_errors", {})
    metric: Mapping[str, Any] = entry("metric", {})
    chosen: Mapping[str, Any] = entry("chosen", {})
    choice: Mapping[str, Any] = entry("choice", {})
    curve: Sequence[Sequence[float]] = entry("curve", ())
    convergence: Sequence[Sequence[float]] = entry("convergence", ())
    windows: Mapping[str, Any] = entry("windows", {})
    drift: Mapping[str, Any] = entry("drift", {})
    constraints: Mapping[str, Any] = entry("constraints", {})
    timeline: Mapping[str, Any] = entry("timeline", {})
    memory_plan: Mapping[str, Any] = entry("memory_plan", {})
    warnings: Sequence[str] = entry("warnings", ())

    @property
    def measured(self) -> tuple[Metrics, str]:
        """Return the metrics on test rows if there are any, otherwise on training rows, and which rows these are."""
        return self.test or self.train or {}, "test rows" if self.test else "training rows (seen in training)"

    @property
    def is_regression(self) -> bool:
        return self.dataset.get("task") == "regression"

    @property
    def criterion(self) -> Criterion:
        return self.get("criterion") or ("squared-error" if "mean" in self.baselines else "accuracy")

    @property
    def passes(self) -> int:
        return int(self.settings.get("passes") or 1)

    def _summary(self) -> list[tuple[str, str]]:
        errors = assess(self)
        measured = [f"okl {errors.text(errors.error)}"]
        measured += [f"{name.lower()} {errors.text(error)}" for name, error in errors.baselines().items()]
        trained = f"{number(self.rows)} rows in {duration(self.seconds)}"
        solver = solver_text(self) or "-"
        hidden = len(self.warnings) - MOST_WARNINGS
        return [
            ("Solver", f"{solver}, {trained} ({duration(self.total_seconds)} in total)"),
            (f"{errors.name} {MEASURED_ON[errors.split]}", ", ".join(measured)),
            ("Folder", self.run or "-"),
            *(("Warning", sentence) for sentence in self.warnings[:MOST_WARNINGS]),
            *([("Warnings", f"{hidden} more in .warnings")] if hidden > 0 else []),
        ]


MOST_WARNINGS = 3
"""Warnings that a result shows; the report has all."""

# Errors of a model and its baselines

ROOT = "Root mean squared error"  # in units of the target
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Difference:
    """Error of a baseline less that of the model, and two standard errors of it, 0 if these are unknown."""

    gain: float
    chance: float

    @property
    def is_tie(self) -> bool:
        return abs(self.gain) <= self.chance

    @property
    def is_clear_loss(self) -> bool:
        """Return whether the model is worse by more than a known chance."""
        return 0.0 < self.chance < -self.gain


class SecondMetric(NamedTuple):
    """Values of a metric beside the criterion, of the model and a baseline, that differ beyond chance."""

    metric: str
    model: float
    baseline: float

    @property
    def text(self) -> str:
        """Return the clause that a tie by the criterion needs."""
        than = "lower" if self.is_better else "higher"
        name = metric_name(self.metric).lower()
        model, baseline = number(self.model), number(self.baseline)
        return f"the {name} of the model, {model}, is clearly {than} than that of the baseline, {baseline}"

    @property
    def is_better(self) -> bool:
        return self.model < self.baseline


SECOND = {"mistake_rate": "log_loss", "mse": "mae"}
"""Second metric in which models with a tie by the first may differ: less is better."""


@dataclass(frozen=True)
class Assessment:
    """Errors of a model and its baselines by the criterion of the run, less is better.

    split : "test", "progressive" (each row predicted before it is trained on), or "train"
    rows : number of rows, 0 if unknown; criterion, metric : by which models are compared, and the name of its metric
    constant_name : "majority" or "mean"
    error, others : of the model and of the baselines by name, the constant last; None if unknown. Of rates and areas
        where more is better, 1 less the value
    passes : number of passes over the training rows; class_counts : measured rows of each class, if known
    excess : by name of the baseline, mean and standard error of its loss less that of the model, row by row
    hidden : by name of the baseline, a second metric in which the model and the baseline clearly differ
    """

    split: str
    rows: int
    metric: str
    constant_name: str
    error: float | None
    others: Mapping[str, float | None]
    passes: int = 1
    criterion: Criterion = "accuracy"
    class_counts: tuple[int, ...] = ()
    excess: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    hidden: Mapping[str, SecondMetric] = field(default_factory=dict)

    @property
    def constant(self) -> float | None:
        return self.others.get(self.constant_name)

    @property
    def is_share(self) -> bool:
        """Return whether the error is a share of rows."""
        return self.metric == "mistake_rate"

    @property
    def is_root(self) -> bool:
        """Return whether the error is shown by its root, in units of the target."""
        return self.criterion == "squared-error"

    @property
    def more_is_better(self) -> bool:
        """Return whether the error is shown as 1 less itself."""
        return self.metric in MORE_IS_BETTER

    @property
    def name(self) -> str:
        """Return the name of the error as it is shown: of a regression, its root, in units of the target."""
        return ROOT if self.is_root else metric_name(self.metric)

    @property
    def is_of_unseen_rows(self) -> bool:
        """Return whether the error was measured only on rows before the model was trained on them."""
        return self.split == "test" or (self.split == "progressive" and self.passes == 1)

    @property
    def beats_constant(self) -> bool | None:
        """Return whether the error is below that of the constant baseline; None if unknown."""
        return None if self.error is None or self.constant is None else self.error < self.constant

    @property
    def may_be_chance(self) -> bool:
        """Return whether a lower error may be chance: a tie with the constant that no second metric decides."""
        difference, second = self.difference(self.constant_name), self.hidden.get(self.constant_name)
        tie = bool(self.beats_constant) and difference is not None and difference.is_tie
        return tie and not (second is not None and second.is_better)

    def difference(self, baseline: str) -> Difference | None:
        """Return how far the model is ahead of a baseline, of BASELINE_NAMES; None if unknown."""
        error = self.others.get(baseline)
        if self.error is None or error is None:
            return None
        if baseline in self.excess:
            return Difference(error - self.error, STANDARD_ERRORS * self.excess[baseline][1])
        return Difference(error - self.error, self.chance(error if baseline == self.constant_name else self.error))

    def chance(self, error: float) -> float:
        """Return two standard errors of an error, as far as counts of rows give them; 0 otherwise."""
        if self.is_share and self.rows and 0.0 <= error <= 1.0:
            return STANDARD_ERRORS * math.sqrt(error * (1.0 - error) / self.rows)
        if self.more_is_better and self.class_counts:
            return STANDARD_ERRORS * standard_error(self.criterion, error, self.class_counts)
        return 0.0

    def baselines(self) -> dict[str, float]:
        return {BASELINE_NAMES[name]: error for name, error in self.others.items() if error is not None}

    def length(self, error: float) -> float:
        """Return an error as it is shown: the root of a squared error, the value of a rate or area, or itself."""
        return math.sqrt(error) if self.is_root else 1.0 - error if self.more_is_better else error

    def text(self, error: float | None, with_chance: bool = False) -> str:
        """Return an error as it is shown; with_chance : with two standard errors, if known."""
        if error is None:
            return "-"
        if self.is_root:
            return number(self.length(error))
        value = mistake_rate_text(error) if self.is_share else criterion_value(self.criterion, error)
        chance = self.chance(error) if with_chance else 0.0
        spread = percent(chance, 2).rstrip("%") if value.endswith("%") else f"{chance:.2g}"
        return f"{value} ± {spread}" if chance else value

    def sentence(self, error: float | None) -> str:
        if self.is_root:
            return f"root mean squared error {self.text(error)}"
        if not self.is_share:
            return f"{CRITERION_NAMES[self.criterion]} {self.text(error)}"
        return "-" if error is None else f"{mistake_rate_text(error)} mistakes"

    def difference_text(self, difference: Difference) -> str:
        """Return a difference with its two standard errors, as part of a sentence."""
        if self.is_root or not difference.chance:
            return f"{'within' if difference.is_tie else 'beyond'} two standard errors"
        scale, unit = (100.0, " points") if self.text(0.0).endswith("%") else (1.0, "")
        return f"difference {scale * abs(difference.gain):.2g} ± {scale * difference.chance:.2g}{unit}"


MORE_IS_BETTER = ("roc_auc", "average_precision", "balanced_accuracy")


def assess(
    result: Mapping[str, Any], splits: Sequence[str] = ("test", "progressive"), criterion: Criterion | None = None
) -> Assessment:
    """Return the errors of a run, of the first of the preferred splits there is, by its criterion or another."""
    result = RunResult(result)
    measured = {name: result[name] for name in (*splits, "train") if result.get(name)}
    wanted: Criterion = criterion or result.criterion
    found = {METRICS[wanted]} | ({"squared_loss"} if wanted == "squared-error" else set())
    split = next(
        (name for name, figures in measured.items() if any(figures.get(key) is not None for key in found)), None
    )
    if split is None:  # mistakes and squared errors are counted in every split
        wanted = "squared-error" if any("squared_loss" in figures for figures in measured.values()) else "accuracy"
        split = next(iter(measured), "train")
    figures = measured.get(split, {})
    metric = METRICS[wanted]
    if wanted == "squared-error" and metric not in figures:
        metric = "squared_loss"
    constant_name = "mean" if "mean" in result.baselines else "majority"
    rows = result.dataset.get("test_rows") if split == "test" else result.rows
    names = ("linear", "boosting", "linear-without-words", "boosting-without-words", constant_name)
    of_baselines = {name: (result.baselines.get(name) or {}).get(split) or {} for name in names}
    excess, hidden = dict[str, tuple[float, float]](), dict[str, SecondMetric]()
    second = SECOND.get(metric, "")
    for name, one in of_baselines.items():
        apart = one.get("excess") or {} if result.criterion == wanted else {}
        apart = {metric: apart} if "mean" in apart else apart  # as in results of earlier versions
        if (gain := _mean_and_error(apart.get(metric))) is not None:
            excess[name] = gain
        gain = _mean_and_error(apart.get(second))
        # a difference beyond chance of the digits that are not shown says nothing: 0.7502 is higher than 0.7502
        visible = number(figures.get(second)) != number(one.get(second))
        if gain is not None and abs(gain[0]) > STANDARD_ERRORS * gain[1] and visible:
            hidden[name] = SecondMetric(second, figures[second], one[second])
    counts = tuple(sum(line) for line in figures.get("confusion") or ())
    return Assessment(
        split=split,
        rows=int(rows or 0),
        metric=metric,
        constant_name=constant_name,
        error=_less_is_better(metric, figures.get(metric)),
        others={name: _less_is_better(metric, one.get(metric)) for name, one in of_baselines.items()},
        passes=result.passes,
        criterion=wanted,
        class_counts=counts,
        excess=excess,
        hidden=hidden,
    )


def _mean_and_error(excess: Mapping[str, float | None] | None) -> tuple[float, float] | None:
    """Return mean and standard error of the losses of a baseline less those of the model; None if unknown."""
    mean, error = (excess or {}).get("mean"), (excess or {}).get("standard_error")
    return None if mean is None or error is None else (mean, error)


def progressive_errors(result: RunResult) -> Assessment:
    """Return the mistakes or squared errors of a run during training."""
    return assess(result, ("progressive",), "squared-error" if "mean" in result.baselines else "accuracy")


def _less_is_better(metric: str, value: object) -> float | None:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return 1.0 - value if metric in MORE_IS_BETTER else float(value)


# Tables of metrics

UNSHOWN = {"squared_loss": "mse", "mse": "rmse"}
"""Metrics that tables leave out where another one says the same in better units."""


def headline(result: RunResult) -> list[tuple[str, str]]:
    """Return names and values of the main metrics, the error first; "-" for unknown values."""
    errors = assess(result)
    measured = result.get(errors.split) or {}
    others = [name for name, metric in metrics().items() if metric.main and name in measured and name != errors.metric]
    return [
        (f"{errors.name} {MEASURED_ON[errors.split]}", errors.text(errors.error)),
        *((metric_name(name), number(measured[name])) for name in others),
    ]


def baseline_names(result: RunResult) -> list[str]:
    """Return the display names of the baselines that exist: a linear model has no linear baseline."""
    return [BASELINE_NAMES.get(name, name) for name, values in result.baselines.items() if values is not None]


def metric_rows(result: RunResult) -> dict[str, list[list[str]]]:
    """Return for each measured split a row for each metric: its name, and the values of the model and the baselines."""
    sources = [result, *(values for values in result.baselines.values() if values is not None)]
    tables = {}
    for split in SPLIT_NAMES:
        measured = [scalar_metrics(source.get(split)) for source in sources]
        if measured[0]:
            # all metrics of model and baselines, in the model's order
            names = dict.fromkeys(name for metrics in measured for name in metrics)
            names = {name: None for name in names if UNSHOWN.get(name) not in names}
            tables[split] = [
                [metric_name(name), *(metric_number(name, m.get(name)) for m in measured)] for name in names
            ]
    return tables


@cache
def default_settings() -> dict[str, str]:
    """Return the default of each setting of training and ingestion as text."""
    return dict(flatten(TrainSettings.defaults() | {"ingest": IngestSettings().model_dump(mode="json")}))


def given_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts of settings that differ from their default, except for locations."""
    defaults = default_settings()
    given = flatten({name: value for name, value in settings.items() if name not in ("data", "out", "name")})
    return [(name, text) for name, text in given if text != defaults.get(name, "-")]
