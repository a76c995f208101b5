"""The story of a path of bounds: plan, search, report; what `okl compare --constraint` does in place of models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from okl.comparison.keptrun import KeptRun
from okl.comparison.price.asked import FREQUENCIES, asked_of, bounds_between, priced_columns
from okl.comparison.price.items import Priced, PriceItem, PriceWork, limits_in_memory
from okl.comparison.price.sample import SideSample
from okl.comparison.price.table import free_value, price_rows
from okl.comparison.price.wording import page_of, text_summary
from okl.comparison.report import Page
from okl.comparison.table import test_name
from okl.features.protocol import FeatureMap
from okl.online.constraints.quantities import columns_of
from okl.online.maps import FourierChoice
from okl.online.solver import SAMPLE_ROWS
from okl.provenance import peak_memory_bytes
from okl.results import describe_data

PRICE_STAGES = ("plan", "search", "report")


@dataclass(eq=False)
class PriceRun(KeptRun):
    """One run: call the stages of PRICE_STAGES in order, then `close`, whatever happened; it removes leftovers."""

    def plan(self) -> dict[str, Any]:
        """Read the sample, draw the map, see whether there are weights within the limits, start workers."""
        settings = self.settings
        self._place.open()
        self.asked = asked_of(settings)
        self.data = priced_columns(settings, self._open_data())
        bandwidth = None if settings.bandwidth == "auto" else settings.bandwidth
        choice = FourierChoice(settings.kernel, bandwidth, settings.frequencies or FREQUENCIES, settings.map)
        few = self._sample(None).all().inputs[:SAMPLE_ROWS]
        feature_map, self.chosen = choice.draw(self.data.schema, few, settings.seed, settings.precision)
        self.sample = self._sample(feature_map)
        features = self.sample.mapped(self.sample.all().inputs)
        first = settings.constraint_path[0] if settings.constraint_path != "auto" else self.asked.bound
        limits = limits_in_memory(self.asked.at(first), self.asked.radius, features, self.sample.columns())
        return {"rows": len(features), "constraints": list(limits.names)} | self.chosen

    def search(self) -> dict[str, Any]:
        """Learn without the constraints of the path, lay the path out, and learn under every bound of it."""
        begun = time.perf_counter()
        path = self.settings.constraint_path
        self._steps = 1 + (self.settings.grid if path == "auto" else len(path))
        free = self._learn([None])
        self.free_value = free_value(self.asked, free[0][1])
        if path == "auto":
            path = bounds_between(self.asked.bound, self.free_value, self.settings.grid)
        self._steps = 1 + len(path)
        test_share = self.sample.test_rows(0) / self.sample.train_rows()
        self.rows = price_rows(self.asked, [*self._learn(path), *free], test_share)
        self._search_seconds = time.perf_counter() - begun
        return {"bounds": list(path), "without": self.free_value}

    def summary(self) -> str:
        """The plain summary for a terminal."""
        return text_summary(self._result)

    def _page(self) -> Page:
        return page_of(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """One flat row a bound."""
        return [
            {name: value for name, value in row.items() if not isinstance(value, (dict, list))}
            | {f"{split}_{name}": value for split in ("train", "test") for name, value in row[split].items()}
            for row in self._result["path"]
        ]

    def _sample(self, feature_map: FeatureMap | None) -> SideSample:
        settings = self.settings
        asked = settings.rows, settings.seed, settings.precision, settings.folds, settings.holdout
        return SideSample(self.data, *asked, feature_map, columns_of(self.asked.constraints))

    def _learn(self, bounds: Sequence[float | None]) -> list[tuple[float | None, list[Priced]]]:
        """What came of all parts under each bound; the outcome depends on no order of finishing."""
        parts, rows = self.sample.n_parts, self.sample.train_rows()
        items = [PriceItem(self.asked, part, bound) for bound in bounds for part in range(parts)]
        total = rows * parts * self._steps
        found: list[Priced] = []
        for priced in self._running().map(PriceWork(self.sample), items):
            found.append(priced)
            done = len(found) + (parts if bounds[0] is not None else 0)
            self.observer.advance(rows * done, total, {"accuracy": priced.trial.accuracy("own")})
        return [(bound, found[parts * step : parts * (step + 1)]) for step, bound in enumerate(bounds)]

    def _collect(self) -> dict[str, Any]:
        settings, schema, sample = self.settings, self.data.schema, self.sample
        return {
            "kind": "constraint path",
            "run": str(self._place.folder),
            "name": settings.name or self._place.folder.name,
            "constraints": [str(one) for one in self.asked.constraints],
            "swept": [str(self.asked.constraints[place].quantity) for place in self.asked.swept],
            "radius": self.asked.radius,
            "without": self.free_value,
            "path": self.rows,
            "majority": max(schema.class_counts) / sum(schema.class_counts),
            "test_name": test_name(sample.n_parts),
            "parts": sample.n_parts,
            "search_rows": len(sample.all().targets),
            "judged_rows": sum(sample.test_rows(number) for number in range(sample.n_parts)),
            "chosen": self.chosen,
            "search_seconds": self._search_seconds,
            "total_seconds": time.perf_counter() - self._begun,
            "peak_memory_bytes": peak_memory_bytes(),
            "workers": self._running().n_workers,
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, self._data_folder()),
        }
