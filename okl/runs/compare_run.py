"""Comparison runs: their stages, and the checks of their settings."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okl.data.dataset import ROBUST, Dataset, Scaling
from okl.data.manifest import is_dataset, peak_memory_bytes, provenance
from okl.data.squash import with_squashed
from okl.distributed.cluster_file import check_execution_options
from okl.foundation.errors import DataError, DivergedError
from okl.foundation.folders import check_published, output_folder
from okl.foundation.locations import COMPARED, Place, place_of
from okl.models.file import Model, save_model
from okl.models.inputs import class_indices
from okl.report.comparison import comparison_page
from okl.report.format import scalar_metrics
from okl.report.render import html, markdown
from okl.runs import compare
from okl.runs.baselines import ConstantPredictor
from okl.runs.compare_grids import Sample, make_grid, signs_of_classes
from okl.runs.compare_settings import CompareSettings
from okl.runs.evaluate import predictor_tallies
from okl.runs.results import assumptions, describe_data
from okl.runs.run import Run, check_data, open_run_data, run_folder
from okl.solvers.accelerated.models import is_model
from okl.solvers.online.solver import SAMPLE_ROWS

# Stages of a comparison.

LEAST_OF_CLASS = 2
COMPARE_STAGES = ("plan", "search", "refit", "evaluate", "save", "report")


@dataclass(eq=False)
class ComparisonRun(Run[CompareSettings]):
    """Comparison run."""

    STAGES = COMPARE_STAGES

    def __post_init__(self) -> None:
        super().__post_init__()
        self.output = output_folder(_folder(self.settings))

    @property
    def name(self) -> str:
        return self.folder.name

    def check_settings(self) -> None:
        check(self.settings)

    def plan(self) -> dict[str, Any]:
        """Read the sample, draw the map, make the grids and start workers."""
        settings = self.settings
        assert self.output is not None
        self.output.open()
        self._opened = open_run_data(self, settings)
        self.data = scaled_data(settings, self._opened)
        self._standardises = settings.rescale == "auto" and self.data.schema.scale != self._opened.schema.scale
        if not is_dataset(settings.data):
            named = replace(self.data, folder=place_of(settings.data))  # errors name the source
            compare.check_models(settings, named)
        self.names = compare.model_names(settings, self.data.schema.task, self.data.schema.sparse is not None)
        n_classes = max(2, len(self.data.schema.labels))
        shared = (self.data, settings.rows, settings.seed, settings.precision, settings.folds, settings.holdout)
        sample, self.feature_map, self.chosen = Sample(*shared), None, dict[str, Any]()
        if (choice := compare.map_choice(settings, self.names)) is not None:
            few = sample.all().inputs[:SAMPLE_ROWS]
            self.feature_map, self.chosen = choice.draw(self.data.schema, few, settings.seed, settings.precision)
        self.sample = Sample(*shared, self.feature_map)
        rows = self.sample.all()
        if self.data.schema.task != "regression":
            self._check_classes(np.bincount(class_indices(self.data.schema, rows.targets), minlength=n_classes))
        features, signs = self.sample.mapped(rows.inputs), signs_of_classes(rows.targets, n_classes)
        grids = {name: make_grid(name, features, signs, settings.grid) for name in self.names if is_model(name)}
        self._search = compare.ModelSearch(settings, self.sample, self.names, grids, n_classes)
        return {"rows": len(rows.targets), "rungs": list(self._search.steps()), "models": list(self.names)}

    def _check_classes(self, counts: NDArray[np.int64]) -> None:
        """Raise DataError if a class of the data has too few sampled rows to be in the training rows of every fold."""
        rarest = int(np.argmin(counts))
        if counts[rarest] < LEAST_OF_CLASS and counts.sum() < self.data.rows("train"):
            raise DataError(
                f"Class {self.data.schema.labels[rarest]} has {counts[rarest]} of the {counts.sum():,} sampled rows; "
                f"each fold needs one to train on. Raise --rows, up to {self.data.rows('train'):,}."
            )

    def search(self) -> dict[str, Any]:
        """Fit and validate all values of all models."""
        started = time.perf_counter()
        candidates = self._search.run(self.execution, self.observer.advance)
        self._search_seconds = time.perf_counter() - started
        best = compare.winner_of(candidates)
        if best is None:
            raise DivergedError(f"Every model failed. The first error: {candidates[0].failure}")
        self.best: compare.CompareCandidate = best
        share = self.sample.test_rows(0) / self.sample.train_rows()
        self.table = compare.table_of(candidates, share, self._search.judge)
        return {"winner": best.name, "mean": self.table[0]["mean"]}

    def refit(self) -> dict[str, Any]:
        """Train the winner again."""
        data = self._opened if self.best.name == compare.AUTO and self._standardises else self.data
        self.winner: compare.Winner = compare.fit_winner(
            self.settings, data, self.best, self.feature_map, self.execution, self.observer.advance
        )
        return {"rows": self.winner.rows, "certificate": self.winner.certificate}

    def evaluate(self) -> dict[str, Any]:
        """Compute metrics of the winner and the majority class on both splits."""
        data = replace(self.data, schema=self.winner.schema)
        constant = ConstantPredictor(self.data.schema)
        predictors = {"winner": self.winner.predictor, constant.name: constant}
        self.metrics: dict[str, dict[str, Any]] = {"train": {}, "test": {}}
        for split, figures in self.metrics.items():
            if shards := self.data.split(split):  # type: ignore[arg-type]  # one of both
                tallies = predictor_tallies(data, shards, predictors, self.settings.precision, self.execution)
                figures |= {name: scalar_metrics(tally.report()) for name, tally in tallies.items()}
        return {split: figures["winner"] for split, figures in self.metrics.items() if figures}

    def save(self) -> dict[str, Any]:
        """Write the winner's model directory."""
        row = self.table[0]
        chosen = {name: row[name] for name in ("model", "parameter", "value", "bias")} | self._chosen()
        origin = provenance(self.data, self.settings.seed) | {"chosen": chosen}
        settings = self.settings.model_dump(mode="json")
        model = Model(self.winner.schema, self.winner.predictor, settings, origin)
        self.weights_sha256 = save_model(model, self.staging / "model")
        return {"weights_sha256": self.weights_sha256}

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and publish the run's folder."""
        self._result = self._collect()
        (self.staging / "report.html").write_text(html(comparison_page(self._result)), encoding="utf-8")
        self.complete()
        return {"run": str(self.folder)}

    def report_markdown(self) -> str:
        return markdown(comparison_page(self._result))

    def metrics_table(self) -> list[dict[str, Any]]:
        return [scalar_metrics(row) for row in self._result["models"]]

    def _chosen(self) -> dict[str, Any]:
        """Return the chosen values of the winner, with those of the shared map if it was trained on it."""
        return (self.chosen if is_model(self.best.name) else {}) | (self.winner.chosen or {})

    def _collect(self) -> dict[str, Any]:
        settings, schema, sample, winner = self.settings, self.data.schema, self.sample, self.winner
        data_folder = place_of(settings.data).absolute() if is_dataset(settings.data) else self.folder / "data"
        constant = ConstantPredictor(schema).name
        baselines = {split: figures.get(constant) for split, figures in self.metrics.items()}
        criterion = self._search.judge.criterion
        return {
            "model": str(self.folder / "model"),
            "run": str(self.folder),
            "name": settings.name or self.name,
            "winner": {
                "model": self.best.name,
                "parameter": self.table[0]["parameter"],
                "value": winner.values[0] if len(winner.values) == 1 else None,
                "values": list(winner.values),
                "bias": self.best.choice()[1],
                "rows": winner.rows,
                "chosen": self._chosen(),
            },
            "certificate": winner.certificate,
            "models": self.table,
            "criterion": criterion,
            "assumptions": self._assumptions(),
            "constant": compare.constant_score(schema, criterion),
            "test_name": compare.test_name(sample.n_parts, criterion),
            "parts": sample.n_parts,
            "search_rows": len(sample.all().targets),
            "rungs": list(self._search.steps()),
            "judged_rows": sum(sample.test_rows(number) for number in range(sample.n_parts)),
            **{split: figures.get("winner") for split, figures in self.metrics.items()},
            "baselines": {constant: baselines},
            "weights_sha256": self.weights_sha256,
            "search_seconds": self._search_seconds,
            "total_seconds": time.perf_counter() - self.timeline.begun,
            "peak_memory_bytes": peak_memory_bytes(),
            "workers": self.execution.n_workers,
            "settings": settings.model_dump(mode="json"),
            "dataset": describe_data(self.data, data_folder) | ({"sparse": True} if schema.sparse else {}),
        }

    def _assumptions(self) -> list[str]:
        """Return a sentence for each default that decided how rows were read and models compared."""
        given = is_dataset(self.settings.data)
        sentences = [] if given else assumptions(self.data, self.settings.ingest)
        if self._standardises:
            sentences.append("inputs are standardised (--rescale)")
        return [*sentences, *filter(None, [compare.left_out(self.settings, self.data.schema)])]


def scaled_data(settings: CompareSettings, data: Dataset) -> Dataset:
    """Return a data set with the scaling of a comparison: as given, or standard if the data set has none."""
    wanted: Scaling = data.schema.scaling if settings.rescale == "auto" else settings.rescale
    if settings.rescale == "auto" and wanted == "none" and data.schema.feature_statistics:
        wanted = "standard"
    if wanted in ROBUST and not data.schema.squashed:
        data = with_squashed(data, settings.seed)
    return replace(data, schema=data.schema.scaled_as(wanted))


def check(settings: CompareSettings) -> None:
    """Raise an error for wrong settings or data without reading rows or starting a server or workers."""
    check_execution_options(settings)
    compare.model_names(settings)
    check_data(settings, lambda data: compare.check_models(settings, data), lambda ingest_settings: None)
    check_published(_folder(settings))


def _folder(settings: CompareSettings) -> Place:
    return run_folder(settings, COMPARED)
