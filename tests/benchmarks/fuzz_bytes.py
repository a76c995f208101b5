"""Bytes as produced by bad disks, interrupted transfers and manual edits."""

from __future__ import annotations

import numpy as np

MOST_BYTES = 2 * 2**20
ODD = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n",
    b'"',
    b",",
    b":",
    b"-",
    b"1e999",
    b"nan",
    b"[" * 300,
    b"\xed\xa0\x80",
)


def damaged(content: bytes, rng: np.random.Generator, tail: int = 0) -> bytes:
    """Return the content after 1 to 4 mutations.

    tail : half of the mutations are in the last `tail` bytes, where Parquet stores its metadata; 0: anywhere
    """
    for _ in range(int(rng.integers(1, 5))):
        first = max(0, len(content) - tail) if tail and rng.random() < 0.5 else 0
        content = _once(content, rng, first)[:MOST_BYTES]
    return content


def _once(content: bytes, rng: np.random.Generator, first: int) -> bytes:
    position = int(rng.integers(first, max(first + 1, len(content))))
    size = int(2 ** rng.uniform(0, 8))
    kind = rng.choice(
        ["flip", "set", "cut", "drop", "insert", "repeat", "zero", "swap"], p=[0.4, 0.2, *[0.08] * 4, 0.04, 0.04]
    )
    head, body, rest = content[:position], content[position : position + size], content[position + size :]
    if kind in ("flip", "set") and position < len(content):
        new = content[position] ^ 1 << int(rng.integers(8)) if kind == "flip" else int(rng.integers(256))
        return head + bytes([new]) + content[position + 1 :]
    if kind == "cut":
        return head
    if kind == "drop":
        return head + rest
    if kind == "insert":
        return head + ODD[int(rng.integers(len(ODD)))] + body + rest
    if kind == "repeat":
        return head + body * int(rng.integers(2, 5)) + rest
    if kind == "zero":
        return head + bytes(len(body)) + rest
    return head + rest[:size] + body + rest[size:]
