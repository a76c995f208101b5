"""The stages of a reproduction run."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from okl.data.manifest import processor
from okl.distributed import open_execution
from okl.distributed.opening import RunExecution
from okl.foundation.errors import ConfigError
from okl.foundation.locations import okl_home
from okl.foundation.telemetry import NullObserver, Observer, perform
from okl.papers.base import (
    Archive,
    DataFolder,
    ItemWork,
    KnownOutcomes,
    Outcome,
    PaperTable,
    Stop,
    TableRequest,
    WorkItem,
    code_digest,
)
from okl.papers.catalogue import table_named
from okl.papers.report import markdown_report, text_summary, write_results
from okl.papers.settings import ReproduceSettings

# The folder, which grows item by item.

MARK = "reproduction.json"
ITEMS = "items"


def new_folder(table: str) -> Path:
    """A place in okl's home folder that no run has taken."""
    return okl_home() / "runs" / f"{table}-{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"


def check_place(folder: Path, table: str) -> None:
    """Raise ConfigError unless the folder is not there yet, or holds a reproduction of the same table."""
    if not os.path.lexists(folder):
        nearest = next(parent for parent in folder.absolute().parents if parent.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise ConfigError(f"{folder} cannot be made: {nearest} is no folder to write in. Choose another --out.")
        return
    try:
        found = json.loads((folder / MARK).read_text(encoding="utf-8"))["table"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder} exists already, and holds no reproduction. Choose another --out.") from None
    if found != table:
        raise ConfigError(f"{folder} holds a reproduction of {found}, not of {table}. Choose another --out.")


class ReproductionFolder:
    """The folder: `open` it, work, then `close` it; what is done stays, and a folder without anything goes.

    Parameters
    ----------
    folder : new, or of an earlier run of the same table
    table : its name
    """

    def __init__(self, folder: Path, table: str) -> None:
        self.folder = folder.absolute()
        self.table = table
        self._lock: int | None = None
        self._made: list[Path] = []

    @property
    def items(self) -> Path:
        """Folder of the outcomes."""
        return self.folder / ITEMS

    def open(self) -> None:
        """Make the folder if need be and lock it for this process, or raise ConfigError if another one works in it."""
        check_place(self.folder, self.table)
        self._made = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self.items.mkdir(parents=True, exist_ok=True)
            mark = self.folder / MARK
            if not mark.exists():
                mark.write_text(json.dumps({"table": self.table}), encoding="utf-8")
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(f"{self.folder} cannot be written to ({error.strerror}). Choose another --out.") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._made = []
            raise ConfigError(
                f"{self.folder}: another run works there now. Wait for it, or use another --out."
            ) from None
        except OSError:  # a file system without locks
            return
        for left in self.items.glob(".*.partial"):  # by a run that was killed
            left.unlink(missing_ok=True)

    def close(self) -> None:
        """Unlock the folder; remove it, and parents made for it, if no item was done. A second call does nothing."""
        if self._made and not any(self.items.glob("*.json")):
            shutil.rmtree(self.folder, ignore_errors=True)
            for parent in self._made[1:]:
                with suppress(OSError):
                    parent.rmdir()
        self._made = []
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


# The stages.

REPRODUCE_STAGES = ("plan", "choose", "learn", "report")


def reproduce(settings: ReproduceSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Reproduce a table or a study in this process (and on Dask if the settings say so), without Prefect.

    Returns
    -------
    what `okl reproduce --json` prints: table, run, cells, beside, settings, ...

    Raises
    ------
    OklError : one sentence that says what is wrong; items that are done stay in the run's folder
    """
    check(settings)
    return perform(ReproductionRun(settings, observer or NullObserver()), REPRODUCE_STAGES)


def check(settings: ReproduceSettings) -> None:
    """Raise ConfigError for all that can be known to be wrong before anything is started."""
    request = request_of(settings, table_named(settings.table))
    if not draws_its_own(table_named(settings.table)):
        request.data.check()
    if settings.out is not None:
        check_place(Path(settings.out), settings.table)


def request_of(settings: ReproduceSettings, table: PaperTable) -> TableRequest:
    """Return the request that the settings mean, names in the table's order, or raise ConfigError that lists the
    names.
    """
    return TableRequest(
        DataFolder(settings.data),
        _named("datasets", _printed(settings.datasets, table), table.datasets, table.name),
        _named("algorithms", settings.algorithms, table.algorithms, table.name),
        settings.repeats or table.repeats,
        settings.orders,
        settings.choice == "searched",
        settings.precision,
    )


def files_of(table: PaperTable) -> Mapping[str, str]:
    """NAME of NAME.parquet of the data sets that a table prints by another name."""
    files: Mapping[str, str] = getattr(table, "files", {})
    return files


def draws_its_own(table: PaperTable) -> bool:
    """Return whether a table generates its data instead of reading them."""
    return bool(getattr(table, "generated", False))


def _printed(asked: Sequence[str], table: PaperTable) -> list[str]:
    """Names of data sets as the table prints them; those of their files are taken, too."""
    printed = {file: name for name, file in files_of(table).items()}
    return [printed.get(name, name) for name in asked]


def _named(what: str, asked: Sequence[str], there: Sequence[str], table: str) -> tuple[str, ...]:
    if unknown := [name for name in asked if name not in there]:
        raise ConfigError(f"--{what} {', '.join(unknown)}: {table} has {', '.join(there)}. Name some of these.")
    return tuple(name for name in there if not asked or name in asked)


@dataclass(eq=False)
class ReproductionRun:
    """One run: call the stages of REPRODUCE_STAGES in order, then `close`, whatever happened."""

    settings: ReproduceSettings
    observer: Observer = field(default_factory=NullObserver)

    def __post_init__(self) -> None:
        self.table = table_named(self.settings.table)
        self.request = request_of(self.settings, self.table)
        folder = new_folder(self.table.name) if self.settings.out is None else Path(self.settings.out)
        self._place = ReproductionFolder(folder, self.table.name)
        self._stop = Stop()
        self._outcomes: dict[str, Outcome] = {}
        self._running = RunExecution(lambda: open_execution(self.settings.workers, None, self.settings.threads))
        self._begun = time.perf_counter()
        self._found_items = 0

    @property
    def known(self) -> KnownOutcomes:
        """All outcomes so far."""
        return KnownOutcomes(self._outcomes)

    def plan(self) -> dict[str, Any]:
        """Take the folder, and start workers."""
        self._place.open()
        data = self.request.data
        self._archive = Archive(str(self._place.items), data, code_digest(self.table.code))
        self._running()
        files = files_of(self.table)
        there = draws_its_own(self.table)
        missing = [name for name in self.request.datasets if not (there or data.has(files.get(name, name)))]
        return {"run": str(self._place.folder), "data_sets_not_there": missing}

    def choose(self) -> dict[str, Any]:
        """Try the candidates of what has several."""
        return self._do(self.table.trials(self.request))

    def learn(self) -> dict[str, Any]:
        """Work on everything that is reported."""
        return self._do(self.table.items(self.request, self.known))

    def report(self) -> dict[str, Any]:
        """Compare, and write the results into the folder."""
        self._result = self._collect()
        self._curves = self.table.curves(self.request, self.known)
        self._pictures = self.table.pictures(self._curves)
        write_results(self._result, self._curves, self._pictures, self._outcomes, self._place.folder)
        return {"cells": len(self._result["cells"])}

    def close(self) -> None:
        """Stop what still runs, free workers and the folder; what is done stays."""
        self._stop.ask()
        try:
            self._running.close()
        finally:
            self._place.close()

    def result(self) -> dict[str, Any]:
        """The object that `okl reproduce --json` prints."""
        return self._result

    def report_markdown(self) -> str:
        """The report with its pictures inline."""
        return markdown_report(self._result, self._pictures)

    def summary(self) -> str:
        """The plain summary for a terminal."""
        return text_summary(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """One flat row a cell."""
        return [
            {name: json.dumps(value) if isinstance(value, dict) else value for name, value in cell.items()}
            for cell in self._result["cells"]
        ]

    def _do(self, items: Sequence[WorkItem]) -> dict[str, Any]:
        """Work on items, the longest first, but for those that an earlier run has done."""
        todo: list[WorkItem] = []
        done = 0
        for item in items:
            outcome = self._archive.read(item)
            if outcome is None:
                todo.append(item)
            else:
                self._outcomes[item.name] = outcome
                done += item.rows
        self._found_items += len(items) - len(todo)
        total = sum(item.rows for item in items)
        todo.sort(key=lambda item: -item.cost)
        self.observer.advance(done, total, {})
        for item, outcome in zip(todo, self._running().map(ItemWork(self._archive, self._stop), todo), strict=True):
            self._outcomes[item.name] = outcome
            done += item.rows
            self.observer.advance(done, total, {"items": len(self._outcomes)})
        return {"items": len(items), "done_before": len(items) - len(todo)}

    def _collect(self) -> dict[str, Any]:
        cells = self.table.cells(self.request, self.known)
        verdicts = [cell.verdict for cell in cells if cell.verdict]
        return {
            "table": self.table.name,
            "title": self.table.title,
            "run": str(self._place.folder),
            "rule": self.table.rule,
            "remarks": list(self.table.remarks),
            "matches": sum(verdict != "worse" for verdict in verdicts),
            "compared": len(verdicts),
            "cells": [cell.as_json() for cell in cells],
            "beside": self.table.beside(self.request, self.known),
            "total_seconds": time.perf_counter() - self._begun,
            "items": len(self._outcomes),
            "items_done_before": self._found_items,
            "workers": self.settings.workers,
            "processor": processor(),
            "settings": self.settings.model_dump(mode="json"),
        }
