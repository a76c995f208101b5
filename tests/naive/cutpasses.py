"""Slow, obvious twins of okl/compiled/cutpasses.py."""

from __future__ import annotations

from okl.types import FloatArray


def score_rows(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    for i, row in enumerate(rows):
        scores[i] = sum(float(z) * w for z, w in zip(row, weights, strict=True))


def score_rows_of_classes(scores: FloatArray, rows: FloatArray, weights: FloatArray) -> None:
    for k, of_class in enumerate(weights):
        score_rows(scores[:, k], rows, of_class)


def add_sloped_rows(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    for row, slope in zip(rows, slopes, strict=True):
        for j in range(len(sums)):
            sums[j] += slope * float(row[j])


def add_sloped_rows_of_classes(sums: FloatArray, rows: FloatArray, slopes: FloatArray) -> None:
    for k in range(len(sums)):
        add_sloped_rows(sums[k], rows, slopes[:, k])
