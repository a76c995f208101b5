"""Runs of a reproduction: the tables by name, the folder of a run, and its stages."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from okl.data.execution import Execution
from okl.data.manifest import processor
from okl.distributed import open_execution
from okl.foundation.errors import ConfigError
from okl.foundation.folders import lock_folder
from okl.foundation.telemetry import NullObserver, Observer, run_logger
from okl.foundation.validation import check_choice
from okl.papers import base
from okl.papers.report import flat, paper_page, write_results
from okl.papers.settings import ReproduceSettings
from okl.report.format import counted
from okl.report.render import markdown
from okl.runs.run import Run, new_run_folder

_LOG = run_logger()

# Tables by name.

MODULES = {
    "lu2016": "okl.papers.lu2016.tables",
    "ito2017": "okl.papers.ito2017.tables",
    "zhang2024": "okl.papers.zhang2024.tables",
    "yi2021": "okl.papers.yi2021",
}
CATALOGUE = (
    *(f"lu2016-{part}" for part in ("table3", "table5", "table7", "table9", "figure3", "figure4")),
    *(f"ito2017-table{number}" for number in range(2, 12)),
    *(f"ito2017-figure{number}" for number in range(5, 13)),
    *(f"zhang2024-{part}" for part in ("table1", "figure1", "figure2", "growth")),
    *("yi2021-table1", "yi2021-olp", "yi2021-oqp"),
)


def table_named(name: str) -> base.PaperTable:
    """Return the table of this name, or raise ConfigError that lists all names."""
    check_choice("table", name, CATALOGUE)
    tables: tuple[base.PaperTable, ...] = import_module(MODULES[name.partition("-")[0]]).TABLES
    return next(table for table in tables if table.name == name)


# The folder of a run, which grows item by item.

MARKER = "reproduction.json"
ITEMS = "items"


def check_folder(folder: Path, table: str) -> None:
    """Raise ConfigError unless the folder can be created, or holds a reproduction of the same table."""
    if not os.path.lexists(folder):
        nearest = next(parent for parent in folder.absolute().parents if parent.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            raise ConfigError(f"{folder} cannot be created: {nearest} is not a writable folder. Choose another --out.")
        return
    try:
        existing = json.loads((folder / MARKER).read_text(encoding="utf-8"))["table"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder} exists already and holds no reproduction. Choose another --out.") from None
    if existing != table:
        raise ConfigError(f"{folder} holds a reproduction of {existing}, not of {table}. Choose another --out.")


@contextmanager
def locked_folder(folder: Path, table: str) -> Iterator[Path]:
    """Create the folder of a run, lock it for this process, and yield the folder of its items; or raise ConfigError.

    Finished items stay; a new folder without any is removed at the end, with the parents created for it.
    """
    check_folder(folder, table)
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    items, lock = folder / ITEMS, None
    try:
        try:
            items.mkdir(parents=True, exist_ok=True)
            marker = folder / MARKER
            if not marker.exists():
                marker.write_text(json.dumps({"table": table}), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{folder} cannot be written to ({error.strerror}). Choose another --out.") from None
        try:
            lock = lock_folder(folder)
            for partial in items.glob(".*.tmp"):  # of a run that was killed
                partial.unlink(missing_ok=True)
        except BlockingIOError:
            created = []
            raise ConfigError(f"{folder} is in use by another run. Wait for it, or use another --out.") from None
        except OSError:  # a file system without locks
            pass
        yield items
    finally:
        if created and not any(items.glob("*.json")):
            shutil.rmtree(folder, ignore_errors=True)
            for parent in created[1:]:
                with suppress(OSError):
                    parent.rmdir()
        if lock is not None:
            os.close(lock)


# The stages of a run.

REPRODUCE_STAGES = ("plan", "choose", "learn", "report")


def reproduce(settings: ReproduceSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Reproduce a table or study in this process or on Dask: the output of `okl reproduce --json`; or OklError."""
    return ReproductionRun(settings, observer or NullObserver()).perform()


def check(settings: ReproduceSettings) -> None:
    """Raise ConfigError for invalid settings before anything is started."""
    if table_named(settings.table).reads_data:
        base.DataFolder(settings.data).check()
    table = table_of(settings)
    request = request_of(settings, table)
    if settings.out is not None:
        check_folder(Path(settings.out), settings.table)
    missing = table.missing(request)
    if len(missing) == len(request.datasets):
        reason, others = next(iter(missing.values())), len(missing) - 1
        more = f", like {counted(others, 'other set')} of {table.name}" if others else ""
        raise ConfigError(f"{reason}{more}: nothing to run. How to get the sets, or run your own: how-to/reproduce.")


def table_of(settings: ReproduceSettings) -> base.PaperTable:
    """Return the table, with the requested data sets that are not in the paper, or raise OklError if it has no such."""
    table = table_named(settings.table)
    known = {name.casefold() for name in (*table.datasets, *table.files.values())}
    own = [name for name in dict.fromkeys(settings.datasets) if name.casefold() not in known]
    folder = base.DataFolder(settings.data)
    return table.experiment.extended(table, own, folder, settings.precision) if own and settings.data else table


def request_of(settings: ReproduceSettings, table: base.PaperTable) -> base.Request:
    """Return the request of the settings with names in the table's order, or raise ConfigError that lists the names."""
    printed = {file.casefold(): name for name, file in table.files.items()}  # sets may be given by their files, too
    datasets = [name if name in table.datasets else printed.get(name.casefold(), name) for name in settings.datasets]
    return base.Request(
        base.DataFolder(settings.data),
        _check_names("datasets", datasets, table.datasets, table.name),
        _check_names("algorithms", settings.algorithms, table.algorithms, table.name),
        settings.repeats or table.repeats,
        settings.orders,
        settings.choice == "searched",
        settings.precision,
    )


def _check_names(option: str, names: Sequence[str], valid: Sequence[str], table: str) -> tuple[str, ...]:
    folded = {name.casefold(): name for name in valid}
    names = [name if name in valid else folded.get(name.casefold(), name) for name in names]
    if unknown := [name for name in names if name not in valid]:
        raise ConfigError(f"--{option} {', '.join(unknown)}: {table} has {', '.join(valid)}. Choose among these.")
    return tuple(name for name in valid if not names or name in names)


@dataclass(eq=False)
class ReproductionRun(Run[ReproduceSettings]):
    """Reproduction of a table. Finished items stay in the folder of the run."""

    STAGES = REPRODUCE_STAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        self.table = table_of(self.settings)
        self.request = request_of(self.settings, self.table)
        folder = new_run_folder(self.settings.out, self.table.name)
        assert isinstance(folder, Path), "options refuse a URL"
        self._folder = folder
        self._stop = base.Stop()
        self._resumed_items = 0

    @property
    def name(self) -> str:
        return self._folder.name

    def check_settings(self) -> None:
        check(self.settings)

    def open_execution(self) -> Execution:
        return open_execution(self.settings.workers, None, self.settings.threads, run=self.name)

    def plan(self) -> dict[str, Any]:
        """Open the folder and start workers."""
        items, data = self._resources.enter_context(locked_folder(self._folder, self.table.name)), self.request.data
        self._archive = base.Archive(str(items), data, base.code_digest(self.table.code), self._stop)
        self.execution  # noqa: B018  (workers start now)
        if missing := self.table.missing(self.request):
            _LOG.warning("Without data, left out: %s.", "; ".join(missing.values()))
        return {"run": str(self._folder), "missing_datasets": [*missing]}

    def choose(self) -> dict[str, Any]:
        """Try the candidates of every setting that has several."""
        return self._compute(self.table.trials(self.request))

    def learn(self) -> dict[str, Any]:
        return self._compute(self.table.items(self.request))

    def report(self) -> dict[str, Any]:
        self._result = self._collect()
        curves = self.table.curves(self.request)
        self._figures = self.table.figures(curves)
        write_results(self._result, curves, self._figures, self.request.outcomes, self._folder)
        return {"cells": len(self._result["cells"])}

    def close(self) -> None:
        """Stop running items, free workers and the folder; finished items stay."""
        self._stop.set()
        super().close()

    def report_markdown(self) -> str:
        return markdown(paper_page(self._result, self._figures))

    def metrics_table(self) -> list[dict[str, Any]]:
        return [flat(cell) for cell in self._result["cells"]]

    def _compute(self, items: Sequence[base.WorkItem]) -> dict[str, Any]:
        """Compute items, the longest first, except for those that an earlier run has finished."""
        outcomes = self.request.outcomes
        archived = {item.name: self._archive.read(item) for item in items}
        outcomes |= {name: outcome for name, outcome in archived.items() if outcome is not None}
        open_items = sorted((item for item in items if archived[item.name] is None), key=lambda item: -item.cost)
        resumed = len(items) - len(open_items)
        self._resumed_items += resumed
        total = sum(item.rows for item in items)
        done = total - sum(item.rows for item in open_items)
        self.observer.advance(done, total, {})
        for item, outcome in zip(open_items, self.execution.map(self._archive.compute, open_items), strict=True):
            outcomes[item.name] = outcome
            done += item.rows
            self.observer.advance(done, total, {"items": len(outcomes)})
        return {"items": len(items), "done_before": resumed}

    def _collect(self) -> dict[str, Any]:
        cells = self.table.cells(self.request)
        return {
            "table": self.table.name,
            "title": self.table.title,
            "run": str(self._folder),
            "reads_data": self.table.reads_data,
            "table_repeats": self.table.repeats,
            "rule": self.table.rule,
            "remarks": list(self.table.remarks),
            "frozen": base.frozen_digest(),
            "counts": {"all": base.counts_of(cells), "blind": base.counts_of([cell for cell in cells if cell.blind])},
            "cells": [asdict(cell) for cell in cells],
            "datasets": self.table.dataset_rows(self.request),
            "total_seconds": time.perf_counter() - self.timeline.begun,
            "items": len(self.request.outcomes),
            "items_done_before": self._resumed_items,
            "workers": self.settings.workers,
            "processor": processor(),
            "settings": self.settings.model_dump(mode="json"),
        }
