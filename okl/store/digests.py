"""Digests of files, by which a source is known again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from okl.store.opening import open_binary
from okl.store.places import Place


def file_digest(file: Place, advance: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file, hexadecimal; advance is told the bytes of each block."""
    digest = hashlib.sha256()
    with open_binary(file) as stream:
        while block := stream.read(2**20):
            digest.update(block)
            if advance is not None:
                advance(len(block))
    return digest.hexdigest()


def combined_digest(files: Iterable[Place], digests: Iterable[str]) -> str:
    """SHA-256 of the names and digests of files, hexadecimal."""
    total = hashlib.sha256()
    for file, digest in zip(files, digests, strict=True):
        total.update(f"{file.name}\0{digest}\n".encode())
    return total.hexdigest()
