"""The data of a comparison: a data set, or a source that is ingested into the run's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from okl.comparison.entrants import check_entrants, check_parts
from okl.comparison.price.asked import check_price
from okl.comparison.settings import CompareSettings
from okl.configuration import IngestSettings
from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.store.dataset import Dataset
from okl.store.ingest import check_source, ingest
from okl.store.manifest import is_dataset, open_dataset
from okl.store.places import place_of


def check_data(settings: CompareSettings) -> None:
    """Refuse what can be known to be wrong before a row is read.

    Of a source that is less than of a data set; `open_data` looks at the rest once it is ingested.

    Raises
    ------
    DataError : no such data, or no such columns; ConfigError : settings that do not suit them
    """
    if not is_dataset(settings.data):
        check_source(settings.data, settings.ingest or IngestSettings())
        return
    if settings.ingest is not None:
        raise ConfigError(f"{settings.data} is a data set already; options of ingest do not apply to it.")
    _check_suited(settings, open_dataset(settings.data))


def open_data(
    settings: CompareSettings, here: Path, progress: Callable[[int, int | None], None], execution: Execution
) -> Dataset:
    """Open the data set, or make one of the source, on the workers if there are any.

    here : folder to be, of a data set that is made; raises as `check_data` and `ingest` do
    """
    if is_dataset(settings.data):
        return open_dataset(settings.data)
    asked = settings.ingest or IngestSettings()
    made = ingest(settings.data, here, asked, progress=progress, execution=execution).dataset
    _check_suited(settings, replace(made, folder=place_of(settings.data)))  # errors name what was given
    return made


def _check_suited(settings: CompareSettings, data: Dataset) -> None:
    if settings.constraints:
        check_price(settings, data)
        check_parts(settings, data)
    else:
        check_entrants(settings, data)
