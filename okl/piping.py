"""Small jobs: rows from a stream, scores as CSV to another, in this process and without any record of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow.csv as pacsv

from okl.errors import DataError, DivergedError
from okl.scorepiece import ScorePiece
from okl.scoring import ScoreSettings, check_score
from okl.store.packing import packed_ending
from okl.store.places import place_of

PARQUET = b"PAR1"  # how such a file begins


def score_stream(
    model: str, rows: BinaryIO, out: BinaryIO, keys: Sequence[str] = (), registry: str | None = None
) -> int:
    """Score raw rows that come as CSV with a header line, or as a Parquet file; write CSV; return the number of rows.

    A column type can only be settled once all rows are there: they are kept in a temporary file meanwhile, and so are
    the scores, until every row has one.

    Parameters
    ----------
    model : folder of a model, its URL, or NAME@WHICH; registry : see `okl.load`
    rows : raw rows; out : gets the key columns, the scores and the prediction of each row, in their order
    keys : columns to carry along, besides the model's own keys

    Raises
    ------
    OklError : as `okl predict`; nothing is written then
    """
    with tempfile.TemporaryDirectory(prefix="okl-rows-") as folder:
        file = _kept(rows, Path(folder))
        try:
            return _score(model, file, out, tuple(keys), registry)
        except (DataError, DivergedError) as error:
            raise type(error)(str(error).replace(str(file), "standard input")) from None


def _score(model: str, file: Path, out: BinaryIO, keys: tuple[str, ...], registry: str | None) -> int:
    never = file.with_name("never")
    settings = ScoreSettings(model=model, registry=registry, source=str(file), out=str(never), keys=keys)
    opened, pieces, kept = check_score(settings)
    work = ScorePiece(opened, kept, place_of(file.parent))
    written, scored = 0, file.with_name("scores.csv")  # a value may be bad below good rows: all of them, or none
    with pacsv.CSVWriter(scored, work.output_schema(pieces[0])) as writer:
        for piece in pieces:
            for batch, _ in work.batches(piece):
                writer.write_batch(batch)
                written += batch.num_rows
    with scored.open("rb") as stream:
        shutil.copyfileobj(stream, out)
    return written


def _kept(rows: BinaryIO, folder: Path) -> Path:
    """The stream as a file whose name says what it is."""
    beginning = rows.read(len(PARQUET))
    if not beginning:
        raise DataError("Standard input is empty; expected CSV with a header line, or a Parquet file.")
    ending = ".parquet" if beginning == PARQUET else f".csv{packed_ending(beginning)}"
    file = folder / f"standard-input{ending}"
    with file.open("wb") as stream:
        stream.write(beginning)
        shutil.copyfileobj(rows, stream)
    return file
