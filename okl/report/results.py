"""Result of a training run as a typed mapping, and its error compared with those of the baselines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from typing import Any, Never

from okl.foundation.locations import Place, place_of
from okl.foundation.settings import IngestSettings
from okl.metrics.base import metrics
from okl.models.file import Model, load_model
from okl.report.format import (
    BASELINE_NAMES,
    MEASURED_ON,
    SPLIT_NAMES,
    duration,
    flatten,
    metric_name,
    mistake_rate_text,
    number,
    percent,
    scalar_metrics,
)
from okl.solvers.settings import TrainSettings

Metrics = Mapping[str, Any]
"""Values by name of the metric; confusion, reliability and histograms of residuals are nested."""


def _entry(name: str, missing: Any = None) -> Any:
    """Return a read-only attribute for an entry; missing : its value for a result without the entry."""
    return property(lambda self: missing if self.get(name) is None else self[name])


class RunResult(dict[str, Any]):
    """Result of a training run: what `okl train --json` prints, read-only, with the main entries as attributes.

    It is a dictionary: `json.dumps(result)` writes what result.json holds, and `RunResult(json.load(file))` reads the
    result.json of any earlier run. An attribute of an entry that a run does not have is None or empty.

    Attributes
    ----------
    model : the trained model, loaded from its folder when first used; result["model"] is the folder
    run : folder of the run
    report : location of its report, an HTML page
    name : name of the run
    rows : number of training rows
    seconds, total_seconds : of training, and of the whole run
    rows_per_second : training rows of all passes by seconds of training
    test, train, progressive : metrics on test rows, on training rows, and of each row before it is trained on
    baselines : the same three by name of the baseline: majority or mean, linear
    certificate : proof of quality, with its kind; empty without one
    chosen : values that the run chose, each with its reason as NAME_reason
    choice : candidates of the automatic choice, and why one was taken
    curve, convergence : learning curve of an online solver, or duality gap by iteration of another
    windows, drift, constraints, timeline, memory_plan : as in the report
    settings, dataset : settings of the run, and description of its data set
    """

    run: str = _entry("run", "")
    name: str = _entry("name", "")
    rows: int | None = _entry("rows")
    seconds: float | None = _entry("seconds")
    total_seconds: float | None = _entry("total_seconds")
    rows_per_second: float | None = _entry("rows_per_second")
    peak_memory_bytes: int | None = _entry("peak_memory_bytes")
    workers: int = _entry("workers", 0)
    test: Metrics | None = _entry("test")
    train: Metrics | None = _entry("train")
    progressive: Metrics | None = _entry("progressive")
    baselines: Mapping[str, Mapping[str, Metrics | None] | None] = _entry("baselines", {})
    certificate: Mapping[str, Any] = _entry("certificate", {})
    chosen: Mapping[str, Any] = _entry("chosen", {})
    choice: Mapping[str, Any] = _entry("choice", {})
    curve: Sequence[Sequence[float]] = _entry("curve", ())
    convergence: Sequence[Sequence[float]] = _entry("convergence", ())
    windows: Mapping[str, Any] = _entry("windows", {})
    drift: Mapping[str, Any] = _entry("drift", {})
    constraints: Mapping[str, Any] = _entry("constraints", {})
    timeline: Mapping[str, Any] = _entry("timeline", {})
    memory_plan: Mapping[str, Any] = _entry("memory_plan", {})
    settings: Mapping[str, Any] = _entry("settings", {})
    dataset: Mapping[str, Any] = _entry("dataset", {})

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
    def is_regression(self) -> bool:
        return self.dataset.get("task") == "regression"

    @property
    def passes(self) -> int:
        return int(self.settings.get("passes") or 1)

    def as_dict(self) -> dict[str, Any]:
        """Return a copy as a plain dictionary."""
        return dict(self)

    def _summary(self) -> list[tuple[str, str]]:
        errors = assess(self)
        measured = [f"okl {errors.text(errors.error)}"]
        measured += [f"{name.lower()} {errors.text(error)}" for name, error in errors.baselines().items()]
        trained = f"{number(self.rows)} rows in {duration(self.seconds)}"
        return [
            ("Solver", f"{self.settings.get('solver', '-')}, {trained} ({duration(self.total_seconds)} in total)"),
            (f"{errors.name} {MEASURED_ON[errors.split]}", ", ".join(measured)),
            ("Folder", self.run or "-"),
        ]

    def __repr__(self) -> str:
        width = max(len(name) for name, _ in self._summary())
        lines = [f"  {name:<{width}}  {text}" for name, text in self._summary()]
        return "\n".join([f"RunResult: predicting {' '.join(self.target.split())}", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._summary())
        return f"<table><caption>Predicting {escape(self.target)}</caption>{rows}</table>"

    def _read_only(self, *_: Any, **__: Any) -> Never:
        raise TypeError("The result of a run is read-only. Change a copy: dict(result).")

    __setitem__ = __delitem__ = __ior__ = _read_only
    clear = pop = popitem = setdefault = update = _read_only

    def __reduce__(self) -> tuple[type[RunResult], tuple[dict[str, Any]]]:
        return RunResult, (dict(self),)


# Errors of a model and its baselines

ROOT = "Root mean squared error"  # in units of the target
STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Assessment:
    """Errors of a model and its baselines, on test rows if there are any, otherwise during training.

    Parameters
    ----------
    split : "test", "progressive" (each row predicted before it is trained on), or "train"
    rows : number of rows, 0 if unknown
    metric : name of the error, less is better
    constant_name : "majority" or "mean"
    error, constant, linear : errors of the model, the constant baseline and the linear baseline; None if unknown
    passes : number of passes over the training rows
    """

    split: str
    rows: int
    metric: str
    constant_name: str
    error: float | None
    constant: float | None
    linear: float | None
    passes: int = 1

    @property
    def is_share(self) -> bool:
        """Return whether the error is a share of rows."""
        return self.metric == "mistake_rate"

    @property
    def name(self) -> str:
        """Return the name of the error as it is shown: of a regression, its root, in units of the target."""
        return metric_name(self.metric) if self.is_share else ROOT

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
        """Return whether a lower mistake rate is within two binomial standard errors of the constant baseline's."""
        if not self.beats_constant or not self.is_share or not self.rows:
            return False
        assert self.constant is not None
        assert self.error is not None
        return self.constant - self.error <= self.chance(self.constant)

    def chance(self, error: float) -> float:
        """Return two binomial standard errors of a mistake rate; 0 for other errors, whose variance is unknown."""
        applies = self.is_share and self.rows and 0.0 <= error <= 1.0
        return STANDARD_ERRORS * math.sqrt(error * (1.0 - error) / self.rows) if applies else 0.0

    def baselines(self) -> dict[str, float]:
        """Return the known errors of the baselines by their display names."""
        named = {BASELINE_NAMES["linear"]: self.linear, BASELINE_NAMES[self.constant_name]: self.constant}
        return {name: error for name, error in named.items() if error is not None}

    def length(self, error: float) -> float:
        """Return an error as it is shown: a share of rows, or the root of a squared error."""
        return error if self.is_share else math.sqrt(error)

    def text(self, error: float | None, with_chance: bool = False) -> str:
        """Return an error as it is shown; with_chance : with two standard errors of a mistake rate."""
        if error is None or not self.is_share:
            return number(error if error is None else self.length(error))
        chance = self.chance(error) if with_chance else 0.0
        return mistake_rate_text(error) + (f" ± {percent(chance, 2).rstrip('%')}" if chance else "")

    def sentence(self, error: float | None) -> str:
        """Return an error as part of a sentence."""
        if not self.is_share:
            return f"mean squared error {number(error)}"
        return "-" if error is None else f"{mistake_rate_text(error)} mistakes"


def assess(result: Mapping[str, Any], splits: Sequence[str] = ("test", "progressive")) -> Assessment:
    """Return the errors that a run is assessed by.

    splits : splits to prefer, in this order, to the training rows
    """
    result = RunResult(result)
    split = next((name for name in splits if result.get(name)), "train")
    figures = result.get(split) or {}
    metric = next((name for name in ("mistake_rate", "mse", "squared_loss") if name in figures), "mistake_rate")
    constant_name = "mean" if "mean" in result.baselines else "majority"
    rows = result.dataset.get("test_rows") if split == "test" else result.rows
    error, constant, linear = (
        _finite(((source or {}).get(split) or {}).get(metric))
        for source in (result, result.baselines.get(constant_name), result.baselines.get("linear"))
    )
    return Assessment(split, int(rows or 0), metric, constant_name, error, constant, linear, result.passes)


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


# Tables of metrics


def headline(result: RunResult) -> list[tuple[str, str]]:
    """Return names and values of the main metrics, the error first; "-" for unknown values."""
    errors = assess(result)
    measured = result.get(errors.split) or {}
    others = [name for name, metric in metrics().items() if metric.main and name in measured]
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
            tables[split] = [[metric_name(name), *(number(m.get(name)) for m in measured)] for name in names]
    return tables


# Settings


@cache
def default_settings() -> dict[str, str]:
    """Return the default of each setting of training and ingestion as text."""
    return dict(flatten(TrainSettings.defaults() | {"ingest": IngestSettings().model_dump(mode="json")}))


def given_settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and texts of settings that differ from their default, except for locations."""
    defaults = default_settings()
    given = flatten({name: value for name, value in settings.items() if name not in ("data", "out", "name")})
    return [(name, text) for name, text in given if text != defaults.get(name, "-")]
