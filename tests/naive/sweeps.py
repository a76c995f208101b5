"""Slow twins of okl.compiled.sweeps."""

from __future__ import annotations

from okl.types import FloatArray
from tests.naive.proximal import entropy_prox
from tests.naive.rowpasses import add_rows, multiply_rows


def sweep_box(
    sums: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    curvatures: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
) -> None:
    """Three passes, one after the other."""
    multiply_rows(gradient, rows, signs, vector)
    for i in range(len(points)):
        gradient[i] += curvatures[i] * points[i] + offset
        out[i] = min(max(points[i] - gradient[i] / lipschitz, 0.0), upper[i])
    add_rows(sums, rows, signs, out)


def sweep_entropy(
    sums: FloatArray,
    out: FloatArray,
    gradient: FloatArray,
    rows: FloatArray,
    signs: FloatArray,
    vector: FloatArray,
    points: FloatArray,
    logits: FloatArray,
    upper: FloatArray,
    offset: float,
    lipschitz: float,
) -> None:
    """Three passes, one after the other."""
    multiply_rows(gradient, rows, signs, vector)
    gradient += offset
    entropy_prox(out, points - gradient / lipschitz, signs, upper, lipschitz, 0.0)
    add_rows(sums, rows, signs, out)
