"""Measuring a saved model on labelled rows: a split of a data set, or a source that has the target column."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from okl.configuration import WhereSettings
from okl.evaluation import in_own_unit, learnt_unit, predictor_tallies, target_range
from okl.execution import open_for
from okl.metrics import Tally, measure, merge
from okl.planning import check_workers
from okl.progress import NullObserver, Observer
from okl.registry.reference import REGISTRY, load, pinned
from okl.store.dataset import Dataset, Shard
from okl.store.manifest import is_dataset, open_dataset
from okl.store.matching import learnt_among, read_as
from okl.store.model import Model
from okl.store.pieces import TablePiece, check_pieces, read_table, table_pieces
from okl.store.rawrows import prepare_rows


class EvaluateSettings(WhereSettings):
    """Which model to measure on which labelled rows."""

    model: str = Field(description="folder of a model, its URL, or NAME@WHICH of a registry, as NAME@champion")
    registry: str | None = Field(None, description=REGISTRY)
    source: str = Field(description="data set, or raw rows with the model's target column")
    split: Literal["test", "train", "all"] = Field(
        "test", description="of a data set; all rows where there is no split"
    )


@dataclass(frozen=True, eq=False)
class MeasurePiece:
    """Work on one piece with labels: score its rows and tally how far off they are."""

    model: Model

    def __call__(self, piece: TablePiece) -> list[Tally]:
        """One tally, or none for a piece whose rows all miss a value."""
        schema, tallies = self.model.schema, []
        for source in read_table(piece, [*schema.source_columns, schema.target]):
            raw = prepare_rows(schema, source, self.model.precision, with_targets=True)
            assert raw.targets is not None
            kept = slice(None) if raw.complete is None else raw.complete
            scores = in_own_unit(schema, self.model.predictor.scores(raw.inputs[kept]))
            targets = in_own_unit(schema, raw.targets[kept])
            tallies.append(measure(schema.task, scores, targets, schema.n_outputs, target_range(schema)))
        return [merge(tallies)] if tallies else []


def evaluate_model(settings: EvaluateSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Measure a saved model on a split of a data set, or on all rows of a source that has the target column.

    Returns
    -------
    model, source, split, rows, seconds, metrics: what `okl evaluate --json` prints; learnt_rows: how many of the rows
    the model is known to have learnt from

    Raises
    ------
    OklError : rows that do not fit the model; a label never seen in training
    """
    observer = observer or NullObserver()
    begun, chosen = time.perf_counter(), pinned(settings.model, settings.registry)
    model = load(chosen, settings.registry)
    check_workers(settings)
    data = read_as(open_dataset(settings.source), model.schema) if is_dataset(settings.source) else None
    pieces = table_pieces(settings.source, model.schema) if data is None else ()
    if data is None:
        check_pieces(model.schema, pieces, settings.source, with_targets=True)
    with open_for(settings) as execution:
        observer.stage("evaluate")
        if data is None:
            split, parts = "all", execution.map(MeasurePiece(model), pieces)
            tally = merge(tally for part in parts for tally in part)
        else:
            split, shards = _shards_of(data, settings.split)
            tally = predictor_tallies(data, shards, {"model": model.predictor}, model.precision, execution)["model"]
    return {
        "model": chosen,
        "source": settings.source,
        "split": split,
        "rows": tally.rows,
        "seconds": time.perf_counter() - begun,
        "metrics": learnt_unit(model.schema, tally.report()),
        "learnt_rows": learnt_among(model.provenance, settings.source, data, split),
    }


def _shards_of(data: Dataset, split: Literal["test", "train", "all"]) -> tuple[str, list[Shard]]:
    """The shards to measure on and what to call them; all of them where there is no split."""
    if split == "all" or not data.split("test"):
        return "all", list(data.shards)
    return split, list(data.split(split))
