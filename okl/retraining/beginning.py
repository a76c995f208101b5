"""What the first shards settle for all that follow: inputs, labels and scaling."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.home import okl_home
from okl.retraining.landing import Arrival
from okl.retraining.tally import merged_statistics
from okl.store.dataset import Schema
from okl.store.ingest import ingest

MOST_FIRST = 20


def first_reference(arrivals: Sequence[tuple[Arrival, str]], settings: IngestSettings) -> Schema:
    """The schema that all shards are held to from now on: of the first file that can be read, scaled by all of them.

    Of the files that are there, the first 20 are read; those unlike the first of them are left to the contract.

    Raises
    ------
    DataError : no file can be read as the settings say
    """
    kept = settings.model_copy(update={"holdout": None})
    first: Schema | None = None
    parts: list[Schema] = []
    refused: list[str] = []
    with tempfile.TemporaryDirectory(dir=okl_home(), prefix=".reference-") as scratch:
        for number, (arrival, _) in enumerate(arrivals[:MOST_FIRST]):
            try:
                found = ingest(arrival.place, Path(scratch) / str(number), kept).dataset.schema
            except DataError as error:
                refused.append(str(error))
                continue
            if unmade := [column for column in kept.categories if column not in found.source_columns]:
                # what is asked for again later could not be told from what this model never learns
                refused.append(
                    f"{arrival.name}: column {unmade[0]!r} was named as a category, but holds no value in the training "
                    "rows. Leave it out of the categories, or begin with a file that has some."
                )
                continue
            first = first or found
            if found.features == first.features and found.labels == first.labels and found.task == first.task:
                parts.append(found)
    if first is None:
        raise DataError(f"No shard can be read to begin with. {' '.join(refused[:3])}")
    return _joined(parts)


def _joined(parts: Sequence[Schema]) -> Schema:
    first = parts[0]
    targets = [(part.target_statistics,) for part in parts if part.target_statistics is not None]
    counts = tuple(map(sum, zip(*(part.class_counts for part in parts), strict=True)))
    return replace(
        first,
        class_counts=counts,
        feature_statistics=merged_statistics([part.feature_statistics for part in parts]),
        target_statistics=merged_statistics(targets)[0] if targets else None,
    )
