"""Choice between encodings of text columns of many values, and of dates, by validation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from okl.data.dataset import Dataset
from okl.data.ingest.run import MOST_FREQUENT
from okl.foundation.settings import IngestSettings
from okl.foundation.telemetry import NullObserver, Observer
from okl.runs.select import choose_solver
from okl.solvers.settings import AutoSettings, TrainSettings

MOST_ROWS = 65_536  # of training; more are encoded by the rule of the ingest
LEAST_BUDGET = 10.0  # seconds; a trial's first round and its ingests cost the same for any budget: 10 s or more
_SHARE = 0.25  # of the budget, for each of the choices
_MOST_INPUTS, _MOST_NUMBERS = 4000, 10_000_000  # of all values of all columns; in all rows
_MORE = 1.25  # times the inputs: fewer values without an input decide little
_WORTH = 0.99  # times the error, below which another encoding is taken


def encoding_by_trial(
    settings: TrainSettings,
    given: IngestSettings,
    data: Dataset,
    ingest: Callable[[IngestSettings, Path], Dataset],
    begin: Callable[[], None] = lambda: None,
    of_values: bool = True,
    observer: Observer | None = None,
) -> IngestSettings:
    """Return the settings of the encoding whose best candidate has the least error on held-out rows, by 1% at least.

    Inputs of values show how the effect of other columns differs between values, target means do not; of values in few
    rows, means are more exact. Inputs of all values, also of those in a few rows, suit effects that add up. Inputs of
    weekdays and hours show steps, such as of opening hours. Settings that leave nothing open, those with a budget of
    less than 10 seconds, and data without such columns, are returned at once.

    settings : with solver auto, or the given settings are returned; data : as the given settings make it
    ingest : makes a data set of the same source by settings, in a folder
    begin : called where something is tried, before it
    of_values : whether encodings of text columns are tried, not those of dates alone
    observer : gets the progress in choices
    """
    columns = [encoding for encoding in data.schema.encodings if encoding.kind == "category"]
    means = any(encoding.means for encoding in columns)
    many = means or any(len(encoding.categories) + encoding.other > MOST_FREQUENT for encoding in columns)
    is_open = given.many_values == "auto" and given.max_categories is None and not given.text
    options, others = settings.options, list[dict[str, Any]]()
    if many and is_open and of_values:
        others += [
            {"many_values": "inputs" if means else "means"},
            {"many_values": "inputs", "max_categories": _MOST_INPUTS // len(columns)},
        ]
    dated = any(encoding.parts for encoding in data.schema.encodings)
    if dated and given.dates == "auto":
        others.append({"dates": "calendar"})
    if not (others and 1 < data.rows("train") <= MOST_ROWS and isinstance(options, AutoSettings)):
        return given
    if options.budget_seconds < LEAST_BUDGET:
        return given
    begin()
    progress = _TrialProgress(observer or NullObserver(), 1 + len(others))
    trial = settings.replaced(budget_seconds=_SHARE * options.budget_seconds)
    best, least, tried = given, 0.0, [data.schema.encodings]
    with TemporaryDirectory() as folder:
        for number, change in enumerate(others):
            progress.finished = 0 if len(tried) == 1 else 1 + number
            other = best.model_copy(update=change)
            made = ingest(other, Path(folder) / str(number))
            inputs = made.schema.n_features
            too_many = made.schema.sparse is None and data.rows("train") * inputs > _MOST_NUMBERS
            if too_many or made.schema.encodings in tried:
                continue
            if "max_categories" in change and inputs < _MORE * data.schema.n_features:
                continue
            if len(tried) == 1:
                least = _WORTH * _least_error(trial, data, progress)
                progress.finished = 1 + number
            tried.append(made.schema.encodings)
            if (error := _least_error(trial, made, progress)) < least:
                best, least = other, error
    return best


def _least_error(settings: TrainSettings, data: Dataset, observer: Observer) -> float:
    record = choose_solver(settings, data, observer).record
    return 1.0 - max(float(one["score"]) for one in record["candidates"] if one["rows"] == record["rows"])


class _TrialProgress(NullObserver):
    """Progress in choices, all in one stage; finished : how many are done."""

    def __init__(self, observer: Observer, total: int) -> None:
        self.observer, self.total, self.finished = observer, total, 0

    def advance(self, done: int, total: int, metrics: dict[str, float]) -> None:
        self.observer.advance(self.finished, self.total, metrics)
