"""Column roles: input, target, key and split."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from shlex import quote
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from okl.data.dataset import INDICES, VALUES, SparseColumns
from okl.data.encoder import Encoder, encoder_by
from okl.data.values import MOST_NAMED, is_date_or_time, is_number, is_text, value_type, values_hint
from okl.foundation.errors import ConfigError, DataError, listed
from okl.foundation.settings import IngestSettings, last_share_of

if TYPE_CHECKING:
    from okl.data.dataset import Encoding
    from okl.data.ingest.sources import Source

# Column roles from names and types.

SPLIT = "split"
ID_NAME = re.compile(r"(?i:(^|[_ .-])id$)|[a-z]I[dD]$")  # of a column that names persons or things
SHARE = re.compile(r"0?,\d+$")  # with a decimal comma


@dataclass(frozen=True)
class Roles:
    """Names of columns by their role.

    features : inputs; before `learn_encodings` has read the rows, the columns that they come from
    split : a text column of train and test; holdout : a column that is 1 (or true) for test rows
    share : test rows drawn by a hash of the row number, 0 for none; strata : shares of rare classes, by their text
    last : share of test rows at the end, 0 for none; first_test_row : the first of them, once rows have been counted
    group : a column by whose values test rows are drawn in place of row numbers, one of the keys
    encodings : how inputs are made that are no columns of numbers
    fold_means : encodings of columns with target means for TRAIN rows, see `okl.data.ingest.target_means`
    sparse : inputs that are sparse rows; texts : columns whose terms they will be, before these have been counted
    """

    features: tuple[str, ...]
    target: str
    keys: tuple[str, ...]
    split: str | None = None
    holdout: str | None = None
    share: float = 0.0
    strata: tuple[tuple[str, float], ...] = ()
    last: float = 0.0
    first_test_row: int | None = None
    group: str | None = None
    encodings: tuple[Encoding, ...] = ()
    fold_means: tuple[Encoding, ...] = ()
    sparse: SparseColumns | None = None
    texts: tuple[str, ...] = ()

    @property
    def names_test_rows(self) -> bool:
        """Return whether settings or source say which rows are test rows."""
        return bool(self.split or self.holdout or self.share or self.last)

    @property
    def encoder(self) -> Encoder:
        """Return the encoder of the inputs."""
        return encoder_by(self.features, self.encodings)

    @property
    def exact_columns(self) -> tuple[str, ...]:
        """Return the columns whose values are read as they are written."""
        return self.keys if self.group is None else (*self.keys, self.group)

    @property
    def other_columns(self) -> list[str]:
        """Return the columns to read in addition to the inputs: target, keys, then split, holdout or group."""
        rest = [name for name in (self.split, self.holdout, self.group) if name is not None and name not in self.keys]
        sparse = [] if self.sparse is None else [text.column for text in self.sparse.texts] or [INDICES, VALUES]
        return [self.target, *self.keys, *rest, *sparse]


def assign_roles(source: Source, settings: IngestSettings) -> Roles:
    """Decide what each column is for.
    Raises DataError : a named column is not there, or an input is none of a number, text or a date that may be split
    Raises ConfigError : one column in two roles, or both a split column and a holdout
    """
    columns, types = source.columns, dict(zip(source.schema.names, source.schema.types, strict=True))
    if settings.target not in columns:
        missing = missing_column(settings.target, columns, source.location, "target")
        raise DataError(f"{missing} Name the column to predict: --target NAME.{values_hint(columns)}")
    named = {"key": settings.keys, "drop": settings.drop, "category": settings.categories, "text": settings.text}
    named["group"] = groups = () if settings.group is None else (settings.group,)
    for what, names in named.items():
        for name in names:
            check_present(name, columns, source.location, what)
    share, last, holdout = _holdout(settings, columns, source.location)
    split = settings.split_column
    if split is not None:
        check_present(split, columns, source.location, "split")
        if not is_text(types[split]):
            raise DataError(
                f"{source.location}: split column {split!r} is of type {types[split]}; expected text, train or test. "
                f"A 0/1 column goes to holdout."
            )
    elif SPLIT in columns and is_text(types[SPLIT]) and SPLIT not in (settings.target, *settings.keys, *settings.drop):
        split = SPLIT
    if split is not None and (share or last or holdout):
        raise ConfigError(
            f"{source.location}: the split column {split!r} and a holdout both choose the test rows; expected one. "
            f"Drop the column, or leave holdout out."
        )
    _check_disjoint(settings, split, holdout)
    for name in settings.text:
        if not is_text(types[name]):
            raise DataError(
                f"{source.location}: column {name!r}, named by --text, is of type {types[name]}; expected text. "
                "Remove --text."
            )
    n_sparse = source.pieces[0].n_sparse
    sparse = SparseColumns(n_sparse, unit_length=settings.normalise == "l2") if n_sparse else None
    keys = tuple(dict.fromkeys((*settings.keys, *groups)))
    apart = {settings.target, *keys, *settings.drop, split, holdout, *settings.text}
    apart |= {INDICES, VALUES} if sparse is not None else set()
    features = tuple(name for name in columns if name not in apart)
    if len(features) > 1 and "" not in settings.categories:  # without a name: most often an index that pandas wrote
        features = tuple(filter(None, features))
    if settings.dates == "drop":
        features = tuple(name for name in features if not is_date_or_time(types[name]))
    if features or not (sparse or settings.text):
        _check_features(features, types, settings, source.location)
    return Roles(
        features, settings.target, keys, split, holdout, share, last=last, group=settings.group, sparse=sparse,
        texts=settings.text,
    )  # fmt: skip


def check_present(name: str, columns: Sequence[str], where: str, what: str) -> None:
    """Raise DataError unless a column is there."""
    if name not in columns:
        raise missing_column(name, columns, where, what)


def missing_column(name: str, columns: Sequence[str], where: str, what: str) -> DataError:
    """Return the error for a missing column, with the closest names."""
    close = near_names(name, columns, 3, 0.5)
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    if what == "holdout" and SHARE.match(name):
        hint = f"A share of the rows is written {name.replace(',', '.')}. "
    elif what == "holdout" and not hint:
        hint = "The last rows, as the newest of sorted ones, are --holdout last. "
    several = what in ("key", "drop", "category", "text") and "," in name
    if several and set(parts := [part.strip() for part in name.split(",")]) <= {*columns}:
        hint = f"Name one at a time: {' '.join(f'--{what} {quote(part)}' for part in parts)}. "
    ends = what == "target" and len(columns) > MOST_NAMED  # a target is often the last column
    shown = listed(columns, MOST_NAMED) if not ends else ", ".join([*columns[:4], "...", *columns[-4:]])
    return DataError(f"{where} has no {what} column {name!r}. {hint}Its columns are {shown}.")


def near_names(name: str, names: Collection[str], most: int = 1, cutoff: float = 0.75) -> list[str]:
    """Return the names that are most similar to a name, whatever their case and the spaces around them.

    >>> near_names("city", ["City ", "age", "cities"])
    ['City ']
    """
    plain = {other: other.strip().casefold() for other in names}
    close = get_close_matches(name.strip().casefold(), dict.fromkeys(plain.values()), most, cutoff)
    return sorted((other for other in names if plain[other] in close), key=lambda other: close.index(plain[other]))[
        :most
    ]


def label_remedy(label: object, labels: Collection[object]) -> str:
    """Return what to do about rows with a label that training did not have.

    >>> label_remedy("YES", ("no", "yes"))
    "It differs from 'yes' in case or spaces only: write labels as in training."
    """
    alike = near_names(str(label), [one for one in labels if isinstance(one, str)], 1, 1.0)
    if alike:
        return f"It differs from {alike[0]!r} in case or spaces only: write labels as in training."
    return "Remove such rows, or train a new model with them."


def share_of(holdout: float | str | None) -> float | None:
    """Return the share of rows that a holdout states, as a number or as text; None for a column name or None.

    >>> share_of(0.2), share_of("0.2"), share_of("is_test"), share_of("1"), share_of(None)
    (0.2, 0.2, None, None, None)
    """
    try:
        share = float(holdout) if holdout is not None else 0.0
    except ValueError:
        return None
    return share if 0.0 < share < 1.0 else None


def _holdout(settings: IngestSettings, columns: Sequence[str], where: str) -> tuple[float, float, str | None]:
    """Return share, share at the end and column of a holdout; the name of a column means that column."""
    if settings.holdout is None:
        return 0.0, 0.0, None
    if isinstance(settings.holdout, str) and settings.holdout in columns:
        return 0.0, 0.0, settings.holdout
    if last := last_share_of(settings.holdout):
        return 0.0, last, None
    try:
        share = float(settings.holdout)
    except ValueError:  # no number, so it is a name, and not one of the columns
        if percent := re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*%\s*", str(settings.holdout)):
            raise ConfigError(
                f"holdout = {settings.holdout}; expected a share above 0 and below 1, or a column: write "
                f"{float(percent[1]) / 100:g}."
            ) from None
        raise missing_column(str(settings.holdout), columns, where, "holdout") from None
    if not 0.0 < share < 1.0:
        how = " To train on all rows, train on a data set that okl ingest made without it." if share == 0.0 else ""
        raise ConfigError(f"holdout = {settings.holdout}; expected a share above 0 and below 1, or a column.{how}")
    return share, 0.0, None


def _check_disjoint(settings: IngestSettings, split: str | None, holdout: str | None) -> None:
    uses = [("target", settings.target), *(("key", name) for name in settings.keys)]
    named = {"drop": settings.drop, "category": settings.categories, "text": settings.text}
    uses += [(what, name) for what, names in named.items() for name in names]
    uses += [(what, name) for what, name in (("group", settings.group), ("split", split), ("holdout", holdout)) if name]
    owners: dict[str, str] = {}
    for what, name in uses:
        if name in owners and {owners[name], what} not in ({"key", "split"}, {"key", "holdout"}, {"key", "group"}):
            raise ConfigError(
                f"column {name!r} is named as {owners[name]} and as {what}; expected one use of a column."
            )
        owners[name] = what


def _check_features(
    features: Sequence[str], types: dict[str, pa.DataType], settings: IngestSettings, where: str
) -> None:
    if not features:
        raise DataError(f"{where} has no input columns: all are target, keys, split or dropped. Expected at least one.")
    for name in features:
        kind = types[name]
        out = f"--key {quote(name)} to copy it to the scores, or --drop {quote(name)} to leave it out"
        if is_date_or_time(kind) and settings.dates == "error" and name not in settings.categories:
            too = " If numbers are missing, too: --missing mean." if settings.missing == "error" else ""
            raise DataError(
                f"{where}: column {name!r} holds dates ({kind}). Use --dates parts to learn from years and positions "
                f"in the year, the week and the day, --dates drop to leave dates out, {out}.{too}"
            )
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            raise DataError(
                f"{where}: column {name!r} holds bytes that are not UTF-8 text. Save text as UTF-8 (in Parquet as "
                f"type string), leave it out (--drop {quote(name)}) or copy it to the scores (--key {quote(name)})."
            )
        if not (is_number(kind) or is_text(kind) or is_date_or_time(kind)):
            how = " (in pandas: .dt.total_seconds())" if pa.types.is_duration(kind) else ""
            raise DataError(
                f"{where}: column {name!r} is of type {kind}, but inputs are numbers, bools, text or dates. "
                f"Convert it{how}, leave it out (--drop {quote(name)}) or copy it to the scores (--key {quote(name)})."
            )


# Columns that look like row identifiers: reported, never dropped.

FIRST_ROWS = 16_384  # by a count of rows: batches are cut otherwise on workers, and warnings must be the same
FEW_ROWS = 100  # in so few, measures too may all differ


def _are_spread_evenly(values: pa.ChunkedArray) -> bool:
    """Return whether the median is near the middle, as of numbers that are handed out; not of skewed measures."""
    ends, middle = pc.min_max(values).as_py(), pc.quantile(values)[0].as_py()
    width = ends["max"] - ends["min"]
    return bool(abs(middle - ends["min"] - 0.5 * width) <= 0.25 * width)


def identifier_warnings(source: Source, roles: Roles, categories: Sequence[str]) -> list[str]:
    """Return a note for each input column of whole numbers that all differ in the first rows, or that is named an id.

    Only the first FIRST_ROWS rows are read, and only of such columns.

    roles : before encodings are fitted; categories : columns whose numbers are names
    """
    kinds = {name: value_type(source.schema.field(name).type) for name in roles.features if name not in categories}
    parts = {
        name: list[pa.Array]()
        for name, kind in kinds.items()
        if pa.types.is_integer(kind) or pa.types.is_float64(kind)  # whole numbers with missing ones are often floats
    }
    rows, repeated = 0, list[str]()
    try:
        for read in source.batches([*parts], exact=[*parts]) if parts else ():
            batch = read.batch.slice(0, FIRST_ROWS - rows)
            rows += batch.num_rows
            for name in list(parts):
                parts[name].append(batch.column(name).drop_null())
                values = pa.chunked_array(parts[name])
                whole = pa.types.is_integer(values.type) or pc.all(pc.equal(pc.floor(values), values)).as_py()
                if not whole or (distinct := pc.count_distinct(values).as_py()) < len(values):
                    named = whole and roles.group is None and ID_NAME.search(name)
                    if named and FEW_ROWS < len(values) >= 2 * distinct > 2:
                        repeated.append(name)
                    del parts[name]
            if rows == FIRST_ROWS or not parts:
                break
    except DataError:  # such as a word among numbers: reading all rows finds it, with a better message
        return []
    where = f"the first {rows:,} rows" if rows == FIRST_ROWS else f"its {rows:,} rows"
    return [
        f"Column {name!r} holds whole numbers that all differ in {where}, like an id; it is used as an input all "
        f"the same (--key {quote(name)} copies it to the scores, --drop {quote(name)} leaves it out)."
        for name, values in parts.items()
        if sum(map(len, values)) > FEW_ROWS and _are_spread_evenly(pa.chunked_array(values))
    ] + [
        f"Several rows have the same {name!r}. If new rows are of others: --group {quote(name)} keeps the rows of one "
        "together, so that test rows are of others, too."
        for name in repeated
    ]
