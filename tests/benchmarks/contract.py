"""What the data contract says of honest shards: real data cut into shards, in their own order and mixed.

    python -m tests.benchmarks.contract FOLDER electricity:class covtype:label ...   (FOLDER/NAME.parquet)

Mixed rows do not change, so that every finding is a false alarm; in their own order some data do change.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okl.data.ingest.run import ingest
from okl.foundation.settings import IngestSettings
from okl.lifecycle.contract import baseline_of
from okl.lifecycle.intake import validate_file
from okl.lifecycle.settings import ContractSettings
from okl.lifecycle.shard_store import ShardStore, arrivals, content_sha256

SHARDS = 30


def cut(content: pa.Table, folder: Path, shards: int = SHARDS) -> None:
    """Write a table as so many files, in order."""
    edges = np.linspace(0, content.num_rows, shards + 1).astype(int)
    for index, (first, last) in enumerate(pairwise(edges)):
        pq.write_table(content.slice(first, last - first), folder / f"day-{index:03d}.parquet")


def alarms(content: pa.Table, target: str) -> tuple[Counter[str], int, list[str]]:
    """Findings by kind, shards that were quarantined, and what was said, of shards held one after the other."""
    found: Counter[str] = Counter()
    said = []
    with tempfile.TemporaryDirectory() as place:
        landing = Path(place) / "landing"
        landing.mkdir()
        cut(content, landing)
        store, contract = ShardStore(Path(place) / "data"), ContractSettings()
        settings = IngestSettings(target=target, scale="standard")
        first = ingest(landing / "day-000.parquet", Path(place) / "first", settings).dataset.schema
        store.set_reference(first)
        quarantined = 0
        for arrival in arrivals(str(landing))[0]:
            baseline = baseline_of(first, store.accepted())
            held = settings.model_copy(update={"holdout": 0.2})
            record = validate_file(store, arrival, content_sha256(arrival.location), baseline, contract, held)
            assert record is not None, "nobody changes the file"
            quarantined += record.status != "accepted"
            found.update(finding.kind for finding in record.findings)
            said += [finding.sentence for finding in record.findings]
    return found, quarantined, said


def main(folder: str, *names: str) -> None:
    """Print a line for each data set and order."""
    for name in names:
        name, _, target = name.partition(":")
        content = pq.read_table(Path(folder) / f"{name}.parquet")
        target = target or content.schema.names[-1]
        content = content.slice(0, min(content.num_rows, 150_000))
        mixed = content.take(np.random.default_rng(0).permutation(content.num_rows))
        for order, rows in (("stored", content), ("mixed", mixed)):
            found, quarantined, said = alarms(rows, target)
            print(f"{name} {order}: {quarantined} of {SHARDS} quarantined, {dict(found)}")
            for sentence in said[:6]:
                print("    ", sentence)


if __name__ == "__main__":
    main(*sys.argv[1:])
