"""What a graph says of its inputs: how the parts of dates are computed, and what stands for a missing value."""

from __future__ import annotations

from okl.store.dataset import Schema
from okl.store.dateparts import PARTS, YEAR_DAYS

_DATES = ("date", "timestamp")
PART_FORMULAS = {
    "years": f"days / {YEAR_DAYS}",
    "year_sin": "sin(2 * pi * day_of_year / days_of_year)",
    "year_cos": "cos(2 * pi * day_of_year / days_of_year)",
    "week_sin": "sin(2 * pi * weekday / 7)",
    "week_cos": "cos(2 * pi * weekday / 7)",
    "day_sin": "sin(2 * pi * share_of_day)",
    "day_cos": "cos(2 * pi * share_of_day)",
}
"""Each of PARTS, see `okl.store.dateparts.date_parts`, as a Python expression of what `_TERMS` names."""
_TERMS = (
    "days is the time since 2000-01-01 in days (whole ones where a column has no parts of the day), day_of_year counts "
    "from 0, days_of_year is 365 or 366, weekday is 0 on Mondays, and share_of_day is 0 at midnight and 0.5 at noon"
)


def date_formulas(schema: Schema) -> dict[str, str]:
    """How each input that is a part of a date is computed, by its name; {} for models without dates."""
    of_dates = [encoding for encoding in schema.encodings if encoding.kind in _DATES]
    return {
        name: PART_FORMULAS[part] for encoding in of_dates for name, part in zip(encoding.inputs, PARTS, strict=False)
    }


def input_sentences(schema: Schema) -> str:
    """What stands for a missing value and what becomes of it, and what parts of dates are."""
    kinds = {encoding.kind for encoding in schema.encodings}
    filled = {"mean": "the mean of the training rows", "zero": "0"}.get(schema.missing)
    numbers = "number or part of a date" if kinds.intersection(_DATES) else "number"
    if filled is None or (schema.missing == "mean" and not schema.encodings):
        said = ["Expected are finite numbers: of a row with a NaN the scores are NaN."]
    else:
        said = [f"NaN stands for a missing {numbers}, which becomes {filled}; others are expected to be finite."]
    if "category" in kinds:
        dropped = ", and the scores of its row are NaN" if schema.missing == "drop" else ""
        said.append(f'"" stands for missing text{dropped}.')
    if kinds.intersection(_DATES):
        zones = {one.column: one.time_zone for one in schema.encodings if one.time_zone}
        clocks = "".join(f"; {column!r} is told by the clock of {zone}" for column, zone in zones.items())
        said.append(f"Parts of dates are computed as the property 'dates' says, where {_TERMS}{clocks}.")
    return " ".join(said)
