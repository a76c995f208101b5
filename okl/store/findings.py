"""What a person should know about a data set that is no error: one sentence each, kept in its manifest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from okl.store.dataset import Schema

MOST_SPELLINGS = 3  # sets of spellings that a sentence shows
LONGEST_WORD = 60  # characters of one


def find_warnings(
    schema: Schema, rows_read: int, rows_dropped: int, no_test_rows: bool, task_guessed: bool
) -> list[str]:
    """Sentences about a new data set.

    no_test_rows : a split or holdout was asked for, and left none; task_guessed : from whole numbers in the target
    """
    found = []
    statistics = zip(schema.features, schema.feature_statistics, strict=True)
    if constant := [name for name, column in statistics if column.constant]:
        shown = ", ".join(constant[:5]) + (", ..." if len(constant) > 5 else "")
        effect = "; scaling makes them 0" if schema.scale != "none" else ""
        found.append(
            f"{len(constant)} of {schema.n_features} input columns never change in the training rows: {shown}{effect}."
        )
    if rows_dropped:
        found.append(f"{rows_dropped} of {rows_read} rows were dropped for a missing value.")
    if no_test_rows:
        found.append("No row is a test row: the split or holdout left all of them to train.")
    if task_guessed and len(schema.labels) > 20:
        found.append(
            f"The {len(schema.labels)} whole values of target {schema.target!r} were taken as classes; "
            "use --task regression if they measure something."
        )
    found.extend(_spelling(f"labels of target {schema.target!r}", _words(schema.labels), "classes"))
    for encoding in schema.encodings:
        found.extend(_spelling(f"categories of column {encoding.column!r}", encoding.categories, "inputs"))
    return found


def _words(labels: Iterable[object]) -> list[str]:
    return [label for label in labels if isinstance(label, str)]


def _spelling(what: str, words: Iterable[str], apart: str) -> list[str]:
    """A sentence if some words are alike but for case and spaces; apart : what each of them makes all the same."""
    alike: dict[str, list[str]] = defaultdict(list)
    for word in words:
        alike[" ".join(word.split()).casefold()].append(word)
    spelt = [" and ".join(map(_shown, found)) for found in alike.values() if len(found) > 1]
    if not spelt:
        return []
    shown = "; ".join(spelt[:MOST_SPELLINGS]) + ("; ..." if len(spelt) > MOST_SPELLINGS else "")
    return [
        f"Some {what} differ in case or spaces only: {shown}. They are {apart} of their own; "
        "if they mean the same, write them alike in the source."
    ]


def _shown(word: str) -> str:
    return repr(word if len(word) <= LONGEST_WORD else word[:LONGEST_WORD] + "...")
