"""Constraints on scores: grammar, quantities, rows, limits and measurement."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okl.compiled.constrained import Limits
from okl.compiled.jit import one_blas_thread
from okl.compiled.oco import SQUARED, ConstraintRows, make_rows, make_work, maximise_dual, proximal_step
from okl.data.dataset import Dataset, Schema, Shard
from okl.data.encoder import number_of_word
from okl.data.execution import Execution
from okl.data.ingest.columns import missing_column
from okl.data.reading import read_columns, read_rows
from okl.features.base import FeatureMap
from okl.features.predictors import Predictor
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.types import Doubles, FloatArray, Integers, Precision
from okl.foundation.validation import check_positive
from okl.solvers.oco.problem import find_conflict
from okl.solvers.oco.sets import Ball


@dataclass(frozen=True)
class ConstraintGroup:
    """The rows where a column has a value. value : as written; a number is compared as a number, text as text"""

    column: str
    value: str

    def __str__(self) -> str:
        return f"{_quoted(self.column)}={_quoted(self.value)}"


class Quantity:
    """Base of what a constraint limits: a mean over rows, each of which has a weight."""

    @property
    def weighings(self) -> tuple[Covariance | ConstraintGroup, ...]:
        """Return what gives rows their weights."""
        raise NotImplementedError

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(weighing.column for weighing in self.weighings))


@dataclass(frozen=True)
class Covariance(Quantity):
    """Mean over rows of (score - mean score) (value - mean value) of a column of numbers, in the column's unit."""

    column: str

    def __str__(self) -> str:
        return f"covariance({_quoted(self.column)})"

    @property
    def weighings(self) -> tuple[Covariance]:
        return (self,)


@dataclass(frozen=True)
class GroupMean(Quantity):
    """Mean score of the rows of a group."""

    group: ConstraintGroup

    def __str__(self) -> str:
        return f"mean({self.group})"

    @property
    def weighings(self) -> tuple[ConstraintGroup]:
        return (self.group,)


@dataclass(frozen=True)
class MeanDifference(Quantity):
    """Mean score of the rows of the first group, less that of the second."""

    first: ConstraintGroup
    second: ConstraintGroup

    def __str__(self) -> str:
        return f"difference({self.first}, {self.second})"

    @property
    def weighings(self) -> tuple[ConstraintGroup, ConstraintGroup]:
        return self.first, self.second


@dataclass(frozen=True)
class Constraint:
    """low <= quantity <= high, one of which may be infinite; ConfigError for limits that are none."""

    quantity: Quantity
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        finite = math.isfinite(self.low) or math.isfinite(self.high)
        if not finite or not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise ConfigError(
                f"{self.quantity} has limits [{self.low:g}, {self.high:g}]; expected a lower limit, "
                "an upper limit that is not below it, or both."
            )

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"{self.quantity} >= {self.low:g}"
        if math.isinf(self.low):
            return f"{self.quantity} <= {self.high:g}"
        if self.low == -self.high:
            return f"abs({self.quantity}) <= {self.high:g}"
        return f"{self.low:g} <= {self.quantity} <= {self.high:g}"


@dataclass(frozen=True)
class NormBound:
    """The ball ||w|| <= high that weights stay in; ConfigError unless high is finite and above 0."""

    high: float

    def __post_init__(self) -> None:
        check_positive("norm", self.high)

    def __str__(self) -> str:
        return f"norm <= {self.high:g}"


def columns_of(constraints: tuple[Constraint, ...]) -> tuple[str, ...]:
    """Return the columns that constraints use, each once, in their order."""
    return tuple(dict.fromkeys(name for constraint in constraints for name in constraint.quantity.columns))


def _quoted(word: str) -> str:
    return word if word and not set(word) & set(" \t(),=<>'\"") else f'"{word}"'


# The grammar of constraints, as `--constraint` takes them.
#
#     constraint := "abs(" quantity ")" "<=" number
#                 | quantity ("<=" | ">=") number
#                 | number "<=" quantity "<=" number
#                 | "norm" "<=" number
#     quantity   := "covariance(" COLUMN ")"              of the score with a column of numbers
#                 | "difference(" group "," group ")"     of the mean scores of two groups
#                 | "mean(" group ")"                     score of the rows of a group
#     group      := COLUMN "=" VALUE
#
# A column or a value with spaces or signs is quoted, single or double.

TAKES = (
    "abs(QUANTITY) <= NUMBER, QUANTITY <= NUMBER, QUANTITY >= NUMBER or norm <= NUMBER, where a quantity is "
    "covariance(COLUMN), difference(COLUMN=VALUE, COLUMN=VALUE) or mean(COLUMN=VALUE), and names with spaces are in "
    "quotes"
)
_TOKEN = re.compile(r"""\s*("[^"]*"|'[^']*'|<=|>=|[(),=]|[^\s(),=<>"']+)""")
_SIGNS = ("<=", ">=", "(", ")", ",", "=")


def parse_constraints(texts: Sequence[str]) -> tuple[tuple[Constraint, ...], float | None]:
    """Return constraints of several texts, and the smallest norm bound or None; ConfigError for bad or double ones."""
    constraints = [parse_constraint(text) for text in texts]
    if twice := [str(constraint) for index, constraint in enumerate(constraints) if constraint in constraints[:index]]:
        raise ConfigError(f"The constraint {twice[0]!r} is given twice. Remove one.")
    bounds = [constraint.high for constraint in constraints if isinstance(constraint, NormBound)]
    return tuple(constraint for constraint in constraints if isinstance(constraint, Constraint)), min(
        bounds, default=None
    )


def parse_constraint(text: str) -> Constraint | NormBound:
    """Return the constraint that a text means.

    Raises ConfigError : a text that does not follow the grammar; the message shows the position

    Examples
    --------
    >>> str(parse_constraint("abs(covariance(age)) <= 0.01"))
    'abs(covariance(age)) <= 0.01'
    >>> parse_constraint("difference('job title'=clerk, sex=1) >= -0.2").low
    -0.2
    """
    return _Parser(text).constraint()


class _Parser:
    """Reads a text token by token."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, position = text, list[str](), 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise self._wrong(f"{text[position:].strip()!r} cannot be read")
            self._tokens.append(match[1])
            position = match.end()
        self._next = 0

    def constraint(self) -> Constraint | NormBound:
        first = self._peek()
        if first == "norm":
            self._take("norm", "<=")
            constraint: Constraint | NormBound = NormBound(self._number())
        elif first == "abs":
            constraint = self._absolute()
        else:
            constraint = self._sided()
        if (more := self._peek()) != "":
            raise self._wrong(f"unexpected {more!r} at the end")
        return constraint

    def _absolute(self) -> Constraint:
        self._take("abs", "(")
        quantity = self._quantity()
        self._take(")", "<=")
        high = self._number()
        if high < 0.0:
            raise self._wrong(f"an absolute value cannot be at most {high:g}")
        return Constraint(quantity, -high, high)

    def _sided(self) -> Constraint:
        low, high = -math.inf, math.inf
        if len(self._tokens) > 1 and self._tokens[1] == "<=":  # a number comes first
            low = self._number()
            self._take("<=")
        quantity = self._quantity()
        sign = self._peek()
        if sign not in ("<=", ">=") or (sign == ">=" and low > -math.inf):
            raise self._wrong(f"'<=' or '>=' is expected after {str(quantity)!r}")
        self._take(sign)
        if sign == "<=":
            high = self._number()
        else:
            low = self._number()
        return Constraint(quantity, low, high)

    def _quantity(self) -> Quantity:
        name = self._peek()
        if name not in ("covariance", "difference", "mean"):
            raise self._wrong(f"{name or 'the end'!r} is not a quantity that can be constrained")
        self._take(name, "(")
        if name == "covariance":
            quantity: Quantity = Covariance(self._word("a column"))
        elif name == "mean":
            quantity = GroupMean(self._group())
        else:
            first = self._group()
            self._take(",")
            quantity = MeanDifference(first, self._group())
        self._take(")")
        return quantity

    def _group(self) -> ConstraintGroup:
        column = self._word("a column")
        self._take("=")
        return ConstraintGroup(column, self._word("a value"))

    def _word(self, what: str) -> str:
        word = self._peek()
        if word in ("", *_SIGNS):
            raise self._wrong(f"expected {what} at {word or 'the end'!r}")
        self._next += 1
        return word[1:-1] if word[0] in "\"'" else word

    def _number(self) -> float:
        word = self._word("a number")
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._wrong(f"{word!r} is not a finite number")
        return value

    def _take(self, *tokens: str) -> None:
        for token in tokens:
            if self._peek() != token:
                raise self._wrong(f"expected {token!r} at {self._peek() or 'the end'!r}")
            self._next += 1

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _wrong(self, why: str) -> ConfigError:
        return ConfigError(f"constraint {self._text!r}: {why}. Expected {TAKES}.")


# Constrained columns: keys, or inputs that are not learned from.

Columns = Mapping[str, NDArray[Any]]
"""Values (rows,) of columns by name: float32 where stored so, float64 for other numbers, objects for text."""

_FLOAT32_TOLD_APART = 2.0**24  # whole numbers up to here
_TRUTH = {"true": 1.0, "false": 0.0}


def check_columns(schema: Schema, constraints: tuple[Constraint, ...], where: str) -> None:
    """Raise DataError if a constraint uses a column that is neither an input nor a key."""
    available = (*schema.features, *schema.keys)
    for name in columns_of(constraints):
        if name in schema.source_columns and name not in available:
            raise DataError(
                f"{where}: the constrained column {name!r} was encoded as inputs and is not stored "
                f"itself. Train on or ingest the source with --key {name}."
            )
        if name not in available:
            raise missing_column(name, (*schema.source_columns, *schema.keys), where, "constrained")


def without_features(data: Dataset, names: Sequence[str]) -> Dataset:
    """Return the same shards, some of whose inputs are only carried along, as keys are.

    Other inputs of the same source column, such as the one of its missing values, are left out with them.

    Raises ConfigError : no input would be left
    """
    schema, apart = data.schema, set(names)
    encodings = tuple(encoding for encoding in schema.encodings if apart.isdisjoint(encoding.inputs))
    moved = tuple(name for name in schema.features if name in apart)
    apart |= {name for encoding in schema.encodings if encoding not in encodings for name in encoding.inputs}
    indices = [index for index, name in enumerate(schema.features) if name not in apart]
    if len(indices) == len(schema.features):
        return data
    if not indices and schema.sparse is None:
        raise ConfigError(
            f"{data.folder}: constraints use every input column, so that no input is left for "
            "training. Set --learn-sensitive to train on these columns too."
        )
    statistics = schema.feature_statistics
    return replace(
        data,
        schema=replace(
            schema,
            features=tuple(schema.features[index] for index in indices),
            feature_statistics=tuple(statistics[index] for index in indices) if statistics else (),
            keys=(*schema.keys, *moved),
            encodings=encodings,
            squashed=tuple(column for column in schema.squashed if column.name not in apart),
        ),
    )


def read_side(data: Dataset, shard: Shard, group: int, names: Sequence[str]) -> Columns:
    """Return values of columns in a row group, in its order, not scaled; DataError for bad shards or whole numbers."""
    if not names:
        return {}
    table = read_columns(data, shard, group, names)
    return {name: values_of(table.column(name), name) for name in names}


def values_of(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return values (rows,) of a column: floats, NaN if missing, or objects; DataError for whole numbers above 2^53."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        filled = pc.fill_null(pc.cast(column, pa.float32()), float("nan"))
        return np.asarray(filled.to_numpy(), dtype=np.float32)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            filled = pc.fill_null(pc.cast(column, pa.float64()), float("nan"))
        except pa.ArrowInvalid:
            raise DataError(
                f"Column {name!r}, which a constraint uses, has whole numbers beyond 2^53, which "
                "float64 cannot represent. Convert it to text or to smaller numbers before ingest."
            ) from None
        return np.asarray(filled.to_numpy(), dtype=np.float64)
    return np.array(column.cast(pa.string()).to_pylist(), dtype=object)


def members(group: ConstraintGroup, columns: Columns) -> Doubles:
    """Return 1 for rows of a group, 0 for others, (rows,); DataError for whole numbers above 2^24 in float32."""
    values = columns[group.column]
    if values.dtype == object:
        return _of_word(values, group.value)
    try:
        wanted = _TRUTH[group.value.lower()] if group.value.lower() in _TRUTH else float(group.value)
    except ValueError:
        return np.zeros(len(values))
    if values.dtype == np.float32:
        if abs(wanted) > _FLOAT32_TOLD_APART:
            raise DataError(
                f"{group}: column {group.column!r} is stored as float32, which rounds whole numbers "
                f"beyond 2^24. Ingest the source with --key {group.column} to store exact values."
            )
        wanted = float(np.float32(wanted))  # inputs are stored so: 0.1 is meant there, too
    equal: Doubles = (values == wanted).astype(np.float64)
    return equal


def _of_word(values: NDArray[Any], wanted: str) -> Doubles:
    """Return 1 for text (rows,) equal to a word, or to the same number in other digits."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    number = number_of_word(wanted)
    alike = [
        word == wanted or (number is not None and number_of_word(word) == number)
        for word in encoded.dictionary.to_pylist()
    ]
    matches = pa.array(alike, pa.bool_()).take(encoded.indices)
    return np.asarray(matches.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.float64)


def numbers(quantity: Covariance, columns: Columns, where: str) -> Doubles:
    """Return values (rows,) of numbers, also as text such as 01; DataError for other text or a missing value."""
    values = columns[quantity.column]
    if values.dtype == object:
        values = _in_digits(values)
    if values.dtype == object:
        raise DataError(
            f"{where}: column {quantity.column!r} holds text, but a covariance needs numbers. Use "
            f"difference({quantity.column}=..., {quantity.column}=...) of two of its values."
        )
    if not np.isfinite(values).all():
        raise DataError(
            f"{where}: column {quantity.column!r} has missing values, but a covariance needs all "
            "values. Fill them, or drop such rows before ingest."
        )
    return np.asarray(values, dtype=np.float64)


def _in_digits(values: NDArray[Any]) -> NDArray[Any]:
    """Return the text (rows,) as float64, NaN where one is missing; as it is where a word is no number."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    numbers = [number_of_word(word) for word in encoded.dictionary.to_pylist()]
    if None in numbers or not numbers:
        return values
    read = pa.array(numbers, pa.float64()).take(encoded.indices)
    return np.asarray(read.fill_null(float("nan")).to_numpy(zero_copy_only=False))


# Row weights of the quantities.

Weighing = None | Covariance | ConstraintGroup
"""None: every row weighs 1; a covariance: the value of its column; a group: 1 for its rows, otherwise 0."""


@dataclass(frozen=True)
class Weighings:
    """The weighings that some constraints are made of, each once; the first is that of all rows."""

    constraints: tuple[Constraint, ...]

    @property
    def all(self) -> tuple[Weighing, ...]:
        """Return all constraints in a fixed order."""
        return tuple(dict.fromkeys((None, *(one for each in self.constraints for one in each.quantity.weighings))))

    @property
    def places(self) -> dict[Weighing, int]:
        """Return the place of each weighing in `all`."""
        return {weighing: index for index, weighing in enumerate(self.all)}

    def of(self, columns: Columns, rows: int, where: str) -> Doubles:
        """Return weights of rows, (weighings, rows)."""
        parts = []
        for weighing in self.all:
            if weighing is None:
                parts.append(np.ones(rows))
            elif isinstance(weighing, Covariance):
                parts.append(numbers(weighing, columns, where))
            else:
                parts.append(members(weighing, columns))
        return np.array(parts)

    def combined(self, products: Doubles, totals: Doubles) -> Doubles:
        """Return the quantities of the constraints, (constraints, ...), from sums of weight times what is averaged.

        products : (weighings, ...), sums of weight times value; totals : (weighings,), sums of weights
        """
        mean, rows, means = products[0] / totals[0], totals[0], []
        for constraint in self.constraints:
            indices = [self.places[weighing] for weighing in constraint.quantity.weighings]
            if isinstance(constraint.quantity, Covariance):
                (index,) = indices
                means.append(products[index] / rows - totals[index] / rows * mean)
            else:
                means.append(reduce(np.subtract, [products[index] / totals[index] for index in indices]))
        return np.array(means)


# Constraint rows in a map's columns, by one `sum`.

BLOCK_ROWS = 1024  # of features that are made float64 at a time
MOST_SEEN = 8


@dataclass(frozen=True, eq=False)
class RowSums:
    """Sums over rows, float64.

    products : (weighings, n_columns), of weight times features; totals : (weighings,), of weights
    counts : (weighings,), rows whose weight is not 0; seen : some values of the groups' columns
    """

    products: Doubles
    totals: Doubles
    counts: Integers
    seen: dict[str, tuple[str, ...]]

    def plus(self, other: RowSums) -> RowSums:
        return RowSums(
            self.products + other.products,
            self.totals + other.totals,
            self.counts + other.counts,
            {name: _some({*values, *other.seen[name]}) for name, values in self.seen.items()},
        )


def add_sums(parts: Sequence[RowSums]) -> RowSums:
    """Add parts up in the order given."""
    return reduce(RowSums.plus, parts)


def sums_of(weighings: Weighings, features: FloatArray, columns: Columns, where: str) -> RowSums:
    """Return sums of rows in memory: features (rows, n_columns) and the columns of constraints."""
    weights = weighings.of(columns, len(features), where)
    products = np.zeros((len(weights), features.shape[1]))
    with one_blas_thread():
        for first in range(0, len(features), BLOCK_ROWS):
            part = slice(first, first + BLOCK_ROWS)
            products += weights[:, part] @ features[part].astype(np.float64)
    names = {weighing.column for weighing in weighings.all if isinstance(weighing, ConstraintGroup)}
    values = {
        name: _some({str(value).removesuffix(".0") for value in np.unique(columns[name].astype(str))})
        for name in sorted(names)
    }
    return RowSums(products, weights.sum(axis=1), np.count_nonzero(weights, axis=1), values)


def _read_groups(
    data: Dataset, weighings: Weighings, shard: Shard, precision: Precision
) -> Iterator[tuple[FloatArray, Columns, str]]:
    """Return inputs and constrained columns of each row group of a shard, and the name of the group for messages."""
    for group in range(len(shard.row_groups)):
        columns = read_side(data, shard, group, columns_of(weighings.constraints))
        inputs = read_rows(data, shard, (group,), precision).inputs
        yield inputs, columns, f"{shard.path}, row group {group}"


@dataclass(frozen=True, eq=False)
class SumRows:
    """Work on one shard: its part of the sums."""

    data: Dataset
    weighings: Weighings

    def __call__(self, shard: Shard, feature_map: FeatureMap) -> RowSums:
        """Return sums over the rows of a shard, row group by row group."""
        return add_sums(
            [
                sums_of(self.weighings, feature_map.transform(inputs), columns, where)
                for inputs, columns, where in _read_groups(self.data, self.weighings, shard, feature_map.precision)
            ]
        )


def estimate_rows(
    data: Dataset, constraints: tuple[Constraint, ...], feature_map: FeatureMap, execution: Execution
) -> tuple[Doubles, RowSums]:
    """Return rows C (constraints, n_columns) with C w the quantities of all training rows, and the sums they come from.

    One pass; parts are added up in shard order, so that the bits do not depend on who computed them.

    Raises ConfigError : a group without a training row; DataError : a column that does not fit its constraint
    """
    weighings = Weighings(constraints)
    sums: RowSums = execution.sum(SumRows(data, weighings), data.split("train"), feature_map, add_sums)
    return rows_from(weighings, sums), sums


def rows_from(weighings: Weighings, sums: RowSums) -> Doubles:
    """Return the rows that sums make, or ConfigError for a group without a row."""
    for weighing, count in zip(weighings.all, sums.counts, strict=True):
        if isinstance(weighing, ConstraintGroup) and not count:
            values = ", ".join(sums.seen[weighing.column])
            raise ConfigError(
                f"The group {weighing} has no training rows; column {weighing.column!r} holds {values}. "
                "Use one of its values."
            )
    return weighings.combined(sums.products, sums.totals)


def _some(values: set[str]) -> tuple[str, ...]:
    return tuple(sorted(values)[:MOST_SEEN])


# Feasibility of limits in a ball, and the nearest feasible weights.

_SINGLE = 1e-5  # of a row's length times the radius: what scores in float32 may be off by


@stored("linear-constraints")
@dataclass(frozen=True, eq=False)
class LinearLimits:
    """low <= C w + shift <= high for the weights w of each output, all of them together in a ball.

    Weights are (n_outputs, n_columns), or (n_columns,) for one output; of several they may be one long vector, too.

    rows : C (m, n_columns) float64, in the units of the constraints
    low, high : (m,), may be infinite; names : (m,), of the constraints, as they are written
    radius : of the ball ||w|| <= radius, the weights of all outputs together
    margin : >= 0, in the units of the constraints: so much inside its limits each quantity is kept, as far as limits
        of two sides leave room, to which rounding is added
    n_outputs : scores of a row, K for K > 2 classes
    shift : (m,), quantities of weights of 0, other than 0 for the mean of a shifted target only
    Raises ConfigError : no weights of the ball are within all limits: names the fewest that are in conflict
    """

    rows: Doubles
    low: Doubles
    high: Doubles
    names: tuple[str, ...]
    radius: float
    margin: float = 0.0
    n_outputs: int = 1
    shift: Doubles | float = 0.0

    def __post_init__(self) -> None:
        # the shortest weights within limits are the same for each output
        each = replace(self.ball, radius=self.radius / math.sqrt(self.n_outputs))
        if conflict := find_conflict(each, self.sides.matrix, self.sides.bounds, self.owners):
            limits = " and ".join(repr(self.names[index]) for index in conflict)
            least = ", including their margins," if self.margin else ""
            raise ConfigError(
                f"No weights of norm up to {self.radius:g} satisfy {limits}{least} on the training "
                f"rows. Widen {('a limit' if len(conflict) > 1 else 'the limit')}, or raise the "
                "radius."
            )

    @cached_property
    def lengths(self) -> Doubles:
        """Return ||C_i||, (m,); 1 for a row of zeros, which all weights satisfy or none."""
        lengths = np.linalg.norm(self.rows, axis=1)
        return np.where(lengths > 0.0, lengths, 1.0)

    @cached_property
    def margins(self) -> Doubles:
        """Return the margin and the rounding error (m,), at most half of the distance between two limits."""
        wanted = self.margin + _SINGLE * self.lengths * self.radius
        return np.minimum(wanted, 0.5 * np.maximum(self.high - self.low, 0.0))

    @property
    def ball(self) -> Ball:
        """Return the ball of the weights, of all outputs together; its centre is that of one."""
        return Ball(np.zeros(self.rows.shape[1]), self.radius)

    @property
    def has_side(self) -> NDArray[np.bool_]:
        """Return which upper, then lower limits are finite, (2, m)."""
        return np.isfinite([self.high, self.low])

    @property
    def owners(self) -> Integers:
        """Return the constraint of each finite limit of one output, upper ones first, (k,)."""
        return np.ascontiguousarray(np.nonzero(self.has_side)[1])  # a view otherwise, to be compiled for apart

    @property
    def sides(self) -> ConstraintRows:
        """Return finite limits of one output less margins, upper then lower: S w <= h with rows of length 1."""
        scaled, (above, below) = self.rows / self.lengths[:, None], self.has_side
        high = (self.high - self.shift - self.margins) / self.lengths
        low = (self.low - self.shift + self.margins) / self.lengths
        matrix, bounds = np.concatenate([scaled[above], -scaled[below]]), np.concatenate([high[above], -low[below]])
        return make_rows(matrix, bounds, self.ball.region)

    @cached_property
    def steepness(self) -> float:
        """Return the largest singular value of the rows at length 1, a bound of the length of subgradients."""
        return float(np.linalg.norm(self.rows / self.lengths[:, None], 2))

    @cached_property
    def stacked_sides(self) -> ConstraintRows:
        """Return the sides of all outputs, one output after the other; only the matrix is that of one."""
        sides, count = self.sides, self.n_outputs
        return sides._replace(
            bounds=np.tile(sides.bounds, count),
            centred=np.tile(sides.centred, count),
            gram=np.asarray(np.kron(np.eye(count), sides.gram), dtype=np.float64),
            lengths=np.tile(sides.lengths, count),
        )

    def compiled(self, precision: Precision, gain: float, rate: float = 0.0, rectified: bool = False) -> Limits:
        """Return the constraints for compiled code, with rows of length 1; the other parameters as in Limits."""
        rows = (self.rows / self.lengths[:, None]).astype(precision)
        signs = np.where(np.nonzero(self.has_side)[0] > 0, -1.0, 1.0)
        owners = (np.arange(self.n_outputs)[:, None] * len(rows) + self.owners).ravel()
        return Limits(
            rows,
            np.tile(self.lengths, self.n_outputs),
            owners,
            np.tile(signs, self.n_outputs),
            self.stacked_sides,
            self.ball.region,
            gain,
            rate,
            rectified,
        )

    def values(self, weights: FloatArray) -> Doubles:
        """Return the quantities of each output, (n_outputs, m)."""
        outputs = weights.reshape(self.n_outputs, -1).astype(np.float64)
        return np.array([self.rows @ of_output for of_output in outputs]) + self.shift

    def excess(self, weights: FloatArray) -> Doubles:
        """Return how far each quantity is outside its own limits, (n_outputs, m) >= 0, in its unit."""
        values = self.values(weights)
        return np.maximum(0.0, np.maximum(self.low - values, values - self.high))

    def nearest(self, weights: FloatArray) -> Doubles:
        """Return the nearest weights of the ball within all limits, float64, in the shape of those given."""
        nearest = np.array(weights, dtype=np.float64)
        sides, region, count = self.sides, self.ball.region, len(self.owners)
        if self.n_outputs == 1:
            proximal_step(nearest.reshape(-1), make_work(count, nearest.size), sides, region, np.full(count, np.inf))
            return nearest
        outputs = nearest.reshape(self.n_outputs, -1)
        work = make_work(self.n_outputs * count, 1)
        work.numbers[SQUARED] = np.sum(nearest**2)
        with one_blas_thread():
            work.products[...] = (outputs @ sides.matrix.T).ravel()
            maximise_dual(work, work.point, self.stacked_sides, region, np.full(self.n_outputs * count, np.inf))
            outputs -= work.multipliers.reshape(self.n_outputs, -1) @ sides.matrix
        nearest *= min(1.0, self.radius / max(float(np.linalg.norm(nearest)), self.radius))
        return nearest


def unit_of(schema: Schema) -> tuple[float, float]:
    """Return shift and spread: in the unit of the target, a score is shift + spread * score; (0, 1) unless scaled."""
    shift, factor = schema.target_shift_and_factor
    return shift, 1.0 / (factor or 1.0)


def limits_of(
    constraints: tuple[Constraint, ...],
    rows: Doubles,
    radius: float,
    margin: float = 0.0,
    n_outputs: int = 1,
    unit: tuple[float, float] = (0.0, 1.0),
) -> LinearLimits:
    """Return the limits of constraints in a ball, of the sum of rows (m, n_columns); unit : as of `unit_of`."""
    low, high = (np.array([getattr(constraint, side) for constraint in constraints]) for side in ("low", "high"))
    names = tuple(str(constraint) for constraint in constraints)
    shift = np.array([unit[0] * isinstance(constraint.quantity, GroupMean) for constraint in constraints])
    return LinearLimits(unit[1] * rows, low, high, names, radius, margin, n_outputs, shift)


# Measurement of constrained quantities on scores, in the unit of the target, and on decisions.

Moments = NDArray[np.float64]
"""(2, weighings, 3, 3): sums over rows of weight^a value^b, of scores and then of decisions (1 for the positive class,
or the class of the output); those of every output, (n_outputs, 2, weighings, 3, 3)."""


@dataclass(frozen=True, eq=False)
class MeasureConstraints:
    """Work on one shard: its moments, with a predictor that is given."""

    data: Dataset
    weighings: Weighings
    precision: Precision

    def __call__(self, shard: Shard, predictor: Predictor) -> Moments:
        """Return moments of every output over a shard, row group by row group."""
        schema = self.data.schema
        shift, spread = unit_of(schema)
        total = np.zeros((schema.n_outputs, 2, len(self.weighings.all), 3, 3))
        for inputs, columns, where in _read_groups(self.data, self.weighings, shard, self.precision):
            scores = predictor.scores(inputs).astype(np.float64)
            total += moments_of(self.weighings, columns, shift + spread * scores, where)
        return total


def moments_of(weighings: Weighings, columns: Columns, scores: Doubles, where: str) -> Moments:
    """Return moments of rows in memory: scores (rows,) or (rows, n_outputs), and the columns of constraints."""
    weights, outputs = weighings.of(columns, len(scores), where), scores.reshape(len(scores), -1)
    decided = outputs >= 0.0
    if outputs.shape[1] > 1:
        decided = outputs.argmax(axis=1)[:, None] == np.arange(outputs.shape[1])
    total = np.zeros((outputs.shape[1], 2, len(weights), 3, 3))
    for output, index in np.ndindex(*total.shape[:2]):
        values = (outputs, decided)[index][:, output].astype(np.float64)
        powers = np.stack([np.ones(len(values)), values, values**2], axis=1)
        for power in range(3):
            total[output, index, :, power] += weights**power @ powers
    return total


def add_moments(parts: Sequence[Moments]) -> Moments:
    """Add parts up in the order given."""
    return reduce(np.add, parts)


def measure_constraints(
    data: Dataset,
    shards: Sequence[Shard],
    constraints: tuple[Constraint, ...],
    predictor: Predictor,
    precision: Precision,
    execution: Execution,
) -> list[dict[str, Any]]:
    """Return each constraint on all rows of some shards, in one pass by the verb `sum`, as JSON.

    Returns a dict a constraint: value, of scores, in the unit of the target; standard_error, of the value for fresh
        rows; excess, outside the limits; of several classes, those of the class that is farthest outside, or nearest to
        a limit, and that class; and, unless this is a regression, of decisions positive_rate of a group,
        positive_rate_difference between two, or decision_covariance with a column that holds more than 0 and 1; None
        where a group has no rows.
    """
    work = MeasureConstraints(data, Weighings(constraints), precision)
    return figures_of(constraints, execution.sum(work, shards, predictor, add_moments), data.schema)


def figures_of(constraints: tuple[Constraint, ...], moments: Moments, schema: Schema) -> list[dict[str, Any]]:
    """Return each constraint from the moments of every output, as `measure_constraints` gives it."""
    places, table = Weighings(constraints).places, []
    for constraint in constraints:
        values = [_value(constraint, scores, places) for scores, _ in moments]
        beyond = [0.0 if value is None else max(value - constraint.high, constraint.low - value) for value, _ in values]
        worst = int(np.argmax(beyond))
        value, error = values[worst]
        figures: dict[str, Any] = {
            "value": value,
            "standard_error": error,
            "excess": None if value is None else max(0.0, beyond[worst]),
        }
        if schema.task == "multiclass":
            figures |= {"class": schema.labels[worst]}
        if schema.task != "regression":
            scores, decisions = moments[worst]
            figures |= _of_decisions(constraint, _value(constraint, decisions, places)[0], scores, places)
        table.append(figures)
    return table


def _value(constraint: Constraint, moments: Moments, places: dict[Weighing, int]) -> tuple[float | None, float | None]:
    """Return the quantity of scores or of decisions, and its standard error."""
    quantity = constraint.quantity
    if isinstance(quantity, Covariance):
        return _covariance(moments[places[quantity]])
    means = [_mean(moments[places[group]]) for group in quantity.weighings]
    values, variances = [mean[0] for mean in means if mean], [mean[1] for mean in means if mean]
    if len(values) < len(means):
        return None, None
    return reduce(operator.sub, values), math.sqrt(sum(variances))


def _covariance(sums: Moments) -> tuple[float, float]:
    """Return sums (3, 3) of weight^a value^b; the error is that of a mean of products of what is left of means."""
    rows = sums[0, 0]
    mean = sums / rows
    weight, value = mean[1, 0], mean[0, 1]
    covariance = mean[1, 1] - weight * value
    taken = np.array([[weight**2], [-2.0 * weight], [1.0]]) @ np.array([[value**2, -2.0 * value, 1.0]])
    spread = float((taken * mean).sum()) - covariance**2
    return float(covariance), math.sqrt(max(spread, 0.0) / rows)


def _mean(sums: Moments) -> tuple[float, float] | None:
    """Return the mean of a group and the variance of that; None without rows."""
    rows = sums[1, 0]
    if rows == 0.0:
        return None
    mean = sums[1, 1] / rows
    return float(mean), float(max(sums[1, 2] / rows - mean**2, 0.0) / rows)


def _of_decisions(
    constraint: Constraint, decided: float | None, scores: Moments, places: dict[Weighing, int]
) -> dict[str, float | None]:
    quantity = constraint.quantity
    if isinstance(quantity, GroupMean):
        return {"positive_rate": decided}
    if not isinstance(quantity, Covariance):
        return {"positive_rate_difference": decided}
    sums = scores[places[quantity]]
    share = sums[1, 0] / sums[0, 0]
    if sums[2, 0] != sums[1, 0] or not 0.0 < share < 1.0 or decided is None:
        return {"decision_covariance": decided}
    # of a column of 0 and 1 a covariance is the difference of two means, times share (1 - share)
    return {"positive_rate_difference": float(decided / (share * (1.0 - share)))}
