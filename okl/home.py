"""Where okl keeps what nobody gave a place: OKL_HOME, or .okl in the user's home folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from glob import has_magic
from pathlib import Path
from shlex import quote
from typing import Any

from okl.errors import ConfigError

DATED = re.compile(r"-\d{8}-\d{6}-\d+(-\d+)?")  # what a run's name ends with


def okl_home() -> Path:
    """The folder, made if need be, or ConfigError if it cannot be."""
    folder = Path(os.environ.get("OKL_HOME") or Path.home() / ".okl").expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"okl's home folder {folder} cannot be made ({error.strerror}). Set OKL_HOME to a writable folder."
        ) from None
    return folder


def name_after(location: str) -> str:
    """A name for a run on data that nobody named: that of the file or folder, without endings; of a glob its folder's.

    >>> [name_after(place) for place in ("data/churn.csv.gz", "s3://bucket/churn", "churn/part-*.parquet", "*.csv")]
    ['churn', 'churn', 'churn', 'run']
    """
    stems = (part.split(".")[0] for part in reversed(Path(location).parts) if not has_magic(part))
    return next((stem for stem in stems if stem.strip("/")), "run")


def runs_named(name: str) -> list[Path]:
    """Complete runs in okl's home that were given a name, the newest one first; the name is followed by a date."""
    if not name:
        return []
    named = {folder.name.removeprefix(name): folder for folder in _runs() if folder.name.startswith(name)}
    return [named[rest] for rest in sorted(named, reverse=True) if not rest or DATED.fullmatch(rest)]


def close_to(name: str, others: Iterable[str] = ()) -> str:
    """A question that names what looks like a name among the runs in okl's home and others; "" if nothing does.

    Runs are known by their whole names and by those that they were given, without the date.
    """
    runs = [folder.name for folder in _runs()]
    known = dict.fromkeys([*others, *(DATED.sub("", run) for run in runs), *runs])
    close = get_close_matches(name, known, 3) if name else []
    return f"Did you mean {' or '.join(close)}?" if close else ""


def _runs() -> list[Path]:
    runs = Path(os.environ.get("OKL_HOME") or Path.home() / ".okl").expanduser().absolute() / "runs"
    return [folder for folder in runs.iterdir() if folder.name[:1] != "."] if runs.is_dir() else []


def typed_model(result: Mapping[str, Any]) -> str:
    """The model of a run as a command takes it: by the run's name, where that lies in okl's home, otherwise its place.

    result : of the run, whose `run` and `model` are where these are
    """
    folder = Path(result.get("run") or ".")
    return quote(folder.name if folder in runs_named(folder.name) else str(result.get("model")))
