"""What must fail at night is told at once: where files arrive is there, and those there can be read as was asked."""

from __future__ import annotations

from okl.errors import DataError
from okl.registry.entry import CHAMPION
from okl.registry.model import RegisteredModel
from okl.registry.registry import Registry
from okl.retraining.begun import check_begun
from okl.retraining.landing import arrivals
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
        a shard to release that is not quarantined
    """
    found, _ = arrivals(settings.source)
    model = Registry(settings.registry).model(settings.name)
    records = ShardStore(model.folder / "data").records() if settings.release else {}
    for key in settings.release:
        find_quarantined(records, key)
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
        raise DataError(f"{refused}{others}")


def _reference(model: RegisteredModel) -> Schema | None:
    """What a run will hold files to: the columns of the shards before, or of the champion; None where there is none."""
    head = model.head()
    known = ShardStore(model.folder / "data").reference()
    if known is not None or head.state.champion is None:
        return known
    return model.resolved(CHAMPION, head).load().schema
