"""The price of a constraint: how right FOGD is along bounds of what its scores are held to."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.certificates.hindsight import solve_in_ball, solve_within
from okl.data.executor import Rows
from okl.data.manifest import peak_memory_bytes
from okl.distributed.cache import resident
from okl.features.base import FeatureMap
from okl.features.predictors import LinearPredictor
from okl.foundation.types import FloatArray
from okl.losses import Hinge
from okl.report.figures import Theme, add_axes, empty_figure, png
from okl.report.format import aligned, duration, number
from okl.report.text import RATES
from okl.runs.compare import (
    FREQUENCIES,
    Asked,
    RecordedRun,
    Sample,
    Trial,
    asked_of,
    bounds_between,
    corrected_resampled_t,
    exact_mcnemar,
    packed_right,
    priced_columns,
    spread,
    test_name,
    worst,
)
from okl.runs.compare_report import ComparisonPicture, Page, TableOfPage, percent
from okl.runs.results import describe_data
from okl.solvers.accelerated.operators import DenseRows
from okl.solvers.online.constrained import ConstrainedLearner, step_of_radius
from okl.solvers.online.constraints import (
    Columns,
    Constraint,
    LinearLimits,
    Weighings,
    columns_of,
    figures_of,
    limits_of,
    moments_of,
    rows_from,
    sample_side,
    sums_of,
)
from okl.solvers.online.linear import LinearLearner
from okl.solvers.online.maps import FourierChoice
from okl.solvers.online.solver import SAMPLE_ROWS

# The rows of a path of bounds: those of a comparison, and the columns beside them that constraints look at.


@dataclass(frozen=True, eq=False)
class SideSample(Sample):
    """A sample whose rows have some more columns.

    names : of the columns, which are inputs or keys of the data set
    """

    names: tuple[str, ...] = ()

    def sides(self, number: int) -> tuple[Columns, Columns]:
        """The columns of a part: of the rows to learn, and of those to be judged on."""
        learnt = self.tested() != number
        ordered = self.columns()
        train = {name: column[learnt] for name, column in ordered.items()}
        if self.holdout == "test":
            return train, sample_side(self.data, "test", self.rows, self.seed, self.names)
        return train, {name: column[~learnt] for name, column in ordered.items()}

    def columns(self) -> Columns:
        """The columns of all sampled training rows."""

        def load() -> tuple[NDArray[Any], ...]:
            columns, order = sample_side(self.data, "train", self.rows, self.seed, self.names), self.order()
            return tuple(np.ascontiguousarray(columns[name][order]) for name in self.names)

        return dict(zip(self.names, resident((*self.key, "side", self.names), load), strict=True))


# One item of a path: FOGD learns the rows of a part under one bound; beside it the best weights under the same.

Figures = list[dict[str, Any]]


@dataclass(frozen=True)
class Priced:
    """What came of one bound in one part.

    trial : of FOGD; best : of the best weights under the bound, None if they were not asked for
    train, test : each constraint measured on the rows learnt and on those judged on, as `measure_constraints` has it
    """

    trial: Trial
    best: Trial | None
    train: Figures
    test: Figures


@dataclass(frozen=True)
class PriceItem:
    """Learn under a bound, measure, and be judged.

    part : number of it; bound : None without the constraints of the path
    """

    asked: Asked
    part: int
    bound: float | None


@dataclass(frozen=True)
class PriceWork:
    """Runs items wherever it is called."""

    sample: SideSample

    def __call__(self, item: PriceItem) -> Priced:
        """Return what came of an item.

        Raises
        ------
        ConfigError : limits that no weights keep to, a group without a row; DivergedError
        """
        asked, sample = item.asked, self.sample
        feature_map = sample.feature_map
        assert feature_map is not None, "FOGD learns in a Fourier map"
        part, (beside, held) = sample.part(item.part), sample.sides(item.part)
        begun = time.perf_counter()
        learner = make_learner(asked, item.bound, feature_map, part.features, beside)
        predictor = learner.predictor(learner.learn(learner.start(), Rows(part.inputs, part.targets)))
        seconds = time.perf_counter() - begun
        trial = Trial(_right(predictor, part.test_inputs, part.test_targets), len(part.test_targets), seconds=seconds)
        measured = asked.constraints if item.bound is None else asked.at(item.bound)
        return Priced(
            trial,
            best_trial(learner, Rows(part.features, part.targets), Rows(part.test_inputs, part.test_targets))
            if asked.certify
            else None,
            measure(measured, predictor, part.inputs, beside),
            measure(measured, predictor, part.test_inputs, held),
        )


def make_learner(
    asked: Asked, bound: float | None, feature_map: FeatureMap, features: FloatArray, columns: Columns
) -> LinearLearner:
    """FOGD with the steps of the theorem, in the ball, within the limits of a bound on all rows to learn.

    features : of these rows (rows, n_columns); columns : beside them
    """
    step, kept = step_of_radius(asked.radius), asked.kept(bound)
    if not kept:
        return LinearLearner(feature_map, Hinge(), step, radius=asked.radius, decaying=True)
    limits = limits_in_memory(kept, asked.radius, features, columns)
    return ConstrainedLearner(feature_map, Hinge(), step, decaying=True, limits=limits)


def limits_in_memory(
    constraints: tuple[Constraint, ...], radius: float, features: FloatArray, columns: Columns
) -> LinearLimits:
    """Limits whose rows come from all rows given.

    Raises
    ------
    ConfigError : a group without a row, or limits that no weights of the ball keep to
    """
    weighings = Weighings(constraints)
    rows = rows_from(weighings, sums_of(weighings, features, columns, "training rows"))
    return limits_of(constraints, rows, radius)


def best_trial(learner: LinearLearner, rows: Rows, held: Rows) -> Trial:
    """The weights of the least hinge loss that the learner may have, and their judgement.

    rows : features and targets of the rows to learn; held : inputs and targets of those to be judged on
    """
    begun = time.perf_counter()
    operator = DenseRows(rows.inputs, rows.targets)
    if isinstance(learner, ConstrainedLearner):
        found = solve_within(operator, "hinge", learner.kept)
    else:
        assert learner.radius is not None
        found = solve_in_ball(operator, "hinge", learner.radius)
    predictor = LinearPredictor(learner.feature_map, found.weights[None, :].astype(learner.precision))
    return Trial(
        _right(predictor, held.inputs, held.targets),
        len(held.targets),
        relative_gap=found.certificate.relative_gap,
        iterations=found.iterations,
        seconds=time.perf_counter() - begun,
    )


def measure(
    constraints: tuple[Constraint, ...], predictor: LinearPredictor, inputs: FloatArray, columns: Columns
) -> Figures:
    """Each constraint on rows in memory."""
    weighings = Weighings(constraints)
    return figures_of(constraints, moments_of(weighings, columns, predictor.scores(inputs), "rows in memory"))


def _right(predictor: LinearPredictor, inputs: FloatArray, targets: NDArray[np.float64]) -> dict[str, bytes]:
    return {"own": packed_right([predictor.scores(inputs)], targets)}


# What a path of bounds comes to: a row for each bound, over all parts, and the learner without it as the end.


def price_rows(
    asked: Asked, found: Sequence[tuple[float | None, Sequence[Priced]]], test_share: float
) -> list[dict[str, Any]]:
    """A row for each bound in the order given.

    found : of each bound what came of its parts; one of them is None, to which all are compared
    test_share : test rows over training rows of a part
    """
    free = next(priced for bound, priced in found if bound is None)
    return [_row(asked, bound, priced, free, test_share) for bound, priced in found]


def free_value(asked: Asked, free: Sequence[Priced]) -> float:
    """Return what the constraints of the path come to at most, on training rows, without them; on average over the
    parts.
    """
    values = [worst([part.train[place]["value"] for place in asked.swept]) for part in free]
    return fmean(abs(value or 0.0) for value in values)


def _row(
    asked: Asked, bound: float | None, priced: Sequence[Priced], free: Sequence[Priced], test_share: float
) -> dict[str, Any]:
    trials, others = [part.trial for part in priced], [part.trial for part in free]
    accuracies = [trial.accuracy("own") for trial in trials]
    before = [trial.accuracy("own") for trial in others]
    swept = asked.swept
    return {
        "bound": bound,
        "mean": fmean(accuracies),
        "spread": spread(accuracies),
        "accuracies": accuracies,
        "price": fmean(before) - fmean(accuracies),
        "p_value": 1.0 if bound is None else _p_value(trials, others, test_share),
        "best": _best([part.best for part in priced if part.best is not None]),
        **{split: _worst_of([getattr(part, split) for part in priced], swept) for split in ("train", "test")},
        "met": None if bound is None else all((one["excess"] or 0.0) == 0.0 for part in priced for one in part.train),
        "limits": _limits(asked, bound, priced),
        "seconds": sum(trial.seconds for trial in trials),
    }


def _best(trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Return the best of the best weights under the bound: nothing if they were not looked for."""
    if not trials:
        return None
    accuracies = [trial.accuracy("own") for trial in trials]
    return {
        "mean": fmean(accuracies),
        "spread": spread(accuracies),
        "accuracies": accuracies,
        "relative_gap": max(trial.relative_gap or 0.0 for trial in trials),
        "iterations": sum(trial.iterations for trial in trials),
        "seconds": sum(trial.seconds for trial in trials),
    }


def _worst_of(parts: Sequence[Figures], swept: Sequence[int]) -> dict[str, float | None]:
    """Return the worst of of the constraints of the path the value and the decisions furthest from 0, as sizes, on
    average over parts.
    """
    names = {"value": ("value",), "standard_error": ("standard_error",), "decisions": tuple(RATES)}
    found: dict[str, float | None] = {}
    for name, keys in names.items():
        values = [worst([part[place].get(key) for place in swept for key in keys]) for part in parts]
        known = [abs(value) for value in values if value is not None]
        found[name] = fmean(known) if known else None
    return found


def _limits(asked: Asked, bound: float | None, priced: Sequence[Priced]) -> list[dict[str, Any]]:
    """Each constraint at a bound: figures of each split on average over the parts, and every part's value."""
    limits = []
    for place, one in enumerate(asked.constraints if bound is None else asked.at(bound)):
        told: dict[str, Any] = {"constraint": str(one), "kept": bound is not None or place not in asked.swept}
        for split in ("train", "test"):
            figures = [getattr(part, split)[place] for part in priced]
            told[split] = {name: _mean([some[name] for some in figures]) for name in figures[0]}
            told[split]["values"] = [some["value"] for some in figures]
        limits.append(told)
    return limits


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _p_value(trials: Sequence[Trial], others: Sequence[Trial], test_share: float) -> float:
    if len(trials) == 1:
        return exact_mcnemar(others[0].rightly("own"), trials[0].rightly("own"))
    pairs = np.array([(one.accuracy("own"), other.accuracy("own")) for one, other in zip(others, trials, strict=True)])
    return corrected_resampled_t((pairs[:, 0] - pairs[:, 1]).tolist(), test_share)


# Pictures of a path of bounds: accuracy against the bound, and what scores and decisions come to under it.


def pictures_of(result: Mapping[str, Any]) -> list[ComparisonPicture]:
    """Both pictures."""
    return [
        ComparisonPicture("Accuracy against the bound", partial(draw_price, result)),
        ComparisonPicture("What is kept, and what it does to decisions", partial(draw_kept, result)),
    ]


def draw_price(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Accuracy on held-out rows against the bound, with one standard deviation; without the bound as a line."""
    figure = empty_figure(7.2, 3.4, theme)
    axes = add_axes(figure, theme)
    bounds, rows, free = _bounds(result)
    _accuracies(axes, bounds, rows, {"color": theme.line, "marker": "o", "capsize": 3, "label": "FOGD"})
    axes.axhline(100 * free["mean"], color=theme.line, linestyle=":", linewidth=1.2, label="FOGD without the bound")
    if free["best"] is not None:
        style = {"color": theme.other, "marker": "s", "capsize": 3, "linestyle": "--", "label": "best under the bound"}
        _accuracies(axes, bounds, [row["best"] for row in rows], style)
    parts = result["parts"]
    told = f"mean and standard deviation over {parts} folds" if parts > 1 else "rows held out"
    axes.set_title(f"Accuracy: {told}", loc="left", fontsize=10, color=theme.ink)
    axes.set_ylabel("% right")
    return _finished(figure, axes, bounds, theme)


def draw_kept(result: Mapping[str, Any], theme: Theme) -> bytes:
    """Sizes of the constrained value on rows learnt and held out, and of the difference of decisions."""
    figure = empty_figure(7.2, 3.4, theme)
    axes = add_axes(figure, theme)
    bounds, rows, _ = _bounds(result)
    axes.plot(bounds, bounds, color=theme.faint, linewidth=1.6, label="the bound")
    _sizes(axes, bounds, [row["train"]["value"] for row in rows], theme.line, "o", "scores, training rows")
    _sizes(axes, bounds, [row["test"]["value"] for row in rows], theme.soft, "D", "scores, held-out rows")
    _sizes(axes, bounds, [row["test"]["decisions"] for row in rows], theme.other, "s", "decisions, held-out rows")
    axes.set_yscale("log")
    axes.set_title("Scores are bounded, decisions are not", loc="left", fontsize=10, color=theme.ink)
    return _finished(figure, axes, bounds, theme)


def _bounds(result: Mapping[str, Any]) -> tuple[list[float], list[Mapping[str, Any]], Mapping[str, Any]]:
    rows = [row for row in result["path"] if row["bound"] is not None]
    return [row["bound"] for row in rows], rows, next(row for row in result["path"] if row["bound"] is None)


def _accuracies(axes: Any, bounds: list[float], rows: list[Any], style: dict[str, Any]) -> None:
    spreads = [100 * (row["spread"] or 0.0) for row in rows]
    axes.errorbar(bounds, [100 * row["mean"] for row in rows], yerr=spreads, markersize=4, **style)


def _sizes(axes: Any, bounds: list[float], values: list[float | None], colour: str, marker: str, label: str) -> None:
    # a size of 0 has no place on a logarithmic scale
    known = [(bound, value) for bound, value in zip(bounds, values, strict=True) if value]
    if known:
        style = {"color": colour, "marker": marker, "markersize": 4, "linewidth": 1.2, "label": label}
        axes.plot(*zip(*known, strict=True), **style)


def _finished(figure: Any, axes: Any, bounds: list[float], theme: Theme) -> bytes:
    axes.set_xscale("log")
    axes.set_xticks(bounds, [f"{bound:g}" for bound in bounds])
    axes.minorticks_off()
    axes.set_xlabel("bound")
    axes.tick_params(which="both", colors=theme.ink, labelsize=8)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    axes.legend(frameon=False, labelcolor=theme.ink, fontsize=8.5, loc="best")
    return png(figure)


# A path of bounds as text: the cells of its tables, and what it comes to in sentences; all from the result alone.

HEADER = ("Bound", "FOGD", "Best under it", "Price", "p", "Training rows", "Held-out rows", "Decisions")
LIMITS_HEADER = ("Constraint", "Training rows", "Held-out rows", "Decisions, training", "Decisions, held out")
CLEAR = 0.05


def page_of(result: Mapping[str, Any]) -> Page:
    """The report as the parts of a page."""
    tables: list[TableOfPage] = [
        ("What each bound costs", HEADER, [price_row(row) for row in result["path"]]),
        ("Every constraint at every bound", LIMITS_HEADER, limit_rows(result)),
    ]
    return Page(
        title=f"{result['name']}: what a constraint costs",
        sentences=sentences(result),
        warnings=warning_sentences(result),
        tables=tables,
        pictures=pictures_of(result),
        facts={name: value for name, value in result.items() if name != "path"},
    )


def price_row(row: Mapping[str, Any]) -> list[str]:
    """A row of the table as text, a column each of HEADER."""
    best, free = row["best"], row["bound"] is None
    return [
        "none" if free else f"{row['bound']:g}",
        percent(row["mean"], row["spread"]),
        "-" if best is None else percent(best["mean"], best["spread"]),
        "-" if free else f"{100 * row['price'] + 0.0:.2f}",
        "-" if free else f"{row['p_value']:.2g}",
        number(row["train"]["value"]),
        f"{number(row['test']['value'])} ± {number(2.0 * (row['test']['standard_error'] or 0.0))}",
        number(row["test"]["decisions"]),
    ]


def limit_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """A row for each constraint at each bound, a column each of LIMITS_HEADER."""
    return [
        [one["constraint"] if one["kept"] else f"without {one['constraint']}"]
        + [number(one[split]["value"]) for split in ("train", "test")]
        + [_decisions(one[split]) for split in ("train", "test")]
        for row in result["path"]
        for one in row["limits"]
    ]


def sentences(result: Mapping[str, Any]) -> list[str]:
    """Return what was learnt, how it was judged, and what came of it."""
    data, parts, tightest, free = result["dataset"], result["parts"], result["path"][0], result["path"][-1]
    how = f"{parts}-fold cross validation" if parts > 1 else f"{number(result['judged_rows'])} rows held out"
    clear = "clear" if tightest["p_value"] <= CLEAR else "not clear"
    said = [
        f"FOGD learnt to predict {data['target']} from {number(data['features'])} columns, row after row, with "
        f"{' and '.join(result['swept'])} bounded ever more loosely; judged by {how} on "
        f"{number(result['search_rows'])} training rows, in {duration(result['search_seconds'])}.",
        f"Without a bound it is right in {percent(free['mean'], free['spread'])} of cases (the majority class in "
        f"{percent(result['majority'], None)}) and comes to {number(result['without'])}. The bound "
        f"{tightest['bound']:g} costs {100 * tightest['price']:.2f} points, which is {clear} "
        f"(p {tightest['p_value']:.2g}).",
        "Values are sizes in the unit of the constraint, the largest of all constraints that take the bound, after ± "
        "two standard errors. Decisions: what positive rates differ by on held-out rows; limits of scores do not "
        "bound them. Price: points behind FOGD without the bound.",
        f"p: {result['test_name']} against no bound, two-sided, not corrected for how many there are.",
    ]
    if free["best"] is not None:
        gap = max(row["best"]["relative_gap"] for row in result["path"])
        said.append(
            "Best under it: the weights of the least hinge loss on the rows that were learnt, within the same limits "
            f"in the same ball and map, certified to {percent(gap, None)} of it at worst."
        )
    return said


def warning_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return what a reader must not overlook."""
    warnings, bounds = [], [row["bound"] for row in result["path"] if row["bound"] is not None]
    if result["without"] <= bounds[0]:
        warnings.append(
            f"No bound changes much: without any, {' and '.join(result['swept'])} comes to "
            f"{number(result['without'])} already. Give a smaller one."
        )
    if missed := [row["bound"] for row in result["path"] if row["met"] is False]:
        warnings.append(f"Limits are overstepped on the rows that were learnt at {', '.join(map(str, missed))}.")
    searched, there = result["search_rows"], result["dataset"]["train_rows"]
    if searched < there:
        warnings.append(
            f"A sample of {number(searched)} of {number(there)} training rows was learnt from; what okl train keeps to "
            "is estimated on all of them. Raise --rows for more."
        )
    return warnings


def text_summary(result: Mapping[str, Any]) -> str:
    """Aligned lines for a terminal."""
    lines = aligned([list(HEADER), *(price_row(row) for row in result["path"])])
    said = ["", *sentences(result), *(f"Warning: {warning}" for warning in warning_sentences(result))]
    return "\n".join([*lines, *said, f"Report: {result['run']}/report.html"])


def _decisions(figures: Mapping[str, Any]) -> str:
    name = next((name for name in RATES if name in figures), None)
    return "-" if name is None else f"{RATES[name]} {number(figures[name])}"


# The story of a path of bounds: plan, search, report; what `okl compare --constraint` does in place of models.

PRICE_STAGES = ("plan", "search", "report")


@dataclass(eq=False)
class PriceRun(RecordedRun):
    """One run: call the stages of PRICE_STAGES in order, then `close`, whatever happened; it removes leftovers."""

    def plan(self) -> dict[str, Any]:
        """Read the sample, draw the map, see whether there are weights within the limits, start workers."""
        settings = self.settings
        self._place.open()
        self.asked = asked_of(settings)
        self.data = priced_columns(settings, self._open_data())
        bandwidth = None if settings.bandwidth == "auto" else settings.bandwidth
        choice = FourierChoice(settings.kernel, bandwidth, settings.frequencies or FREQUENCIES, settings.map)
        few = self._sample(None).all().inputs[:SAMPLE_ROWS]
        feature_map, self.chosen = choice.draw(self.data.schema, few, settings.seed, settings.precision)
        self.sample = self._sample(feature_map)
        features = self.sample.mapped(self.sample.all().inputs)
        first = settings.constraint_path[0] if settings.constraint_path != "auto" else self.asked.bound
        limits = limits_in_memory(self.asked.at(first), self.asked.radius, features, self.sample.columns())
        return {"rows": len(features), "constraints": list(limits.names)} | self.chosen

    def search(self) -> dict[str, Any]:
        """Learn without the constraints of the path, lay the path out, and learn under every bound of it."""
        begun = time.perf_counter()
        path = self.settings.constraint_path
        self._steps = 1 + (self.settings.grid if path == "auto" else len(path))
        free = self._learn([None])
        self.free_value = free_value(self.asked, free[0][1])
        if path == "auto":
            path = bounds_between(self.asked.bound, self.free_value, self.settings.grid)
        self._steps = 1 + len(path)
        test_share = self.sample.test_rows(0) / self.sample.train_rows()
        self.rows = price_rows(self.asked, [*self._learn(path), *free], test_share)
        self._search_seconds = time.perf_counter() - begun
        return {"bounds": list(path), "without": self.free_value}

    def summary(self) -> str:
        """The plain summary for a terminal."""
        return text_summary(self._result)

    def _page(self) -> Page:
        return page_of(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """One flat row a bound."""
        return [
            {name: value for name, value in row.items() if not isinstance(value, (dict, list))}
            | {f"{split}_{name}": value for split in ("train", "test") for name, value in row[split].items()}
            for row in self._result["path"]
        ]

    def _sample(self, feature_map: FeatureMap | None) -> SideSample:
        settings = self.settings
        asked = settings.rows, settings.seed, settings.precision, settings.folds, settings.holdout
        return SideSample(self.data, *asked, feature_map, columns_of(self.asked.constraints))

    def _learn(self, bounds: Sequence[float | None]) -> list[tuple[float | None, list[Priced]]]:
        """Return what came of all parts under each bound; the outcome depends on no order of finishing."""
        parts, rows = self.sample.n_parts, self.sample.train_rows()
        items = [PriceItem(self.asked, part, bound) for bound in bounds for part in range(parts)]
        total = rows * parts * self._steps
        found: list[Priced] = []
        for priced in self._running().map(PriceWork(self.sample), items):
            found.append(priced)
            done = len(found) + (parts if bounds[0] is not None else 0)
            self.observer.advance(rows * done, total, {"accuracy": priced.trial.accuracy("own")})
        return [(bound, found[parts * step : parts * (step + 1)]) for step, bound in enumerate(bounds)]

    def _collect(self) -> dict[str, Any]:
        settings, schema, sample = self.settings, self.data.schema, self.sample
        return {
            "kind": "constraint path",
            "run": str(self._place.folder),
            "name": settings.name or self._place.folder.name,
            "constraints": [str(one) for one in self.asked.constraints],
            "swept": [str(self.asked.constraints[place].quantity) for place in self.asked.swept],
            "radius": self.asked.radius,
            "without": self.free_value,
            "path": self.rows,
            "majority": max(schema.class_counts) / sum(schema.class_counts),
            "test_name": test_name(sample.n_parts),
            "parts": sample.n_parts,
            "search_rows": len(sample.all().targets),
            "judged_rows": sum(sample.test_rows(number) for number in range(sample.n_parts)),
            "chosen": self.chosen,
            "search_seconds": self._search_seconds,
            "total_seconds": time.perf_counter() - self._begun,
            "peak_memory_bytes": peak_memory_bytes(),
            "workers": self._running().n_workers,
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, self._data_folder()),
        }
