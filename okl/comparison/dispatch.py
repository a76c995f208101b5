"""Which comparison the settings mean: of models, or of bounds of a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.comparison import wording
from okl.comparison.entrants import entrants
from okl.comparison.folders import folder_of
from okl.comparison.opening import check_data
from okl.comparison.price import wording as price_wording
from okl.comparison.price.asked import asked_of, refuse_options_of_paths
from okl.comparison.price.run import PRICE_STAGES, PriceRun
from okl.comparison.run import COMPARE_STAGES, ComparisonRun
from okl.comparison.settings import CompareSettings
from okl.planning import check_workers
from okl.progress import NullObserver, Observer, perform
from okl.store.publishing import check_place


def compare(settings: CompareSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Compare in this process (and on Dask if the settings say so), without Prefect.

    Returns
    -------
    what `okl compare --json` prints: of models models (the table), winner, certificate, test, model (its folder), run,
    ...; with a constraint path (a row a bound), run, ...

    Raises
    ------
    OklError : one sentence that says what is wrong; nothing half-written stays
    """
    check(settings)
    return perform(open_run(settings, observer or NullObserver()), stages_of(settings))


def check(settings: CompareSettings) -> None:
    """Refuse what can be known to be wrong without reading rows, starting a server or starting workers."""
    check_workers(settings)
    if settings.constraints:
        asked_of(settings)
    else:
        refuse_options_of_paths(settings)
        entrants(settings)
    check_data(settings)
    check_place(folder_of(settings))


def open_run(settings: CompareSettings, observer: Observer) -> ComparisonRun | PriceRun:
    """The run that is meant; nothing has begun."""
    return PriceRun(settings, observer) if settings.constraints else ComparisonRun(settings, observer)


def stages_of(settings: CompareSettings) -> tuple[str, ...]:
    """Names of its stages, in order."""
    return PRICE_STAGES if settings.constraints else COMPARE_STAGES


def text_summary(result: Mapping[str, Any]) -> str:
    """Aligned lines for a terminal."""
    if result.get("kind") == "constraint path":
        return price_wording.text_summary(result)
    return wording.text_summary(result)
