"""Dates and times as numbers that a kernel can compare: how long ago, and where in the year, the week and the day."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.errors import DataError

PARTS = ("years", "year_sin", "year_cos", "week_sin", "week_cos", "day_sin", "day_cos")
DATE_PARTS = PARTS[:5]
DAY_MICROSECONDS = 86_400_000_000
DAYS_TO_2000 = 10_957  # from 1970-01-01
YEAR_DAYS = 365.2425  # on average, in the Gregorian calendar


def is_date(kind: pa.DataType) -> bool:
    """Whether values of a type are dates or timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def has_time(kind: pa.DataType) -> bool:
    """Whether values of a type have a time of day, too."""
    return bool(pa.types.is_timestamp(kind))


def zone_of(kind: pa.DataType) -> str:
    """The time zone of a type, "" for none."""
    return (kind.tz or "") if pa.types.is_timestamp(kind) else ""


def date_parts(column: pa.Array, time_of_day: bool, time_zone: str = "") -> NDArray[np.float64]:
    """Parts of dates or times (7, rows), or of dates alone (5, rows), named by PARTS; NaN where there is none.

    years since 2000-01-01 of 365.2425 days; sine and cosine of the day in its year, of the day in its week (0 on
    Mondays) and of the time of day, each as an angle of 2 pi a period: so December and January are neighbours.

    Parameters
    ----------
    column : dates or timestamps
    time_of_day : whether the time of day counts; without, timestamps are taken as their dates
    time_zone : where instants are told, "" for times that name no zone, which are taken as they are

    Raises
    ------
    DataError : a time zone that this machine does not know
    """
    micros = _local_micros(column, time_zone)
    absent = pc.is_null(micros).to_numpy(zero_copy_only=False)
    since = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    days, rest = np.divmod(since, DAY_MICROSECONDS)
    share = rest / DAY_MICROSECONDS if time_of_day else np.zeros(len(days))
    dates = days.astype("datetime64[D]")
    years = dates.astype("datetime64[Y]")
    first, after = years.astype("datetime64[D]"), (years + 1).astype("datetime64[D]")
    in_year = (dates - first).astype(np.float64) / (after - first).astype(np.float64)
    turns = [in_year, (days + 3) % 7 / 7.0, *([share] if time_of_day else [])]  # 1970-01-01 was a Thursday
    parts = [(days - DAYS_TO_2000 + share) / YEAR_DAYS]
    for turn in turns:
        parts += [np.sin(2.0 * np.pi * turn), np.cos(2.0 * np.pi * turn)]
    found = np.stack(parts)
    found[:, absent] = np.nan
    return found


def _local_micros(column: pa.Array, time_zone: str) -> pa.Array:
    """Microseconds since 1970-01-01 by the clock of a time zone, (rows,) int64."""
    if pa.types.is_null(column.type):
        return column.cast(pa.int64())
    try:
        if time_zone:
            column = pc.local_timestamp(column.cast(pa.timestamp("us", time_zone), safe=False))
        return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    except pa.ArrowException as error:
        why = (str(error).splitlines() or [""])[0].rstrip(". ")
        raise DataError(
            f"Times of the zone {time_zone!r} cannot be told on this machine: {why}. Install tzdata, or store times in "
            "UTC."
        ) from None
