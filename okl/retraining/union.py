"""Several data sets of one schema as one, whose part files stay where they are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from okl.errors import DataError
from okl.store.dataset import Dataset, Shard
from okl.store.places import Place


def union(place: Place, parts: Sequence[Dataset]) -> Dataset:
    """One data set of all shards, in the order of the parts; train shards stay train shards.

    Parameters
    ----------
    place : folder that the folders of all parts lie in
    parts : of one schema but for the counts of classes, which are added up

    Raises
    ------
    DataError : no part, parts of different schemas, or one that lies elsewhere
    """
    if not parts:
        raise DataError(f"{place}: no shard was named; expected at least one.")
    schema = parts[0].schema
    shards: list[Shard] = []
    for part in parts:
        if replace(part.schema, class_counts=()) != replace(schema, class_counts=()):
            raise DataError(f"{part.folder} and {parts[0].folder} were held to different references.")
        if str(part.folder) != str(place / part.folder.name):
            raise DataError(f"{part.folder} does not lie in {place}, as the parts of a union must.")
        shards += [replace(shard, path=f"{part.folder.name}/{shard.path}") for shard in part.shards]
    shards = [replace(shard, index=index) for index, shard in enumerate(shards)]
    counts = tuple(map(sum, zip(*(part.schema.class_counts for part in parts), strict=True)))
    digest = hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()
    source = hashlib.sha256("".join(part.source_sha256 for part in parts).encode()).hexdigest()
    return Dataset(place, replace(schema, class_counts=counts), tuple(shards), digest, source)
