"""Slow, obvious twins of okl/compiled/kernelrows.py, by the formulas of okl.compiled.kernelrule."""

from __future__ import annotations

from okl.compiled.kernelrule import KernelRule
from okl.types import FloatArray
from tests.naive.kernelblocks import kernel_value


def squared_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    for i in range(len(row)):
        row[i] = sum((float(s) - float(v)) ** 2 for s, v in zip(supports[:, i], x, strict=True))


def absolute_distances(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    for i in range(len(row)):
        row[i] = sum(abs(float(s) - float(v)) for s, v in zip(supports[:, i], x, strict=True))


def inner_products(row: FloatArray, supports: FloatArray, x: FloatArray) -> None:
    for i in range(len(row)):
        row[i] = sum(float(s) * float(v) for s, v in zip(supports[:, i], x, strict=True))


def kernel_row(row: FloatArray, supports: FloatArray, x: FloatArray, kernel: KernelRule) -> None:
    for i in range(len(row)):
        row[i] = kernel_value(x.tolist(), supports[:, i].tolist(), kernel)


def kernel_self(x: FloatArray, kernel: KernelRule) -> float:
    return kernel_value(x.tolist(), x.tolist(), kernel)
