"""The automatic choice of solver, settings and preparation of inputs: when it is made again, and on which rows.

The first shards decide the first choice. A later run chooses again for one of these reasons; "the last choice" is one
whose challenger was compared with a champion, or the first one.

signal: a shard after the last choice had more errors than chance explains, see `okl.lifecycle.error_drift`; and again
    each time that the rows since the signal have nearly doubled (1.8 times), until a window begins with the signal
errors: the latest three shards have more errors than the first three after the last choice, and no signal is in
    between, by the same test and level: it finds a slow change
rows: the window has four times as many rows as at the last choice
excluded: a shard that the champion was trained on was excluded by hand, so its choice may be of that shard

A choice is made on the shards of the window, and another one on those since the signal, or the latest three. Their
challengers and one with the settings so far are trained; the one with the least error on the newest reserved rows is
the challenger of the run. Its tests have a share of the level each. Later windows begin with that of the choice.

All of it depends on records, so the same shards give the same choices. A choice is stored before its challenger is
trained: an interrupted run continues with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from okl.data.dataset import Dataset, Schema
from okl.foundation.errors import DataError
from okl.foundation.folders import write_durably
from okl.foundation.locations import Place, json_files
from okl.foundation.telemetry import Observer
from okl.foundation.validation import parse_json, validated
from okl.lifecycle.champion import Champion, ModelHistory
from okl.lifecycle.error_drift import ShardScores, compared
from okl.lifecycle.profile import merged_statistics
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import CHOICES, ShardRecord, ShardStore
from okl.lifecycle.versions import choice_entry, options_of, plain_train
from okl.runs.select import LEAST_ROWS, choose_solver
from okl.solvers.factory import training_columns
from okl.solvers.settings import AutoSettings

MORE_ROWS, MORE_SINCE = 4.0, 1.8  # times the rows of the last choice, and those since a signal
LEAST_OF_CLASS = 10  # rows of each class, for a choice on a part of the window
LATEST = 3  # shards whose errors are compared
FORCED = "--choose again was given"
RUN_RESULT = "result.json"  # of the run that a version came from


@dataclass(frozen=True)
class LaterChoice:
    """A choice that was made again; a value that is stored as JSON.

    cause : why it was made; first, last : SHA-256 of the oldest and newest shard that it was made on; the former is ""
        unless windows begin with it; rows : training rows of these shards
    why : its reasons; options : settings of training; schema : of the shards, with scaling and metric of the choice
    compared : whether its challenger was compared with a champion; champion : number of the one that won, 0 if unknown
    """

    cause: str
    first: str
    last: str
    rows: int
    why: tuple[str, ...]
    options: Mapping[str, Any]
    schema: Schema
    compared: bool = False
    champion: int = 0

    @property
    def of_version(self) -> dict[str, Any]:
        """Return the entry in the lineage of the versions that have it."""
        return {name: getattr(self, name) for name in ("cause", "first", "last", "rows")}

    def as_entry(self, is_best: bool, is_published: bool) -> dict[str, Any]:
        """Return the entry of a result. is_best : whether its challenger is the best; is_published : the best one"""
        outcome = "not used" if not is_best else "published" if is_published else "not published"
        return {"cause": self.cause, "solver": self.options["solver"], "why": list(self.why), "outcome": outcome}


# When to choose again.


@dataclass(frozen=True)
class DueChoice:
    """A choice that is due. cause : why, as the end of a sentence; since : position of the shard since when rows differ

    since is 0 where nothing says that they do.
    """

    cause: str
    since: int = 0


def find_cause(
    accepted: Sequence[ShardRecord], last: int, rows_then: int, rows_now: int, window_shards: int
) -> DueChoice | None:
    """Return the choice that is due, None if none is.

    accepted : shards in training order, up to the newest
    last : position among them of the newest shard of the last choice, -1 if none of them is
    rows_then, rows_now : training rows of the last choice, and of the window now; window_shards : of any window
    """
    scored = [(position, one.scored) for position, one in enumerate(accepted) if one.scored is not None]
    signal, start = latest_drift(accepted)
    scores = accepted[signal].scored if signal >= 0 else None
    if scores is not None and signal > last:
        return DueChoice(f"{accepted[signal].name} shows drift ({_rates(scores)})", start)
    since = _rows(accepted[start:])
    if signal >= 0 and last + 1 - window_shards < signal and since >= MORE_SINCE * _rows(accepted[start : last + 1]):
        return DueChoice(f"there are {since:,} rows since the drift in {accepted[signal].name}", start)
    after = [scores for position, scores in scored if position > last]
    if len(after) >= 2 * LATEST:
        latest = after[-LATEST:]
        rows, wrong = sum(one.rows for one in latest), sum(one.wrong for one in latest)
        together = compared(after[:LATEST], ShardScores(latest[-1].version, rows, wrong, 0.0, 0.0))
        if together.fired:
            return DueChoice(f"errors have grown since the last choice ({_rates(together)})", len(accepted) - LATEST)
    if rows_now >= MORE_ROWS * rows_then > 0:
        return DueChoice(f"there are {rows_now:,} rows, at the last choice {rows_then:,}")
    return None


def latest_drift(accepted: Sequence[ShardRecord]) -> tuple[int, int]:
    """Return the positions of the latest shard that fired, and of the first that it fired with; -1 and 0 without."""
    scored = [(position, one.scored) for position, one in enumerate(accepted) if one.scored is not None]
    for index in range(len(scored) - 1, -1, -1):
        position, scores = scored[index]
        if scores.fired:
            return position, scored[max(0, index + 1 - scores.together)][0]
    return -1, 0


def _rows(records: Sequence[ShardRecord]) -> int:
    return sum(record.train_rows for record in records)


def _rates(scores: ShardScores) -> str:
    return f"{scores.rate:.1%} of the rows missed, {scores.past_rate or 0.0:.1%} before, p = {scores.p_value:.2g}"


def due_choice(
    given: RetrainSettings, store: ShardStore, history: ModelHistory, pending: Sequence[ShardRecord]
) -> DueChoice | None:
    """Return the choice that is due for the waiting shards, None if none is.

    given : settings before a solver was filled in. A solver that was given, now or for the champion, is never replaced,
        unless a choice is requested.
    """
    champion = history.champion
    if champion is None or given.choose == "keep" or given.train.solver != "auto":
        return None
    if given.choose == "again":
        return DueChoice(FORCED)
    if not (pending or history.excluded) or not is_chosen(champion, store):
        return None
    accepted = up_to(history, pending)
    if history.excluded:
        return DueChoice(history.exclusion) if accepted else None
    last, rows, first = _last_choice(champion, store, accepted)
    window = accepted[max(first, len(accepted) - given.window_shards) :]
    return find_cause(accepted, last, rows, _rows(window), given.window_shards)


def is_chosen(champion: Champion, store: ShardStore) -> bool:
    """Return whether the champion has the settings of an automatic choice: of a retraining, or of its `okl train`."""
    if choice_entry(champion):
        return True
    if chosen := store.choice():
        configuration = champion.model.configuration
        return all(_as_json(configuration.get(name)) == value for name, value in chosen.items())
    file = champion.version.files / RUN_RESULT
    try:
        return bool(parse_json(file.read_bytes()).get("choice")) if file.is_file() else False
    except (ValueError, AttributeError):
        return False


def _last_choice(champion: Champion, store: ShardStore, accepted: Sequence[ShardRecord]) -> tuple[int, int, int]:
    """Return the position of the newest shard of the last choice, its rows, and the position where windows begin."""
    positions = {record.sha256: position for position, record in enumerate(accepted)}
    entry = choice_entry(champion)
    begin = positions.get(entry.get("first", ""), 0)
    made = [(choice.last, choice.rows) for choice in later_choices(store) if choice.compared]
    last, rows = max(((positions[sha], rows) for sha, rows in made if sha in positions), default=(-1, 0))
    if entry and positions.get(entry["last"], -1) >= last:
        last, rows = positions.get(entry["last"], -1), entry["rows"]
    if last >= 0:
        return last, rows, begin
    first = max((positions[sha] for sha in champion.first_shards if sha in positions), default=-1)
    return first, _rows(accepted[: first + 1]) or int(champion.model.provenance.get("train_rows", 0)), begin


def up_to(history: ModelHistory, pending: Sequence[ShardRecord]) -> list[ShardRecord]:
    """Return the shards that a model would be trained on, in training order; the waiting ones have new scores."""
    waiting = {record.sha256: record for record in pending}
    wanted = history.trained_on | waiting.keys()
    return [waiting.get(record.sha256, record) for record in history.accepted() if record.sha256 in wanted]


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


# Choosing.


def later_choices(store: ShardStore) -> list[LaterChoice]:
    """Return all choices after the first one; DataError for a damaged one."""
    return [_read(file) for file in json_files(store.location / CHOICES)]


def _read(file: Place) -> LaterChoice:
    try:
        return validated(LaterChoice, parse_json(file.read_bytes()))
    except ValueError:
        raise DataError(f"{file} is damaged: expected a choice of settings. Remove it, and run again.") from None


def choose_again(
    given: RetrainSettings,
    store: ShardStore,
    history: ModelHistory,
    pending: Sequence[ShardRecord],
    due: DueChoice,
    observer: Observer,
) -> list[LaterChoice]:
    """Return new choices on the training rows of the latest shards, and of those since they differ; or stored ones.

    Scaling, metric and squashing of inputs belong to a choice; encodings and the target stay. Each has its share of the
    budget.
    """
    accepted = up_to(history, pending)
    start = max(0, len(accepted) - given.window_shards)
    windows = [accepted[start:]]
    if due.since > start and _are_enough(accepted[due.since :]):
        windows.append(accepted[due.since :])
    options = given.train.options
    assert isinstance(options, AutoSettings), "no solver is given"
    train = given.train.replaced(budget_seconds=options.budget_seconds / len(windows))
    given = given.model_copy(update={"train": train})
    choices = []
    for number, window in enumerate(windows):
        decisive = {"train": plain_train(given), "scale": given.ingest.scale, "group": given.ingest.group}
        key = json.dumps([decisive, [record.sha256 for record in window]])
        file = store.location / CHOICES / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        if not file.is_file():
            observer.stage("choose")
            settings, schema, why = choose_for(given, unprepared(given, store, window), observer)
            first = window[0].sha256 if number else ""
            made = LaterChoice(due.cause, first, window[-1].sha256, _rows(window), tuple(why), settings, schema)
            _write(file, made)
        choices.append(_read(file))
    return choices


def _are_enough(window: Sequence[ShardRecord]) -> bool:
    counts = [sum(each) for each in zip(*(record.class_counts for record in window), strict=True)]
    return _rows(window) >= LEAST_ROWS and min(counts, default=LEAST_OF_CLASS) >= LEAST_OF_CLASS


def choose_for(given: RetrainSettings, data: Dataset, observer: Observer) -> tuple[dict[str, Any], Schema, list[str]]:
    """Choose for the training rows of a data set: return settings of training, the schema to read it by, and why."""
    train, group = given.train.replaced(data=str(data.folder)), given.ingest.group
    choice = choose_solver(train, data, observer, group)
    chosen = choice.settings.replaced(rescale="stored", metric="auto")  # of several sizes, the largest one
    options = {"solver": chosen.solver} | options_of(chosen.model_dump(mode="json"))
    return options, training_columns(choice.settings, data, metric=choice.metric).schema, choice.record["why"]


def unprepared(given: RetrainSettings, store: ShardStore, window: Sequence[ShardRecord]) -> Dataset:
    """Return shards as one data set, without metric and squashed inputs, and without a scaling that is open."""
    data = store.union(list(window))
    schema, n_columns = data.schema, len(data.schema.features)
    targets = [(record.target,) for record in window if record.target is not None]
    is_open = "scale" not in given.ingest.model_fields_set
    return replace(
        data,
        schema=replace(
            schema,
            scale="none" if is_open else schema.scale,
            metric=(),
            squashed=(),
            feature_statistics=merged_statistics([record.columns[:n_columns] for record in window]),
            target_statistics=merged_statistics(targets)[0] if targets else schema.target_statistics,
        ),
    )


def mark_compared(store: ShardStore, choices: Sequence[LaterChoice], champion: int | None) -> None:
    """Record that the challengers of choices were compared with the champion: their evidence is used up."""
    for file in json_files(store.location / CHOICES) if choices else ():
        if (stored := _read(file)) in choices:
            _write(file, replace(stored, compared=True, champion=champion or 0))


def _write(file: Place, choice: LaterChoice) -> None:
    write_durably(file, json.dumps(asdict(choice), indent=1, allow_nan=False) + "\n")
