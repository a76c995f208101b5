"""Findings of the data contract on valid shards: real data cut into shards, in stored and in random order.

    python -m tests.benchmarks.contract FOLDER electricity:class covtype:label ...   (FOLDER/NAME.parquet)

Rows in random order do not drift, so every finding is a false alarm; in stored order some data do drift.
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
    """Write a table as `shards` files, in order."""
    edges = np.linspace(0, content.num_rows, shards + 1).astype(int)
    for index, (first, last) in enumerate(pairwise(edges)):
        pq.write_table(content.slice(first, last - first), folder / f"day-{index:03d}.parquet")


def alarms(content: pa.Table, target: str) -> tuple[Counter[str], int, list[str]]:
    """Return findings by kind, the number of quarantined shards, and the sentences, for shards validated in order."""
    findings: Counter[str] = Counter()
    sentences = []
    with tempfile.TemporaryDirectory() as temporary_folder:
        inbox = Path(temporary_folder) / "landing"
        inbox.mkdir()
        cut(content, inbox)
        store, contract = ShardStore(Path(temporary_folder) / "data"), ContractSettings()
        settings = IngestSettings(target=target, scale="standard")
        first = ingest(inbox / "day-000.parquet", Path(temporary_folder) / "first", settings).dataset.schema
        store.set_reference(first)
        quarantined = 0
        for arrival in arrivals(str(inbox))[0]:
            baseline = baseline_of(first, store.accepted())
            later_settings = settings.model_copy(update={"holdout": 0.2})
            record = validate_file(store, arrival, content_sha256(arrival.location), baseline, contract, later_settings)
            assert record is not None, "the file does not change"
            quarantined += record.status != "accepted"
            findings.update(finding.kind for finding in record.findings)
            sentences += [finding.sentence for finding in record.findings]
    return findings, quarantined, sentences


def main(folder: str, *names: str) -> None:
    """Print a line for each data set and order."""
    for name in names:
        name, _, target = name.partition(":")
        content = pq.read_table(Path(folder) / f"{name}.parquet")
        target = target or content.schema.names[-1]
        content = content.slice(0, min(content.num_rows, 150_000))
        mixed = content.take(np.random.default_rng(0).permutation(content.num_rows))
        for order, rows in (("stored", content), ("mixed", mixed)):
            findings, quarantined, sentences = alarms(rows, target)
            print(f"{name} {order}: {quarantined} of {SHARDS} quarantined, {dict(findings)}")
            for sentence in sentences[:6]:
                print("    ", sentence)


if __name__ == "__main__":
    main(*sys.argv[1:])
