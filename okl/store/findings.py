"""What a person should know about a data set that is no error: one sentence each, kept in its manifest."""

from __future__ import annotations

from okl.store.dataset import Schema


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
    return found
