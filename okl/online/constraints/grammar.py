"""The grammar of constraints, as `--constraint` takes them.

    constraint := "abs(" quantity ")" "<=" number
                | quantity ("<=" | ">=") number
                | number "<=" quantity "<=" number
                | "norm" "<=" number
    quantity   := "covariance(" COLUMN ")"            of the score with a column of numbers
                | "difference(" group "," group ")"   of the mean scores of two groups
                | "mean(" group ")"                   score of the rows of a group
    group      := COLUMN "=" VALUE

A column or a value with spaces or signs stands between quotes, single or double.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from okl.errors import ConfigError
from okl.online.constraints.quantities import (
    Constraint,
    Covariance,
    Group,
    GroupMean,
    MeanDifference,
    NormBound,
    Quantity,
)

TAKES = (
    "abs(QUANTITY) <= NUMBER, QUANTITY <= NUMBER, QUANTITY >= NUMBER or norm <= NUMBER, where a quantity is "
    "covariance(COLUMN), difference(COLUMN=VALUE, COLUMN=VALUE) or mean(COLUMN=VALUE)"
)
_TOKEN = re.compile(r"""\s*("[^"]*"|'[^']*'|<=|>=|[(),=]|[^\s(),=<>"']+)""")
_SIGNS = ("<=", ">=", "(", ")", ",", "=")


def parse_constraints(texts: Sequence[str]) -> tuple[tuple[Constraint, ...], float | None]:
    """Constraints of several texts, and the smallest norm bound among them, None without one.

    Raises
    ------
    ConfigError : a text that the grammar has not, or the same constraint twice
    """
    found = [parse_constraint(text) for text in texts]
    if twice := [str(one) for index, one in enumerate(found) if one in found[:index]]:
        raise ConfigError(f"The constraint {twice[0]!r} was given twice. Leave one out.")
    bounds = [one.high for one in found if isinstance(one, NormBound)]
    return tuple(one for one in found if isinstance(one, Constraint)), min(bounds, default=None)


def parse_constraint(text: str) -> Constraint | NormBound:
    """The constraint that a text means.

    Raises
    ------
    ConfigError : a text that the grammar has not; the message says where it leaves it

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
        self._text, self._tokens, place = text, list[str](), 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise self._wrong(f"{text[place:].strip()!r} cannot be read")
            self._tokens.append(match[1])
            place = match.end()
        self._next = 0

    def constraint(self) -> Constraint | NormBound:
        first = self._peek()
        if first == "norm":
            self._take("norm")
            self._take("<=")
            found: Constraint | NormBound = NormBound(self._number())
        elif first == "abs":
            found = self._absolute()
        else:
            found = self._sided()
        if (more := self._peek()) != "":
            raise self._wrong(f"{more!r} is left over")
        return found

    def _absolute(self) -> Constraint:
        self._take("abs")
        self._take("(")
        quantity = self._quantity()
        self._take(")")
        self._take("<=")
        high = self._number()
        if high < 0.0:
            raise self._wrong(f"an absolute value is never at most {high:g}")
        return Constraint(quantity, -high, high)

    def _sided(self) -> Constraint:
        low, high = -math.inf, math.inf
        if self._begins_with_number():
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
            raise self._wrong(f"{name or 'the end'!r} is no quantity that can be constrained")
        self._take(name)
        self._take("(")
        if name == "covariance":
            found: Quantity = Covariance(self._word("a column"))
        elif name == "mean":
            found = GroupMean(self._group())
        else:
            first = self._group()
            self._take(",")
            found = MeanDifference(first, self._group())
        self._take(")")
        return found

    def _begins_with_number(self) -> bool:
        return len(self._tokens) > 1 and self._tokens[1] == "<="

    def _group(self) -> Group:
        column = self._word("a column")
        self._take("=")
        return Group(column, self._word("a value"))

    def _word(self, what: str) -> str:
        word = self._peek()
        if word in ("", *_SIGNS):
            raise self._wrong(f"{what} is expected where {word or 'the end'!r} stands")
        self._next += 1
        return word[1:-1] if word[0] in "\"'" else word

    def _number(self) -> float:
        word = self._word("a number")
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self._wrong(f"{word!r} is no finite number")
        return value

    def _take(self, token: str) -> None:
        if self._peek() != token:
            raise self._wrong(f"{token!r} is expected where {self._peek() or 'the end'!r} stands")
        self._next += 1

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _wrong(self, why: str) -> ConfigError:
        return ConfigError(f"constraint {self._text!r}: {why}. It takes {TAKES}.")
