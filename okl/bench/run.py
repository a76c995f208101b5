"""The story of a benchmark: sweep, duels, page; what has been measured is not measured again unless asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from okl.bench.duels import duel, has_duelled
from okl.bench.page import write_page
from okl.bench.roster import entrants_on, roster, systems
from okl.bench.rows import Measurement, read
from okl.bench.sets import SETS, sets_there
from okl.bench.settings import BenchSettings
from okl.bench.sweep import Sweep
from okl.bench.verdicts import Verdict, candidates, swept, verdict
from okl.bench.wording import measurement_line
from okl.checks import check_choice
from okl.errors import ConfigError
from okl.home import okl_home

Say = Callable[[str], None]
RECORDS, PAGE = "measurements", "bench.html"


def bench(settings: BenchSettings, say: Say) -> dict[str, Any]:
    """Measure what the settings ask for, and write the page.

    Parameters
    ----------
    say : is told each measurement in a line

    Returns
    -------
    what `okl bench --json` prints: page, measurements, verdicts

    Raises
    ------
    ConfigError, DataError : a name that is none, a folder without data
    """
    out = Path(settings.out) if settings.out else okl_home() / "bench"
    records = out / RECORDS
    if settings.stage in ("all", "sweep"):
        _sweep(settings, records, say)
    if settings.stage in ("all", "duels"):
        _duels(settings, records, say)
    measurements = known(records)
    if not measurements:
        raise ConfigError(f"{out} holds no measurements. Run okl bench --stage sweep --out {out} first.")
    found = [one for name in SETS if (one := verdict(measurements, name)) is not None]
    page = write_page(out / PAGE, measurements, found)
    return {"page": str(page), "measurements": len(measurements), "verdicts": [_flat(one) for one in found]}


def known(records: Path) -> list[Measurement]:
    """What has been measured of entrants that there still are."""
    there = {(name, entrant.system, entrant.name) for name in SETS for entrant in roster() if entrant.takes(SETS[name])}
    subjects = ((one, one.subject) for one in read(records))
    return [one for one, about in subjects if (about.set, about.system, about.entrant) in there]


def _sweep(settings: BenchSettings, records: Path, say: Say) -> None:
    wanted = settings.systems or systems()
    for name in wanted:
        check_choice("systems", name, systems())
    folder = _data(settings)
    for name in sets_there(settings.sets, folder):
        before = () if settings.again else known(records)
        sweep = Sweep(SETS[name], folder, settings.limit_seconds, before, records, _teller(say))
        for system in wanted:
            sweep.run(one for one in entrants_on(SETS[name], (system,)) if _installed(one.package))


def _duels(settings: BenchSettings, records: Path, say: Say) -> None:
    folder = _data(settings)
    for name in sets_there(settings.sets, folder):
        measurements = known(records)
        found = [one for one in candidates(swept(measurements, name)) if _installed_system(one.subject.system)]
        if settings.again or not has_duelled(found, measurements, settings.turns):
            duel(found, folder, settings.limit_seconds, settings.turns, records, _teller(say))


def _data(settings: BenchSettings) -> str:
    folder = settings.data or os.environ.get("OKL_DATA", "")
    if not folder:
        raise ConfigError("--data is missing. Give the folder that holds NAME.parquet, or set OKL_DATA.")
    if not Path(folder).is_dir():
        raise ConfigError(f"--data {folder} is not a folder. Give the one that holds NAME.parquet.")
    return str(Path(folder).absolute())


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return package == "okl"  # a checkout that is run as it is
    return True


def _installed_system(system: str) -> bool:
    return any(_installed(entrant.package) for entrant in roster() if entrant.system == system)


def _teller(say: Say) -> Callable[[Measurement], None]:
    return lambda one: say(measurement_line(one))


def _flat(one: Verdict) -> dict[str, Any]:
    return asdict(one) | {"ratio": one.ratio}
