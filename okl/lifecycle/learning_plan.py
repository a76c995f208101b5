"""Lineage of a new version, records of rejected challengers, and the plan of a training."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from okl.data.execution import Execution
from okl.data.manifest import RECORDED, processor, provenance, version_of
from okl.features.predictors import Predictor, base_of
from okl.foundation.folders import write_durably
from okl.foundation.locations import Place, json_files
from okl.foundation.telemetry import Observer
from okl.lifecycle.champion import Challenger, ModelHistory, is_online, learn_shards, same_location, solve_window
from okl.lifecycle.record import ATTEMPTS, ShardRecord
from okl.lifecycle.settings import NOT_OF_TRAIN, OF_CHOICE, RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.file import Model
from okl.models.registry import WINDOW_ROWS, Lineage, RegisteredModel
from okl.runs.checkpoint import WHERE_IT_RUNS, source_sha256
from okl.solvers.online.solver import OnlineState
from okl.solvers.settings import TrainSettings

if TYPE_CHECKING:
    from okl.lifecycle.decide import ChallengerResult

# Lineage of the version to be published.

LEARNING = ("holdout", "window_shards")
OF_DECISIONS = ("optimise", "threshold", "beside")
"""Settings of training that decide about models and labels, not about weights; part of a lineage only if given."""
JUDGING = ("publish_if", "margin", "level", "slices", "slice_margin", "holdout_shards", "guard_shards")


def measured_lineage(
    planned: Lineage, judgement: ChallengerResult, certificate: Mapping[str, Any] | None, challenger: Challenger
) -> Lineage:
    """Return the lineage with metrics, the decision and the environment."""
    versions = {name: version_of(name) for name in RECORDED} | {"python": platform.python_version()}
    environment = {
        "versions": versions,
        "source_sha256": source_sha256(),
        "processor": processor(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "how": challenger.how,
    } | ({} if challenger.online else {WINDOW_ROWS: challenger.data.rows("train")})
    metrics: dict[str, Any] = {name: dict(figures) for name, figures in judgement.metrics.items()}
    if certificate is not None:
        plain = {name: value for name, value in certificate.items() if isinstance(value, int | float | str | bool)}
        metrics["certificate"] = {name: value for name, value in plain.items() if value == value}
    return replace(planned, environment=environment, metrics=metrics, decision=judgement.decision.as_json())


def lineage_of(
    settings: RetrainSettings, history: ModelHistory, records: Sequence[ShardRecord], online: bool, fresh: bool
) -> Lineage:
    """Return the lineage of the version that will be trained.

    An online solver continues from the champion; after a new start it has no parent and lists all shards. A batch
    solver is a child of the champion with the shards that are new.
    """
    parent = None if online and fresh else history.parent
    decisive = {"train": _train(settings), "seed": settings.ingest.seed} | {
        name: getattr(settings, name) for name in LEARNING
    }
    shards = tuple(
        {"sha256": record.sha256, "name": record.name, "rows": record.train_rows}
        | {name: getattr(record, name) for name in ("test_rows", "first_time", "last_time")}
        for record in records
    )
    return Lineage(parent, shards, decisive)


def next_model(
    challenger: Challenger,
    predictor: Predictor,
    history: ModelHistory,
    settings: RetrainSettings,
    processors: tuple[str, ...],
) -> Model:
    """Return the challenger with all that raw rows need to become scores; scaling is that of the first shards."""
    schema, champion = challenger.data.schema, history.champion
    if champion is not None and challenger.online and challenger.how.startswith("continued"):
        counts = zip(champion.model.schema.class_counts, schema.class_counts, strict=True)
        schema = replace(schema, class_counts=tuple(before + new for before, new in counts))
    chosen = challenger.solver.chosen(challenger.state)
    origin = provenance(challenger.data, settings.train.seed) | {"processors": list(processors), "chosen": chosen}
    return Model(schema, predictor, settings.train.model_dump(mode="json"), origin)


def warm_start_for(settings: RetrainSettings, history: ModelHistory) -> Predictor | None:
    """Return the champion's solution, if it solves the same problem as is about to be solved for other shards."""
    champion = history.champion
    if champion is None:
        return None
    before = champion.version.lineage.settings.get("train", {})
    if _decisive(before) != _decisive(_train(settings)):
        return None
    return base_of(champion.model.predictor)


def changed_training_setting(settings: RetrainSettings, history: ModelHistory) -> str:
    """Return the first setting that differs from the champion's and affects training; "" for none.

    A continued online solver keeps its map, steps, limits and passes, so changed settings would have no effect.
    """
    if history.champion is None:
        return ""
    # an older okl had fewer settings
    before = TrainSettings.defaults() | dict(history.champion.model.configuration)
    now = _train(settings) | {"mode": settings.train.training_mode}
    # auto is another mode with workers
    before["mode"] = settings.train.replaced(
        **{name: before[name] for name in ("workers", "scheduler", "cluster", "mode")}
    ).training_mode
    names = ("solver", *_decisive(now))
    other = next((name for name in names if _plainly(before.get(name)) != _plainly(now[name])), None)
    return f"{other} changed from {before[other]!r} ({history.champion.version}) to {now[other]!r}" if other else ""


def options_of(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a training that a retraining accepts and that are not the defaults of its solver."""
    usual = TrainSettings(data="", solver=configuration["solver"]).model_dump(mode="json")
    ours = _decisive({name: configuration[name] for name in usual if name in configuration})
    apart = {"solver", "data", *WHERE_IT_RUNS}
    return {name: value for name, value in ours.items() if name not in apart and _plainly(value) != usual[name]}


def with_solver(settings: RetrainSettings, history: ModelHistory, store: ShardStore) -> RetrainSettings:
    """Return settings with a solver: as given, otherwise the champion's, or what was chosen for the first shards.

    Other settings that are given stay as they are. A model that was begun before there was a choice uses fogd.
    """
    train = settings.train
    if train.solver != "auto":
        return settings
    configuration = {} if history.champion is None else history.champion.model.configuration
    if configuration.get("solver"):  # none where a comparison chose the champion
        taken = {"solver": configuration["solver"]} | options_of(configuration)
    else:
        taken = store.choice() or {"solver": "fogd"}
    usual = TrainSettings(data="").model_dump(mode="json")
    given = {name for name, value in train.model_dump(mode="json").items() if value != usual[name]}
    taken = {name: value for name, value in taken.items() if name not in given}
    return settings.model_copy(update={"train": train.replaced(**taken)})


def _decisive(train: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those that a retraining ignores."""
    return {name: value for name, value in train.items() if name not in (*NOT_OF_TRAIN, *OF_CHOICE, *OF_DECISIONS)}


def _plainly(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value  # as JSON has it


def _train(settings: RetrainSettings) -> dict[str, Any]:
    values, usual = settings.train.model_dump(mode="json").items(), TrainSettings.model_fields
    return {
        name: value
        for name, value in values
        if name not in (*WHERE_IT_RUNS, "data") and (name not in OF_DECISIONS or value != usual[name].default)
    }


# Rejected challengers.


class Attempts:
    """Records of rejected challengers: a file each, named by the champion and the identity of the challenger.

    location : of the shard store; champion : number of its version, None before the first

    A challenger is given by its lineage with the settings of the decision, as `LearningPlan.judged` has it.
    """

    def __init__(self, model: RegisteredModel, location: Place, champion: int | None) -> None:
        self._model, self._folder, self._champion = model, location / ATTEMPTS, f"{champion or 0:08}-"

    def looks(self) -> int:
        """Return how many challengers of this champion were rejected."""
        return sum(file.name.startswith(self._champion) for file in json_files(self._folder))

    def find(self, judged: Lineage) -> str | None:
        """Return why the same challenger was rejected before, None if it was not."""
        file = self._file(judged, "json")
        if not file.is_file():
            return None
        try:
            reason = str(json.loads(file.read_text(encoding="utf-8"))["reason"])
        except (ValueError, KeyError, TypeError):  # then it is compared again
            return None
        return f"The same shards were trained on and compared before. {reason}"

    def page(self, judged: Lineage) -> Place:
        """Return the location of the report of a rejected challenger."""
        return self._file(judged, "html")

    def keep(self, judged: Lineage, reason: str, page: str) -> None:
        """Record a rejected challenger and its report."""
        write_durably(self.page(judged), page)
        shards = [shard["sha256"] for shard in judged.shards]
        content: dict[str, Any] = {"reason": reason, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        content |= {"shards": shards, "settings": judged.settings}
        write_durably(self._file(judged, "json"), json.dumps(content, indent=1) + "\n")

    def shards_of_later(self, judged: Lineage) -> set[str]:
        """Return shards that challengers of later champions, which were rolled back, were rejected with.

        Only challengers with the settings of the planned version, and of its decision, count.
        """
        shards, settings = set[str](), json.loads(json.dumps(judged.settings))
        for file in json_files(self._folder):
            if file.name > self._champion and not file.name.startswith(self._champion):
                with suppress(ValueError, KeyError, TypeError):  # of an earlier okl, or damaged
                    content = json.loads(file.read_text(encoding="utf-8"))
                    shards |= set(content["shards"] if content["settings"] == settings else ())
        return shards

    def _file(self, judged: Lineage, ending: str) -> Place:
        return self._folder / f"{self._champion}{self._model.identity(judged, self._model.head())[:32]}.{ending}"


def retraction_reason(model: RegisteredModel, planned: Lineage, rejected: Collection[str] = ()) -> str | None:
    """Return why the planned version is not trained again: its shards were learned, and another version promoted since.

    None if there is no such version, or it is the champion. After several rollbacks the shards may be those of several
    versions, with the same settings.

    rejected : shards that challengers of these versions were rejected with
    """
    version, state = model.find(planned), model.state()
    if version is None and state.latest > (champion := state.champion or 0):
        later = [one for one in model.versions() if one.number > champion and one.lineage.settings == planned.settings]
        learned = {shard["sha256"] for one in later for shard in one.lineage.shards}
        shards = {shard["sha256"] for shard in planned.shards}
        version = later[-1] if later and learned.union(rejected) >= shards else None
    if version is None or version.number == state.champion:
        return None
    return (
        f"No file is new: these shards were trained on before, in {version}, which is no longer the champion. The next "
        f"new file starts a training. To use {version} again: okl models promote {model.name} {version.number}."
    )


# The training plan.


@dataclass(frozen=True, eq=False)
class LearningPlan:
    """Plan of a training run.

    settings, history : settings and history; train : settings of training; online : whether the solver is online
    records : new shards of the version; accepted : the waiting shards and those of the champion, in training order
    begin : state to continue from, None for a new start; why : reason of a new start despite a champion
    lineage : lineage of the version; otherwise : changed setting that forces a new start, "" for none
    """

    settings: RetrainSettings
    history: ModelHistory
    train: TrainSettings
    online: bool
    records: tuple[ShardRecord, ...]
    accepted: tuple[ShardRecord, ...]
    begin: OnlineState | None
    why: str
    lineage: Lineage
    otherwise: str = ""

    @property
    def judged(self) -> Lineage:
        """Return the lineage with what decides about it: another margin is another judgement."""
        judging = {name: getattr(self.settings, name) for name in JUDGING}
        return replace(self.lineage, settings={**self.lineage.settings, "judging": judging})

    def learn(self, store: ShardStore, execution: Execution, observer: Observer) -> Challenger:
        """Train the challenger; raise DivergedError if it diverges."""
        if self.online:
            result = learn_shards(self.train, store, self.begin, self.records, execution, observer)
            return replace(result, how=f"{result.how}, because {self.otherwise}") if self.otherwise else result
        window = self.accepted[-self.settings.window_shards :]
        warm = warm_start_for(self.settings, self.history)
        return solve_window(self.train, store, window, self.records, execution, observer, warm)


def plan_learning(
    settings: RetrainSettings, store: ShardStore, history: ModelHistory, pending: Sequence[ShardRecord]
) -> LearningPlan:
    """Return the plan for the waiting shards, at least one.

    An online solver starts anew on all shards if the champion has no state or other settings of training.
    """
    train = same_location(settings.train, str(store.location))
    online = is_online(train, store.dataset(pending[0]))
    wanted = history.trained_on | {record.sha256 for record in pending}
    accepted = tuple(record for record in history.accepted() if record.sha256 in wanted)
    begin, why = history.champion.state() if online and history.champion is not None else (None, "")
    otherwise = "" if begin is None else changed_training_setting(settings, history)
    if otherwise:
        begin, why = None, otherwise
    records = accepted if why else tuple(pending)
    lineage = lineage_of(settings, history, records, online, fresh=begin is None)
    return LearningPlan(settings, history, train, online, records, accepted, begin, why, lineage, otherwise)
