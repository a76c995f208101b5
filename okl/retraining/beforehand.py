"""What must fail at night is told at once: where files arrive is there, and those there can be read as was asked."""

from __future__ import annotations

from collections.abc import Sequence

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.registry.entry import CHAMPION
from okl.registry.model import RegisteredModel
from okl.registry.registry import Registry
from okl.retraining.beginning import first_reference
from okl.retraining.begun import check_begun
from okl.retraining.contract import contract_digest, learnable
from okl.retraining.landing import Arrival, arrivals
from okl.retraining.sensitive import first_ingest
from okl.retraining.settings import RetrainSettings
from okl.retraining.shardstore import ShardStore, find_quarantined
from okl.store.dataset import Schema
from okl.store.ingest import check_source

MOST_LOOKED = 20  # as many as a first run reads to settle inputs and labels


def check_arrivals(settings: RetrainSettings) -> None:
    """Look where files arrive, and at the columns of the first that fits; no file is fine, and no row is read.

    A file that does not fit is quarantined by a run, so that one is enough that does.

    Raises
    ------
    ConfigError : a folder of this machine that is not there, settings that exclude each other, or that the model
        was begun without
    DataError : a store that does not answer; files, none of which can be read as the settings say, or as those before;
        a shard to release that is not quarantined, or cannot be learnt
    """
    found, _ = arrivals(settings.source)
    model = Registry(settings.registry).model(settings.name)
    _check_released(settings, model)
    reference = _reference(model)
    if reference is not None:
        check_begun(settings, reference, (arrival.place for arrival in found[:MOST_LOOKED]))
    ingesting = first_ingest(settings)
    refused: DataError | None = None
    for arrival in found[:MOST_LOOKED]:
        try:
            check_source(arrival.place, ingesting, reference)
        except DataError as error:
            refused = refused or error
        else:
            return
    if refused is not None:
        first = f"the first {MOST_LOOKED} of " if len(found) > MOST_LOOKED else ""
        others = f" None of {first}the {len(found):,} files there can be learnt." if len(found) > 1 else ""
        raise DataError(f"{refused}{others}{_misspelt(model, settings) if reference is None else ''}")


def begun_by(model: RegisteredModel, settings: RetrainSettings, new: Sequence[tuple[Arrival, str]]) -> Schema:
    """The schema that a model is begun with by the first files; see `first_reference`.

    Raises
    ------
    DataError : no file can be read as the settings say; with the models that there are, if the name is like theirs
    """
    try:
        return first_reference(new, first_ingest(settings))
    except DataError as error:
        raise DataError(f"{error}{_misspelt(model, settings)}") from None


def _misspelt(model: RegisteredModel, settings: RetrainSettings) -> str:
    """What to add where files do not fit a model that is to be begun: perhaps another one was meant."""
    told_how = settings.ingest.target != IngestSettings.model_fields["target"].default
    if told_how or model.state().latest or not (close := model.close_names()):
        return ""
    return (
        f" No model {model.name!r} is registered (there is: {close}); if a new one is meant, name its --target COLUMN."
    )


def _check_released(settings: RetrainSettings, model: RegisteredModel) -> None:
    """Refuse to release what is not quarantined, or what a run would find again that it cannot be learnt."""
    records = ShardStore(model.folder / "data").records() if settings.release else {}
    for key in settings.release:
        record = find_quarantined(records, key)
        same_limits = record.contract == contract_digest(settings.contract, settings.time_column)
        if same_limits and record.status == "quarantined" and not learnable(record.findings):
            raise DataError(
                f"release = {key!r} would have no effect: such rows cannot be learnt. {record.reason} Leave it out of "
                "release, mend the file and put it in again."
            )


def _reference(model: RegisteredModel) -> Schema | None:
    """What a run will hold files to: the columns of the shards before, or of the champion; None where there is none."""
    head = model.head()
    known = ShardStore(model.folder / "data").reference()
    if known is not None or head.state.champion is None:
        return known
    return model.resolved(CHAMPION, head).load().schema
