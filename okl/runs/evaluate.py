"""Evaluation of predictors on a split of a data set or on labelled rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from okl.data.dataset import Dataset, Schema, Shard
from okl.data.execution import Execution
from okl.data.manifest import is_dataset, open_dataset
from okl.data.order import plan_windows
from okl.data.reading import load_window
from okl.distributed import open_for
from okl.distributed.cluster_file import check_execution_options
from okl.features.predictors import Predictor
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.settings import ExecutionSettings
from okl.foundation.telemetry import NullObserver, Observer
from okl.foundation.types import Criterion, Doubles, FloatArray, Precision
from okl.metrics.calibration import log_losses
from okl.metrics.definitions import Tally, largest_losses, merge, merge_named, predicted_classes
from okl.models.file import Model
from okl.models.inputs import Replaced, class_indices, count_training_rows, read_as, replaced_sentences
from okl.models.pieces import TablePiece, check_pieces, raw_rows, table_pieces
from okl.models.quality import check_one_threshold, decided, in_scaled_unit, in_target_unit, logits_of, tally_of
from okl.models.reference import REGISTRY, load, pinned, run_data
from okl.report.format import scalar_metrics
from okl.runs.baselines import ConstantPredictor

# Evaluation of several predictors in one pass over a split of a data set

EVALUATION_WINDOW_BYTES = 8 * 2**20


@dataclass(frozen=True, eq=False)
class MeasureShard:
    """Task that scores the rows of a shard with every predictor and tallies the errors.

    criterion : of the losses that predictors are compared by with the first one, row by row, whose rows of largest loss
        are noted; None: neither
    """

    data: Dataset
    predictors: Mapping[str, Predictor]
    precision: Precision
    criterion: Criterion | None = None

    def __call__(self, shard: Shard) -> dict[str, Tally]:
        """Return the tallies of a shard, by name of the predictor."""
        tallies: dict[str, list[Tally]] = {name: [] for name in self.predictors}
        main, n_rows = next(iter(self.predictors)), 0
        for targets, scores in scored_windows(self.data, shard, self.predictors, self.precision):
            losses = {name: self._losses(name, scores[name], targets) for name in tallies}
            reference = losses[main]
            for name, parts in tallies.items():
                tally = tally_of(self.data.schema, scores[name], targets, self.predictors[name])
                if name != main:
                    with np.errstate(over="ignore", invalid="ignore"):  # beyond float64: reported as None
                        apart = {key: own - reference[key] for key, own in losses[name].items() if key in reference}
                        sums = {key: (float(each.sum()), float(np.square(each).sum())) for key, each in apart.items()}
                    tally = replace(tally, excess=sums)
                elif self.criterion is not None:
                    each = row_losses(self.data.schema, self.predictors[name], scores[name], targets)
                    tally = replace(tally, largest=largest_losses(each, shard.index, n_rows))
                parts.append(tally)
            n_rows += len(targets)
        return {name: merge(parts) for name, parts in tallies.items()}

    def _losses(self, name: str, scores: FloatArray, targets: FloatArray) -> dict[str, Doubles]:
        """Return losses (rows,) of the criterion and of a metric that it may hide; none unless means over rows."""
        if self.criterion == "squared-error":
            with np.errstate(over="ignore"):
                apart = np.asarray(scores, dtype=np.float64) - targets
                return {"mse": np.square(apart), "mae": np.abs(apart)}
        if self.criterion not in ("accuracy", "log-loss"):
            return {}
        classes, logits = class_indices(self.data.schema, targets), logits_of(self.predictors[name], scores)
        losses = {} if logits is None else {"log_loss": log_losses(logits, classes)}
        if self.criterion == "accuracy":
            losses["mistake_rate"] = (predicted_classes(scores) != classes).astype(np.float64)
        return losses


def row_losses(schema: Schema, predictor: Predictor, scores: FloatArray, targets: FloatArray) -> Doubles:
    """Return each row's loss, (rows,): absolute error in the target's unit, log loss, or lead of another class."""
    wide = np.asarray(scores, dtype=np.float64)
    if schema.task == "regression":
        errors: Doubles = np.abs(wide - targets)
        return errors
    classes, logits = class_indices(schema, targets), logits_of(predictor, scores)
    if logits is not None:
        return log_losses(logits, classes)
    if schema.task == "binary":
        return np.asarray(-wide * targets)
    own = wide[np.arange(len(wide)), classes]
    others = wide.copy()
    others[np.arange(len(wide)), classes] = -np.inf
    leads: Doubles = others.max(axis=1) - own
    return leads


def scored_windows(
    data: Dataset, shard: Shard, predictors: Mapping[str, Predictor], precision: Precision
) -> Iterator[tuple[FloatArray, dict[str, FloatArray]]]:
    """Yield targets and scores by predictor of each window of a shard, those of a regression in the target's unit."""
    schema = data.schema
    for window in plan_windows((shard,), schema.n_features, "stored", (), EVALUATION_WINDOW_BYTES):
        rows = load_window(data, window, precision)
        scores = {name: in_target_unit(schema, predictor.scores(rows.inputs)) for name, predictor in predictors.items()}
        yield in_target_unit(schema, rows.targets), scores


def predictor_tallies(
    data: Dataset,
    shards: Sequence[Shard],
    predictors: Mapping[str, Predictor],
    precision: Precision,
    execution: Execution,
    criterion: Criterion | None = None,
) -> dict[str, Tally]:
    """Return the tallies of every predictor over some shards, added in the order of the shards; see `MeasureShard`."""
    return merge_named(execution.map(MeasureShard(data, predictors, precision, criterion), shards))


class EvaluateSettings(ExecutionSettings):
    """Settings of an evaluation: model and labelled rows."""

    model: str = Field(description="folder or URL of a model, or NAME@VERSION of a registry, such as NAME@champion")
    registry: str | None = Field(None, description=REGISTRY)
    source: str | None = Field(
        None, description="data set, or raw rows with the model's target column; none: the data set of the model's run"
    )
    split: Literal["test", "train", "all"] = Field(
        "test", description="rows of a data set to evaluate on; all if there is no split"
    )
    threshold: float | None = Field(
        None, description="probability from which on the second of two classes is predicted; none: the model's own"
    )
    recall: float | None = Field(
        None, gt=0, le=1, description="choose the highest threshold with this recall on these rows, such as 0.9"
    )
    precision: float | None = Field(
        None, gt=0, le=1, description="choose the lowest threshold with this precision on these rows, such as 0.5"
    )

    @model_validator(mode="after")
    def _one_threshold(self) -> EvaluateSettings:
        check_one_threshold(self.threshold, self.recall, self.precision)
        return self


@dataclass(frozen=True, eq=False)
class MeasurePiece:
    """Task that scores the rows of a labelled piece and tallies the errors of the model and the constant baseline."""

    model: Model

    def __call__(self, piece: TablePiece) -> tuple[list[dict[str, Tally]], Replaced]:
        """Return tallies by name, none for a piece whose rows all have missing values, and what was replaced."""
        schema, tallies, replaced = self.model.schema, [], Replaced()
        predictors = _with_constant(self.model)
        for raw in raw_rows(schema, piece, self.model.precision, with_targets=True):
            assert raw.targets is not None
            replaced.update(raw.replaced)
            if raw.complete is not None and not raw.complete.any():
                continue
            inputs, targets = raw.inputs[raw.kept], in_target_unit(schema, raw.targets[raw.kept])
            tallies.append(
                {
                    name: tally_of(schema, in_target_unit(schema, predictor.scores(inputs)), targets, predictor)
                    for name, predictor in predictors.items()
                }
            )
        return [merge_named(tallies)] if tallies else [], replaced


def _with_constant(model: Model) -> dict[str, Predictor]:
    """Return the predictor of a model, and the constant baseline of its training rows."""
    constant = ConstantPredictor(model.schema)
    return {"model": model.predictor, constant.name: constant}


def evaluate_model(settings: EvaluateSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Evaluate a saved model on a split of a data set, by default that of its run, or on all rows of a source.

    Returns model, source, split, rows, seconds, metrics, baselines (the same by majority or mean), as printed by `okl
        evaluate --json`; learnt_rows: number of these rows that the model was trained on; has_test_rows: whether, if
        there are some, the data set of its run has test rows; threshold of two classes: of the model, or as given or
        chosen; wanted: the threshold, recall or precision that was given.
    Raises OklError : rows that do not fit the model; a label that is not in the training data
    """
    observer = observer or NullObserver()
    started, chosen = time.perf_counter(), pinned(settings.model, settings.registry)
    model = load(chosen, settings.registry).with_threshold(settings.threshold)
    model.check_chooses(settings.recall, settings.precision)
    check_execution_options(settings)
    own = run_data(chosen, settings.registry)
    source = settings.source or own
    if source is None:
        raise ConfigError(f"{chosen} has no data set of its run. Give labelled rows or a data set to evaluate on.")
    data = read_as(open_dataset(source), model.schema) if is_dataset(source) else None
    pieces = table_pieces(source, model.schema) if data is None else ()
    if data is None:
        check_pieces(model.schema, pieces, source, with_targets=True)
    replaced = Replaced()
    with open_for(settings) as execution:
        observer.stage("evaluate")
        if data is None:
            split, tallies = "all", list[dict[str, Tally]]()
            for found, some in execution.map(MeasurePiece(model), pieces):
                tallies += found
                replaced.update(some)
            if not tallies:
                raise DataError(
                    f"{source}: no row has a value of the target {model.schema.target!r} and of every column "
                    "that needs one. Give labelled rows."
                )
            measured = merge_named(tallies)
        else:
            # all shards, if there is no split
            split = settings.split if data.split("test") else "all"
            shards = data.shards if split == "all" else data.split(split)
            measured = predictor_tallies(data, shards, _with_constant(model), model.precision, execution)
    tally, threshold = measured.pop("model"), getattr(model.predictor, "threshold", None)
    if settings.recall is not None or settings.precision is not None:
        tally, threshold = decided(tally, settings.recall, settings.precision)
    learnt = count_training_rows(model.provenance, source, data, split)
    return {
        "model": chosen,
        "source": source,
        "split": split,
        "rows": tally.rows,
        "seconds": time.perf_counter() - started,
        "metrics": in_scaled_unit(model.schema, tally.report()),
        "baselines": {
            name: scalar_metrics(in_scaled_unit(model.schema, one.report())) for name, one in measured.items()
        },
        "labels": list(model.schema.labels),
        "wanted": settings.model_dump(include={"threshold", "recall", "precision"}, exclude_none=True),
        **({"threshold": threshold} if model.schema.task == "binary" else {}),
        "learnt_rows": learnt,
        "has_test_rows": learnt > 0 and own is not None and bool(open_dataset(own).split("test")),
        "warnings": replaced_sentences(replaced, model.schema),
    }
