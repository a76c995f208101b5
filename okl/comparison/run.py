"""The story of a comparison: plan, search, learn the winner again, evaluate it, save it, report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from okl.comparison.entrants import entrants, is_certified, map_choice
from okl.comparison.grids import Grid, make_grid
from okl.comparison.keptrun import KeptRun
from okl.comparison.report import Page, page_of
from okl.comparison.sample import Sample
from okl.comparison.search import Entrant, Search
from okl.comparison.table import table_of, test_name, winner_of
from okl.comparison.trials import signs_of_classes
from okl.comparison.winner import Winner, fit_winner
from okl.comparison.wording import text_summary
from okl.errors import DivergedError
from okl.evaluation import ConstantPredictor, predictor_tallies
from okl.features.protocol import FeatureMap
from okl.online.solver import SAMPLE_ROWS
from okl.provenance import peak_memory_bytes, provenance
from okl.results import describe_data
from okl.store.model import Model, save_model
from okl.store.wording import scalars

COMPARE_STAGES = ("plan", "search", "refit", "evaluate", "save", "report")


@dataclass(eq=False)
class ComparisonRun(KeptRun):
    """One run: call the stages of COMPARE_STAGES in order, then `close`, whatever happened; it removes leftovers."""

    def plan(self) -> dict[str, Any]:
        """Read the sample, draw the map, lay out the grids, start workers."""
        settings = self.settings
        self._place.open()
        self.data = self._open_data()
        self.names = entrants(settings)
        n_classes = max(2, len(self.data.schema.labels))
        sample = self._sample(None)
        self.feature_map, self.chosen = self._draw_map(sample)
        self.sample = self._sample(self.feature_map)
        rows = self.sample.all()
        features, signs = self.sample.mapped(rows.inputs), signs_of_classes(rows.targets, n_classes)
        grids = {name: make_grid(name, features, signs, settings.grid) for name in self.names if is_certified(name)}
        self._search = Search(settings, self.sample, self.names, grids, n_classes)
        return {"rows": len(rows.targets), "rungs": list(self._search.steps()), "models": list(self.names)}

    def search(self) -> dict[str, Any]:
        """Try all values of all models."""
        begun = time.perf_counter()
        self.found = self._search.run(self._running(), self.observer.advance)
        self._search_seconds = time.perf_counter() - begun
        best = winner_of(self.found)
        if best is None:
            raise DivergedError(f"Every model failed; the first one: {self.found[0].failure}")
        self.best: Entrant = best
        self.table = table_of(self.found, self._test_share())
        return {"winner": best.name, "mean": self.table[0]["mean"]}

    def refit(self) -> dict[str, Any]:
        """Learn the winner again."""
        place, bias = self.best.choice()
        grid: Grid = self.best.grid
        self.winner: Winner = fit_winner(
            self.settings,
            self.data,
            self.best.name,
            grid,
            grid.places[place],
            bias,
            self.feature_map,
            self._running(),
            self.observer.advance,
        )
        return {"rows": self.winner.rows, "certificate": self.winner.certificate}

    def evaluate(self) -> dict[str, Any]:
        """Measure the winner and the majority class on both splits."""
        predictors = {"winner": self.winner.predictor, "majority": ConstantPredictor(self.data.schema)}
        self.metrics: dict[str, dict[str, Any]] = {}
        for split in ("train", "test"):
            shards = self.data.split("train") if split == "train" else self.data.split("test")
            if shards:
                precision = self.settings.precision
                tallies = predictor_tallies(self.data, shards, predictors, precision, self._running())
                self.metrics[split] = {name: scalars(tally.report()) for name, tally in tallies.items()}
        return {split: figures["winner"] for split, figures in self.metrics.items()}

    def save(self) -> dict[str, Any]:
        """Write the winner's model directory."""
        row = self.table[0]
        chosen = {name: row[name] for name in ("model", "parameter", "value", "bias")} | self._chosen()
        model = Model(
            self.data.schema,
            self.winner.predictor,
            self.settings.model_dump(mode="json"),
            provenance(self.data, self.settings.seed) | {"chosen": chosen},
        )
        self.weights_sha256 = save_model(model, self._place.beside / "model")
        return {"weights_sha256": self.weights_sha256}

    def summary(self) -> str:
        """The plain summary for a terminal."""
        return text_summary(self._result)

    def _page(self) -> Page:
        return page_of(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """One flat row an entrant."""
        return [
            {name: value for name, value in row.items() if not isinstance(value, (dict, list))}
            for row in self._result["models"]
        ]

    def _sample(self, feature_map: FeatureMap | None) -> Sample:
        settings = self.settings
        folds, holdout = settings.folds, settings.holdout
        return Sample(self.data, settings.rows, settings.seed, settings.precision, folds, holdout, feature_map)

    def _draw_map(self, sample: Sample) -> tuple[FeatureMap | None, dict[str, Any]]:
        settings = self.settings
        choice = map_choice(settings, self.names)
        if choice is None:
            return None, {}
        few = sample.all().inputs[:SAMPLE_ROWS]
        return choice.draw(self.data.schema, few, settings.seed, settings.precision)

    def _chosen(self) -> dict[str, Any]:
        """Of the winner, with the map if it learnt in it: an online solver has one of its own, or none."""
        return (self.chosen if is_certified(self.best.name) else {}) | (self.winner.chosen or {})

    def _test_share(self) -> float:
        return self.sample.test_rows(0) / self.sample.train_rows()

    def _collect(self) -> dict[str, Any]:
        settings, schema, sample = self.settings, self.data.schema, self.sample
        bias = self.best.choice()[1]
        one = len(self.winner.values) == 1
        return {
            "model": str(self._place.folder / "model"),
            "run": str(self._place.folder),
            "name": settings.name or self._place.folder.name,
            "winner": {
                "model": self.best.name,
                "parameter": self.table[0]["parameter"],
                "value": self.winner.values[0] if one else None,
                "values": list(self.winner.values),
                "bias": bias,
                "rows": self.winner.rows,
                "chosen": self._chosen(),
            },
            "certificate": self.winner.certificate,
            "models": self.table,
            "majority": max(schema.class_counts) / sum(schema.class_counts),
            "test_name": test_name(sample.n_parts),
            "parts": sample.n_parts,
            "search_rows": len(sample.all().targets),
            "rungs": list(self._search.steps()),
            "judged_rows": sum(sample.test_rows(number) for number in range(sample.n_parts)),
            **self.metrics_of_splits(),
            "weights_sha256": self.weights_sha256,
            "search_seconds": self._search_seconds,
            "total_seconds": time.perf_counter() - self._begun,
            "peak_memory_bytes": peak_memory_bytes(),
            "workers": self._running().n_workers,
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, self._data_folder()),
        }

    def metrics_of_splits(self) -> dict[str, Any]:
        """Of the winner on both splits, and of the majority class."""
        figures = {split: self.metrics.get(split, {}) for split in ("train", "test")}
        baselines = {split: found.get("majority") for split, found in figures.items()}
        return {split: found.get("winner") for split, found in figures.items()} | {"baselines": {"majority": baselines}}
