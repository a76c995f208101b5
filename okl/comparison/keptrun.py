"""What every run of `okl compare` is beside its own story: a folder to be, workers, a result and its report."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from okl.comparison.folders import folder_of
from okl.comparison.opening import open_data
from okl.comparison.report import Page, html_page, markdown_page
from okl.comparison.settings import CompareSettings
from okl.execution import open_for
from okl.execution.opened import Opened
from okl.progress import NullObserver, Observer
from okl.store.dataset import Dataset
from okl.store.manifest import is_dataset
from okl.store.places import Place, place_of
from okl.store.publishing import run_place


@dataclass(eq=False)
class KeptRun(ABC):
    """One run: call its stages in order, the last is `report`; then `close`, whatever happened, removes leftovers."""

    settings: CompareSettings
    observer: Observer = field(default_factory=NullObserver)

    def __post_init__(self) -> None:
        self._place = run_place(folder_of(self.settings))
        self._begun = time.perf_counter()
        self._running = Opened(lambda: open_for(self.settings))
        self._result: dict[str, Any] = {}

    @abstractmethod
    def summary(self) -> str:
        """The plain summary for a terminal."""

    @abstractmethod
    def _page(self) -> Page:
        """What the report says."""

    @abstractmethod
    def _collect(self) -> dict[str, Any]:
        """The result, from what the stages have found."""

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and give the run's folder its name: from here on it is complete."""
        self._result = self._collect()
        beside = self._place.beside
        (beside / "report.html").write_text(html_page(self._page()), encoding="utf-8")
        (beside / "result.json").write_text(json.dumps(self._result, indent=1, allow_nan=False))
        self._place.complete()
        return {"run": str(self._place.folder)}

    def close(self) -> None:
        """Free workers, and remove everything of a run that did not complete."""
        try:
            self._running.close()
        finally:
            self._place.close()

    def result(self) -> dict[str, Any]:
        """The object that `okl compare --json` prints."""
        return self._result

    def report_markdown(self) -> str:
        """The report with its pictures inline."""
        return markdown_page(self._page())

    def _open_data(self) -> Dataset:
        """The data set, or one made of the source in the run's folder."""

        def progress(done: int, total: int | None) -> None:
            self.observer.advance(done, total or 0, {})

        return open_data(self.settings, self._place.beside / "data", progress, self._running())

    def _data_folder(self) -> Place:
        """Where the data are to be found once the run is complete."""
        data = self.settings.data
        return place_of(data).absolute() if is_dataset(data) else self._place.folder / "data"
