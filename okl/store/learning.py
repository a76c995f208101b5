"""From what was found in the TRAIN rows to one record a column: which values get an input, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from shlex import quote
from typing import NamedTuple

from okl.configuration import IngestSettings
from okl.errors import DataError
from okl.execution.protocol import Execution
from okl.store.columns import Roles
from okl.store.csvfiles import explain_words
from okl.store.encodings import Encoding
from okl.store.fitting import DATE, MOST_VALUES, ColumnPlan, Found, column_plans, look_at_columns
from okl.store.order import MOST_INPUTS
from okl.store.places import place_of
from okl.store.sources import Source

FEW_VALUES = 16  # a column of so few is never taken for an identifier
NUMBERS_SHARE = 0.9  # of the rows of a text column: then its words are more likely mistakes than names
LONGEST_NAME = 60
OTHER, MISSING = "(other)", "(missing)"


class Learnt(NamedTuple):
    """Roles whose features are the inputs, and a sentence for each column that was left out."""

    roles: Roles
    notes: list[str]


def learn_encodings(source: Source, roles: Roles, settings: IngestSettings, execution: Execution | None) -> Learnt:
    """Decide how each column becomes inputs; a table of numbers is left as it is, without being read.

    The most frequent values of a text column, `max_categories` at most (of equally frequent ones the first in the
    order of the alphabet), get an input each, in the order of the alphabet; all others share one. A column most of
    whose values come once, such as an id, tells nothing about other rows: it is left out.

    Raises
    ------
    DataError : numbers among which there are a few words; more inputs than fit; no input left
    """
    plans = column_plans(roles, source.schema, settings)
    mean = settings.missing == "mean"
    if not mean and all(plan.kind == "number" for plan in plans):
        return Learnt(roles, [])
    looked = [plan for plan in plans if mean or plan.kind == "category"]
    found = dict(zip(looked, look_at_columns(source, roles, looked, settings, execution), strict=True))
    taken = {roles.target, *roles.keys, *(plan.name for plan in plans if plan.kind == "number")}
    notes, made = list[str](), dict[str, Encoding | None]()
    for plan in plans:
        if plan.kind == "category":
            check_words(source, plan.name, found[plan], settings)
            note = _left_out(plan.name, found[plan], settings, source.location)
            if note:
                notes.append(note)
                continue
            made[plan.name] = _category(plan.name, found[plan], settings, taken)
        elif plan.kind == "number" and not mean:
            made[plan.name] = None
        else:
            made[plan.name] = _filled(plan, found[plan] if mean else None, taken)
    return Learnt(_with_inputs(roles, made, notes, source.location), notes)


def _with_inputs(roles: Roles, made: dict[str, Encoding | None], notes: Sequence[str], where: str) -> Roles:
    inputs = {name: (name,) if encoding is None else encoding.inputs for name, encoding in made.items()}
    features = tuple(name for names in inputs.values() for name in names)
    if not features:
        raise DataError(f"{where} has no input columns left. {' '.join(notes)}")
    if len(features) > MOST_INPUTS:
        widest = sorted(inputs, key=lambda name: (-len(inputs[name]), name))[:3]
        told = ", ".join(f"{len(inputs[name])} from {name!r}" for name in widest)
        raise DataError(
            f"{where}: its {len(inputs)} columns would make {len(features)} inputs ({told}, ...), but okl holds rows "
            f"dense and takes at most {MOST_INPUTS}. Lower --max-categories, or leave columns out with --drop."
        )
    encodings = tuple(encoding for encoding in made.values() if encoding is not None)
    return replace(roles, features=features, encodings=encodings)


def _category(name: str, found: Found, settings: IngestSettings, taken: set[str]) -> Encoding:
    assert found.values is not None
    ranked = sorted(found.values, key=lambda word: (-found.values[word], word))  # type: ignore[index]
    kept = tuple(sorted(ranked[: settings.max_categories]))
    other, missing = len(ranked) > len(kept), found.missing > 0 and settings.missing != "drop"
    shown = [*(_shortened(word) for word in kept), *([OTHER] if other else []), *([MISSING] if missing else [])]
    inputs = tuple(_unused(f"{name}={word}", taken) for word in shown)
    return Encoding(name, "category", inputs, categories=kept, other=other, missing=missing)


def _filled(plan: ColumnPlan, found: Found | None, taken: set[str]) -> Encoding:
    """A number or date; found : where missing values become the mean."""
    inputs = plan.parts if plan.kind == "number" else tuple(_unused(part, taken) for part in plan.parts)
    if found is None:
        return Encoding(plan.name, plan.kind, inputs, time_zone=plan.time_zone)
    assert found.sums is not None
    fills = tuple(float(total) / found.rows if found.rows else 0.0 for total in found.sums)
    if found.missing:
        inputs = (*inputs, _unused(f"{plan.name}={MISSING}", taken))
    return Encoding(
        plan.name, plan.kind, inputs, missing=found.missing > 0, fills=fills, time_zone=plan.time_zone
    )  # fmt: skip


def _unused(name: str, taken: set[str]) -> str:
    """The name, or with as many strokes as make it one that no column has; it is taken then."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _shortened(word: str) -> str:
    word = " ".join(word.split()) or word
    return word if len(word) <= LONGEST_NAME else word[: LONGEST_NAME - 3] + "..."


def _left_out(name: str, found: Found, settings: IngestSettings, where: str) -> str:
    """Why a text column makes no inputs; "" if it makes some."""
    asked = name in settings.categories
    if found.values is None:
        if asked:
            raise DataError(
                f"{where}: column {name!r} was named as a category, but has more than {MOST_VALUES} values. Group them "
                f"beforehand, or use --drop {quote(name)}."
            )
        return f"Column {name!r} is left out: it is text with more than {MOST_VALUES} different values."
    n = len(found.values)
    if n == 0:
        return f"Column {name!r} is left out: it holds no value in the training rows."
    if not asked and n > FEW_VALUES and 2 * n > found.rows:
        flag = quote(name)
        return (
            f"Column {name!r} is left out: its {n} different values in {found.rows} training rows are names of rows "
            f"rather than categories (--category {flag} takes it all the same, --key {flag} carries it along)."
        )
    return ""


def check_words(source: Source, name: str, found: Found, settings: IngestSettings) -> None:
    """Raise DataError for text that are dates, or numbers of a CSV file among which a few words stand."""
    if name in settings.categories or found.rows == 0:
        return
    if found.dated >= NUMBERS_SHARE * found.rows:
        flag, likely = quote(name), (word for word in sorted(found.values or ()) if re.match(DATE, word))
        such = f", such as {word!r}" if (word := next(likely, "")) else ""
        raise DataError(
            f"{source.location}: column {name!r} is text that reads like dates{such}. Write them as 2026-12-31, in "
            f"Parquet as dates, for --dates; or use --category {flag} to take them for names, --key {flag} to carry "
            f"them along, or --drop {flag} to leave them out."
        )
    if source.kind == "csv" and found.numeric >= NUMBERS_SHARE * found.rows:
        files = {place_of(piece.path): piece.dialect for piece in source.pieces()}
        explain_words(files, source.schema, name)
