"""Where a model errs: which classes it confuses, which it misses; how far off its numbers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from okl.store.mistakefigures import MOST_DRAWN, confusion_matrix, predicted_against_true, residual_histogram
from okl.store.pageparts import Block, Grid, Picture, Section, Words
from okl.store.reportquality import target_of
from okl.store.wording import number, percent

MOST_LISTED = 12
"""Classes, and pairs of them, that a table lists: the worst."""
SHARES = (0.5, 0.9)


def mistakes(result: Mapping[str, Any]) -> Section | None:
    """Of the test rows if there are any, else of the training rows; None where nothing was counted."""
    measured = result.get("test") or result.get("train") or {}
    where = "test rows" if result.get("test") else "training rows"
    blocks: list[Block] = []
    if confusion := measured.get("confusion"):
        labels = (result.get("dataset") or {}).get("labels") or list(range(len(confusion)))
        blocks = _of_classes(confusion, labels, where)
    elif histogram := measured.get("residual_histogram"):
        blocks = _of_residuals(measured, histogram, target_of(result), where)
    return Section("mistakes", "Where are its mistakes?", blocks) if blocks else None


def mistake_tables(measured: Mapping[str, Any], labels: Sequence[object], target: str, where: str) -> list[Block]:
    """The same without pictures.

    measured : confusion, or residual_histogram; nothing of both: no table
    """
    if confusion := measured.get("confusion"):
        counts = np.array(confusion, dtype=np.int64)
        wrong = int(counts.sum() - counts.trace())
        pairs = [_pairs(counts, labels, wrong)] if len(counts) > 2 and wrong else []
        return [*pairs, _classes(counts, labels, where)]
    histogram = measured.get("residual_histogram")
    return [_quantiles(histogram, target, where)] if histogram and histogram["counts"] else []


def _of_classes(confusion: Sequence[Sequence[int]], labels: Sequence[object], where: str) -> list[Block]:
    counts = np.array(confusion, dtype=np.int64)
    n_classes, rows = len(counts), int(counts.sum())
    tables = mistake_tables({"confusion": confusion}, labels, "", where)
    if n_classes > MOST_DRAWN:
        told = f"A matrix of {n_classes} classes would be too fine to read: the worst of it stands in tables."
        return [Words(told), *tables]
    wrong = number(rows - int(counts.trace()))
    told = f"{wrong} of {number(rows)} rows are off the diagonal. Shade: share of the true class."
    return [Picture(f"Confusion matrix, {where}", partial(confusion_matrix, confusion, labels), told), *tables]


def _pairs(counts: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[object], wrong: int) -> Grid:
    off = counts - np.diag(counts.diagonal())
    order = np.argsort(-off, axis=None, kind="stable")[:MOST_LISTED]
    true, named = np.unravel_index(order, off.shape)
    of_class = counts.sum(axis=1)
    rows = [
        [_name(labels[i]), _name(labels[j]), number(int(off[i, j])), percent(off[i, j] / of_class[i], 3)]
        for i, j in zip(true.tolist(), named.tolist(), strict=True)
        if off[i, j]
    ]
    share = percent(sum(int(off[i, j]) for i, j in zip(true, named, strict=True)) / wrong, 3)
    header = ("True class", "named", "rows", "of the class")
    return Grid("Most confused classes", header, rows, f"These make up {share} of all mistakes.")


def _classes(counts: np.ndarray[Any, np.dtype[np.int64]], labels: Sequence[object], where: str) -> Grid:
    of_class, named, hits = counts.sum(axis=1), counts.sum(axis=0), counts.diagonal()
    found = hits / np.maximum(of_class, 1)
    order = np.argsort(np.where(of_class > 0, found, np.inf), kind="stable")[:MOST_LISTED]
    rows = [
        [
            _name(labels[i]),
            number(int(of_class[i])),
            percent(float(found[i]), 3) if of_class[i] else "-",
            percent(float(hits[i] / named[i]), 3) if named[i] else "-",
        ]
        for i in order.tolist()
    ]
    cut = f" The {MOST_LISTED} hardest of {len(counts)}." if len(counts) > MOST_LISTED else ""
    note = f"Found: how many of the class's rows are named so (recall). Right: how many so named are (precision).{cut}"
    return Grid(f"Classes, the hardest first, {where}", ("Class", "rows", "found", "right"), rows, note)


def _of_residuals(
    measured: Mapping[str, Any], histogram: Mapping[str, Sequence[Any]], target: str, where: str
) -> list[Block]:
    edges, counts = histogram["edges"], histogram["counts"]
    blocks: list[Block] = []
    if counts:
        blocks.append(_quantiles(histogram, target, where))
        beyond = int(counts[0] + counts[-1])
        seen = (
            f"Left of 0 the model says too little. {number(beyond)} of {number(sum(counts))} rows are beyond the edges."
        )
        draw = partial(residual_histogram, edges, counts, target)
        blocks.append(Picture(f"Residuals, {where}", draw, seen))
    grid = measured.get("predicted_vs_true")
    if grid and grid["range"][0] < grid["range"][1]:
        draw = partial(predicted_against_true, grid["range"], grid["counts"], target)
        told = (
            "Where the solid line leaves the dotted one, predictions of that size are too low or too high on average."
        )
        blocks.append(Picture(f"Predicted against true, {where}", draw, told))
    return blocks


def _quantiles(histogram: Mapping[str, Sequence[Any]], target: str, where: str) -> Words:
    half, most = (within(histogram["edges"], histogram["counts"], share) for share in SHARES)
    told = f"Half of the {where} are predicted within {number(half)} of the truth, nine in ten within {number(most)}"
    return Words(f"{told} (in units of {target}).")


def within(edges: Sequence[float], counts: Sequence[int], share: float) -> float:
    """The distance from 0 that a share of the rows does not exceed, as far as bins tell.

    edges : evenly spaced about 0, (n + 1,), n even; counts : (n + 2,), the first and last beyond the edges

    >>> within([-2.0, -1.0, 0.0, 1.0, 2.0], [0, 1, 4, 4, 1, 0], 0.8)
    1.0
    """
    inner = np.array(counts[1:-1], dtype=np.float64)
    middle = len(inner) // 2
    reached = np.concatenate([[0.0], np.cumsum(inner[middle:] + inner[:middle][::-1])])
    return float(np.interp(share * sum(counts), reached, np.array(edges[middle:])))


def _name(label: object) -> str:
    text = " ".join(str(label).split())
    return text if len(text) <= 40 else f"{text[:39]}…"
