"""What a run cost, and how its model is put to use."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

from okl.store.memorywording import MIB, memory_sentence
from okl.store.pageparts import Block, Code, Link, Picture, Section, Tiles, Words
from okl.store.timelinefigures import timeline_picture
from okl.store.timelinewording import timeline_sentence
from okl.store.wording import number, seconds


def cost(result: Mapping[str, Any]) -> Section:
    """Time, memory, bytes on the network, and who did what when."""
    peak = result.get("peak_memory_bytes")
    sent = (result.get("bytes_sent") or 0) + (result.get("bytes_received") or 0)
    passes = (result.get("settings") or {}).get("passes", 1)
    tiles = [
        ("Learning", seconds(result.get("seconds"))),
        ("Everything together", seconds(result.get("total_seconds"))),
        ("Rows learnt" if passes == 1 else f"Rows learnt, {passes} passes", number(result.get("rows"))),
        ("Rows a second", number(result.get("rows_per_second"))),
        *([("Memory of this process, peak", f"{number(round(peak / MIB))} MiB")] if peak else []),
        *([("Sent and received", f"{sent / MIB:,.1f} MiB")] if sent else []),
    ]
    words = [text for text in (timeline_sentence(result), memory_sentence(result)) if text]
    blocks: list[Block] = [Tiles(tiles), *map(Words, words)]
    if (timeline := result.get("timeline")) and result.get("workers"):  # of one process, a sentence tells it all
        told = "What this process and each worker did in each moment; lines: where a stage begins."
        blocks.append(Picture("Where the time went", partial(timeline_picture, timeline), told))
    if beside := result.get("cluster_report"):
        blocks.append(
            Link(str(beside), "Dask's own performance report", ": tasks, profiles and memory of all workers.")
        )
    return Section("cost", "What did it cost?", blocks)


def use(result: Mapping[str, Any]) -> Section | None:
    """Lines to type; None where no model was saved."""
    if not result.get("model"):
        return None
    model, run = (_typed(result.get(name) or "") for name in ("model", "run"))
    columns = number((result.get("dataset") or {}).get("features"))
    return Section(
        "use",
        "How do I use it?",
        [
            Code(
                f"Score rows that have the columns it learnt from ({columns} inputs); see which columns it leans on; "
                "make it the champion of a name:",
                [
                    f"okl predict {model} ROWS --out SCORES",
                    f"okl explain {model}",
                    f"okl models publish NAME {run} --promote",
                ],
            ),
            Code(
                "From Python, on an array or a table of raw rows:",
                ["import okl", f"labels = okl.load({_one_line(result['model'])!r}).predict(rows)"],
            ),
        ],
    )


def _typed(path: object) -> str:
    return shlex.quote(_one_line(path))


def _one_line(path: object) -> str:
    return " ".join(str(path).splitlines())
