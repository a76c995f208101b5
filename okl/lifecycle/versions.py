"""Versions of a model: changes since the previous one, lineage, rejected challengers, and the plan of a training."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from okl.data.execution import Execution
from okl.data.manifest import RECORDED, processor, provenance, version_of
from okl.features.predictors import Predictor, base_of
from okl.foundation.errors import ConfigError, listed
from okl.foundation.folders import write_durably
from okl.foundation.locations import Place, json_files
from okl.foundation.telemetry import Observer
from okl.lifecycle.champion import (
    Challenger,
    Champion,
    ModelHistory,
    is_online,
    learn_shards,
    same_location,
    solve_window,
)
from okl.lifecycle.lineage_checks import input_difference
from okl.lifecycle.settings import NOT_OF_TRAIN, OF_CHOICE, RetrainSettings
from okl.lifecycle.shard_store import ATTEMPTS, ShardRecord, ShardStore
from okl.models.file import DESCRIPTION, WEIGHTS, Model, load_model, save_model, weights_digest
from okl.models.registry import MODEL, Published, RegisteredModel, Version
from okl.models.registry_descriptions import differences, is_of_retraining
from okl.models.registry_log import BASELINE, CHAMPION, WINDOW_ROWS, Lineage
from okl.report.format import flatten
from okl.report.results import assess
from okl.report.training import write_report
from okl.runs.checkpoint import WHERE_IT_RUNS, source_sha256
from okl.solvers.base import CHOSEN_AUTOMATICALLY, GIVEN, named_reasons
from okl.solvers.online.solver import OnlineState
from okl.solvers.settings import TrainSettings

if TYPE_CHECKING:
    from okl.lifecycle.decide import ChallengerResult

# Changes against the previous version.

BY_PLACE = ("data", "name", "out", "weights_sha256", "judging")  # locations and settings of the comparison


def version_before(model: RegisteredModel) -> Version | None:
    """Return the champion, or else the newest version; None for a model without a version."""
    head = model.head()
    if not head.state.latest:
        return None
    return model.resolved(head.state.latest if head.state.champion is None else CHAMPION, head)


def changes_since(before: Version, now: Lineage, what: str) -> dict[str, Any]:
    """Return the values, by name, of everything that differs: that of the previous version and that of this one.

    what : the version before is, for people
    Returns name, what, same_rows; metrics, data, settings: name to a pair; as `okl.report.training.changes_section`
        shows it.
    """
    # a version that continues, or reads a window again, lists only the shards that its parent had not
    counted = "{} learnt" if before.lineage.parent is None and now.parent is None else "new {}"
    pairs = {
        "metrics": (_figures(before.lineage.metrics), _figures(now.metrics)),
        "data": (_data(before.lineage, counted), _data(now, counted)),
        "settings": _settings(before.lineage.settings, now.settings),
    }
    return {"name": str(before), "what": what, "same_rows": False} | {
        part: differences(first, other) for part, (first, other) in pairs.items()
    }


def _figures(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the figures of a run's test rows, or of a retraining's reserved rows."""
    parts = (metrics.get(part) for part in ("test", "challenger", "progressive"))
    return next((dict(part) for part in parts if part), {})


def _data(lineage: Lineage, counted: str) -> dict[str, Any]:
    """Return facts of data; counted : name of a number of shards or rows."""
    shards = lineage.shards
    times = [shard["last_time"] for shard in shards if shard.get("last_time") is not None]
    return {
        counted.format("shards"): len(shards),
        counted.format("rows"): sum(int(shard.get("rows", 0)) for shard in shards),
        "last shard": shards[-1].get("name") if shards else None,
    } | ({"latest time": times[-1]} if times else {})


def _settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Return texts of settings by name; of a run and a retraining only the settings that both have."""
    first, second = (dict(flatten(_of_learning(settings))) for settings in (before, now))
    alike = ("train" in before) == ("train" in now)
    names = first.keys() | second.keys() if alike else first.keys() & second.keys()
    selected = [{name: text for name, text in texts.items() if name in names} for texts in (first, second)]
    return selected[0], selected[1]


def _of_learning(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of training, which a retraining stores under the name train."""
    together = {**(settings.get("train") or {}), **{name: settings[name] for name in settings if name != "train"}}
    return {name: value for name, value in together.items() if name not in BY_PLACE}


# Import of a trained model as a version.

IMPORTED_FILES = ("result.json", "report.html")


def publish_trained(
    model: RegisteredModel, trained: Place, *, promote: bool = False, why: str = "", threshold: float | None = None
) -> Published:
    """Publish the folder of a run or of a model; publishing it twice makes one version.

    The report of a run is completed with the changes since the champion or the newest version.

    threshold : probability from which on the version predicts the second of two classes; None: that of the model
    Raises ModelError : no model that loads is there, or it has no probabilities; see also `RegisteredModel.publish`
    Raises ConfigError : the model cannot score the shards that retraining has stored, see `input_difference`; a
        threshold without two classes
    """
    is_run = not (trained / DESCRIPTION).is_file() and (trained / MODEL / DESCRIPTION).is_file()
    folder = trained / MODEL if is_run else trained
    loaded = load_model(folder).with_threshold(threshold)
    if threshold is not None:
        loaded = replace(loaded, configuration={**loaded.configuration, "threshold": threshold})
    reference = ShardStore(model.folder / "data").reference()
    if reference is not None and (difference := input_difference(loaded.schema, reference)):
        raise ConfigError(
            f"{trained.name} does not fit the shards that retraining has stored for {model.name}: {difference}. "
            f"Publish it under another name: okl models publish OTHER {trained.name}"
        )
    stored = trained / IMPORTED_FILES[0]
    result = json.loads(stored.read_text()) if is_run and stored.is_file() else {}
    lineage = _lineage(loaded, weights_digest(folder), result)
    champion = {CHAMPION: model.state().champion}
    # a comparison, or the version of another registry, has a report of its own
    trains = bool(result) and "winner" not in result and not is_of_retraining(result)
    before = version_before(model) if trains else None

    def write(into: Path) -> None:
        if threshold is not None:
            save_model(loaded, into / MODEL)
        else:
            (into / MODEL).mkdir()
            for name in (DESCRIPTION, WEIGHTS):
                (into / MODEL / name).write_bytes((folder / name).read_bytes())
        for name in IMPORTED_FILES:
            if is_run and (trained / name).is_file():
                (into / name).write_bytes((trained / name).read_bytes())
        if before is not None:
            what = "the champion when this version was published" if before.number == champion[CHAMPION] else ""
            write_report(result | {"previous": changes_since(before, lineage, what)}, into / IMPORTED_FILES[1])

    return model.publish(write, lineage, promote=promote, expected=champion if promote else None, why=why)


def _lineage(model: Model, weights_sha256: str, result: dict[str, Any]) -> Lineage:
    provenance = model.provenance
    settings = {name: value for name, value in model.configuration.items() if name not in WHERE_IT_RUNS}
    shard = {
        "sha256": provenance.get("data_sha256", ""),
        "name": str(model.configuration.get("data", "")),
        "rows": provenance.get("train_rows", 0),
    }
    environment: dict[str, Any] = {
        name: provenance[name] for name in ("versions", "processor", "created") if name in provenance
    }
    if is_of_retraining(result):
        measured = result.get("metrics") or {}
    else:
        measured = {part: result.get(part) for part in ("test", "progressive")} | {BASELINE: _baseline(result)}
    metrics = {part: _scalars(figures) for part, figures in measured.items() if figures}
    return Lineage(None, (shard,), settings | {"weights_sha256": weights_sha256}, environment, metrics)


def _baseline(result: dict[str, Any]) -> dict[str, float]:
    """Return the figure of the majority class or the mean by the criterion of a run; {} without one."""
    errors = assess(result)
    of_constant = ((result.get("baselines") or {}).get(errors.constant_name) or {}).get(errors.split) or {}
    name = "rmse" if errors.is_root else errors.metric
    return {name: of_constant[name]} if of_constant.get(name) is not None else {}


def _scalars(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


# Lineage of the version to be published.

LEARNING = ("holdout", "window_shards")
CHOICE_OF_VERSION = "choice"
"""Entry of a lineage's settings: cause, shards and rows of a choice that was made again, see `LaterChoice`."""
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
    settings: RetrainSettings, parent: int | None, records: Sequence[ShardRecord], choice: Mapping[str, Any]
) -> Lineage:
    """Return the lineage of the version that will be trained.

    parent : the champion, which an online solver continues; a batch solver is its child with the shards that are new.
        After a new start there is none, and records are all shards.
    choice : its entry, empty where the first choice or a named solver holds
    """
    decisive = {"train": plain_train(settings), "seed": settings.ingest.seed} | {
        name: getattr(settings, name) for name in LEARNING
    }
    decisive |= {CHOICE_OF_VERSION: dict(choice)} if choice else {}
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
    automatic: bool,
) -> Model:
    """Return the challenger with all that raw rows need to become scores; scaling is that of the first shards.

    automatic : whether its settings are those of the automatic choice
    """
    schema, champion = challenger.data.schema, history.champion
    if champion is not None and challenger.online and challenger.how.startswith("continued"):
        counts = zip(champion.model.schema.class_counts, schema.class_counts, strict=True)
        schema = replace(schema, class_counts=tuple(before + new for before, new in counts))
    used, given = challenger.solver.chosen(challenger.state), CHOSEN_AUTOMATICALLY if automatic else GIVEN
    chosen = named_reasons(used, settings.train.options, given)
    origin = provenance(challenger.data, settings.train.seed) | {"processors": list(processors), "chosen": chosen}
    return Model(schema, predictor, settings.train.model_dump(mode="json"), origin)


def warm_start_for(settings: RetrainSettings, history: ModelHistory) -> Predictor | None:
    """Return the champion's solution, if it solves the same problem as is about to be solved for other shards."""
    champion = history.champion
    if champion is None:
        return None
    before = champion.version.lineage.settings.get("train", {})
    if _decisive(before) != _decisive(plain_train(settings)):
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
    now = plain_train(settings) | {"mode": settings.train.training_mode}
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
    return with_options(settings, taken)


def with_threshold(settings: RetrainSettings, history: ModelHistory) -> RetrainSettings:
    """Return settings with the threshold that the champion was given, unless they have another one."""
    given = None if history.champion is None else history.champion.model.configuration.get("threshold")
    if given is None or settings.train.threshold is not None:
        return settings
    return settings.model_copy(update={"train": settings.train.replaced(threshold=given)})


def with_options(settings: RetrainSettings, taken: Mapping[str, Any]) -> RetrainSettings:
    """Return settings with those of a choice, except for those that are given."""
    train = settings.train
    usual = TrainSettings(data="").model_dump(mode="json")
    given = {name for name, value in train.model_dump(mode="json").items() if value != usual[name]}
    taken = {name: value for name, value in taken.items() if name not in given}
    return settings.model_copy(update={"train": train.replaced(**taken)})


def _decisive(train: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those that a retraining ignores."""
    return {name: value for name, value in train.items() if name not in (*NOT_OF_TRAIN, *OF_CHOICE, *OF_DECISIONS)}


def _plainly(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value  # as JSON has it


def plain_train(settings: RetrainSettings) -> dict[str, Any]:
    """Return the settings of training that decide the bits of a version, and others that are given."""
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
    version, state, elsewhere = model.find(planned), model.state(), ""
    if version is None and state.latest > (champion := state.champion or 0):
        later = [one for one in model.versions() if one.number > champion and _continues(one, planned, model, champion)]
        learned = {shard["sha256"] for one in later for shard in one.lineage.shards}
        shards = {shard["sha256"] for shard in planned.shards}
        version = later[-1] if later and learned.union(rejected) >= shards else None
        only = [str(shard["name"]) for shard in planned.shards if shard["sha256"] not in learned]
        elsewhere = f", or in a rejected challenger ({listed(only)})" if only else ""
    if version is None or version.number == state.champion:
        return None
    return (
        f"No file is new: these shards were trained on before, in {version}, which is no longer the champion"
        f"{elsewhere}. Add a new file, or use {version} again: okl models promote {model.name} {version.number}. "
        "To train without one of these shards: --exclude NAME."
    )


def _continues(later: Version, planned: Lineage, model: RegisteredModel, champion: int) -> bool:
    """Return whether a later version has the settings of a planned one, or a new choice in place of the champion's."""
    if later.lineage.settings == planned.settings:
        return True
    has_choice = CHOICE_OF_VERSION in later.lineage.settings and champion > 0
    return has_choice and model.version(champion).lineage.settings == planned.settings


# The training plan.


@dataclass(frozen=True, eq=False)
class LearningPlan:
    """Plan of a training run.

    settings, history : settings and history; train : settings of training; online : whether the solver is online
    records : new shards of the version; accepted : the waiting shards and those of the champion, in training order
    begin : state to continue from, None for a new start; why : reason of a new start despite a champion
    lineage : lineage of the version; otherwise : changed setting or excluded shard that forces a new start, "" for none
    since : SHA-256 of the shard that a window begins with at the earliest, "" for any
    is_new_choice : whether settings and scaling were chosen again, so that nothing of the champion is continued
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
    since: str = ""
    is_new_choice: bool = False

    @property
    def judged(self) -> Lineage:
        """Return the lineage with the settings that decide about publication: after a change it is judged again."""
        judging = {name: getattr(self.settings, name) for name in JUDGING}
        return replace(self.lineage, settings={**self.lineage.settings, "judging": judging})

    def learn(self, store: ShardStore, execution: Execution, observer: Observer) -> Challenger:
        """Train the challenger; raise DivergedError if it diverges."""
        if self.online:
            result = learn_shards(self.train, store, self.begin, self.records, execution, observer)
            return self._with_reason(result)
        window = self.accepted[-self.settings.window_shards :]
        start = next((at for at, record in enumerate(window) if record.sha256 == self.since), 0)
        window = window[start:]
        warm = None if self.is_new_choice or self.otherwise else warm_start_for(self.settings, self.history)
        return self._with_reason(solve_window(self.train, store, window, self.records, execution, observer, warm))

    def _with_reason(self, trained: Challenger) -> Challenger:
        return replace(trained, how=f"{trained.how}, because {self.otherwise}") if self.otherwise else trained


def choice_entry(champion: Champion | None) -> Mapping[str, Any]:
    """Return the entry of a choice that was made again in the lineage of the champion; {} for none."""
    entry: Mapping[str, Any] = {} if champion is None else champion.version.lineage.settings.get(CHOICE_OF_VERSION, {})
    return entry


def plan_learning(
    settings: RetrainSettings,
    store: ShardStore,
    history: ModelHistory,
    pending: Sequence[ShardRecord],
    choice: Mapping[str, Any] | None = None,
    is_new_choice: bool = False,
) -> LearningPlan:
    """Return the plan for the waiting shards; an online solver without state, or with new settings, starts anew.

    choice : entry of the lineage if solver and settings were chosen again, now (is_new_choice) or for the champion
    """
    train = same_location(settings.train, str(store.location))
    wanted = history.trained_on | {record.sha256 for record in pending}
    accepted = tuple(record for record in history.accepted() if record.sha256 in wanted)
    online = is_online(train, store.dataset((*pending, *accepted)[0]))
    begin, why = history.champion.state() if online and history.champion is not None else (None, "")
    otherwise = "" if begin is None else changed_training_setting(settings, history)
    if begin is not None and is_new_choice:
        otherwise = "solver and settings were chosen again"
    if otherwise := history.exclusion or otherwise:
        begin, why = None, otherwise
    records = accepted if why else tuple(pending)
    entry = choice or {}
    lineage = lineage_of(settings, None if why else history.parent, records, entry)
    since = str(entry.get("first", ""))
    return LearningPlan(
        settings, history, train, online, records, accepted, begin, why, lineage, otherwise, since, is_new_choice
    )
