"""Tables for a terminal: cells under each other."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> list[str]:
    """Lines with cells under each other, none for no row.

    Parameters
    ----------
    rows : of equally many cells, the header among them
    numbers_from : column from which cells end, rather than begin, under each other; None: no one

    >>> aligned([["a", "b"], ["long", "c"]])
    ['a     b', 'long  c']
    >>> aligned([["a", "b"], ["long", "100"]], numbers_from=1)
    ['a       b', 'long  100']
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    least = len(widths) if numbers_from is None else numbers_from
    return [
        "  ".join(
            cell.ljust(width) if column < least else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
