"""Work of scoring on one piece of a source: its keys, scores and predictions, in the order of its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.errors import DivergedError
from okl.store.dataset import Schema
from okl.store.model import Model
from okl.store.pieces import TablePiece, read_table
from okl.store.places import Place
from okl.store.predictions import first_without_score, predictions
from okl.store.publishing import file_beside
from okl.store.rawrows import prepare_rows
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class ScorePiece:
    """Work on one piece: score its rows and write them as one Parquet file, beside its place and renamed."""

    model: Model
    keys: tuple[str, ...]
    folder: Place

    def __call__(self, piece: TablePiece) -> dict[str, Any]:
        """Rows, those that have a score, and how often each label was predicted (or the sum of the predictions)."""
        counts: Counter[Any] = Counter()
        rows, scored, total = 0, 0, 0.0
        with (
            file_beside(self.folder / f"part-{piece.index:05d}.parquet") as beside,
            pq.ParquetWriter(beside, self.output_schema(piece), compression="zstd") as writer,
        ):
            for batch, predicted in self.batches(piece):
                if self.model.schema.task == "regression":
                    total += float(predicted.sum())
                else:
                    counts.update(predicted.tolist())
                writer.write_batch(batch)
                rows, scored = rows + batch.num_rows, scored + len(predicted)
        return {"rows": rows, "scored": scored, "counts": counts, "total": total}

    def batches(self, piece: TablePiece) -> Iterator[tuple[pa.RecordBatch, NDArray[Any]]]:
        """Keys, scores and predictions of some rows, and again the predictions of those that hold all their values.

        Raises
        ------
        DivergedError : a score of such a row is NaN or infinite; DataError : a value that cannot be taken
        """
        schema, model = self.output_schema(piece), piece.seen_by(self.model.schema)
        columns = [*model.source_columns, *self.keys]
        for source in read_table(piece, list(dict.fromkeys(columns)), exact=self.keys):
            raw = prepare_rows(model, source, self.model.precision)
            scores = self.model.predictor.scores(raw.inputs)
            predicted = predictions(self.model.schema, scores)
            absent = None if raw.complete is None else ~raw.complete
            if (unfit := first_without_score(model, scores, predicted, absent)) is not None:
                raise _says_nothing(source.file, source.first_row + unfit)
            arrays = [source.batch.column(name) for name in self.keys]
            arrays += [pa.array(column, mask=absent) for column in _score_columns(scores)]
            arrays.append(pa.array(predicted, type=schema.field("prediction").type, mask=absent))
            yield pa.record_batch(arrays, schema=schema), predicted if absent is None else predicted[~absent]

    def output_schema(self, piece: TablePiece) -> pa.Schema:
        """Key columns as they came, score (one a class for several classes), prediction."""
        model, precision = self.model.schema, pa.from_numpy_dtype(np.dtype(self.model.precision))
        fields = [piece.schema.field(name) for name in self.keys]
        *names, last = output_names(model)
        fields += [pa.field(name, precision) for name in names]
        return pa.schema([*fields, pa.field(last, pa.array(predictions(model, _no_scores(model.n_outputs))).type)])


def output_names(schema: Schema) -> list[str]:
    """Columns that scoring adds to the keys: a score (one a class for several classes), then the prediction."""
    scores = [f"score_{label}" for label in schema.labels] if schema.task == "multiclass" else ["score"]
    return [*scores, "prediction"]


def _says_nothing(file: str, row: int) -> DivergedError:
    return DivergedError(
        f"{file}: the model's score of row {row} (counted from 0) is NaN or infinite: the model has diverged, or the "
        "row's values are far beyond those it learnt from. Train it with a smaller step size, or mend the row."
    )


def _score_columns(scores: FloatArray) -> list[FloatArray]:
    return [scores] if scores.ndim == 1 else [np.ascontiguousarray(column) for column in scores.T]


def _no_scores(n_outputs: int) -> FloatArray:
    return np.zeros((1, n_outputs)) if n_outputs > 1 else np.zeros(1)
