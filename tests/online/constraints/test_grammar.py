from __future__ import annotations

import math

import pytest

from okl.errors import ConfigError
from okl.online.constraints import (
    Constraint,
    Covariance,
    Group,
    GroupMean,
    MeanDifference,
    NormBound,
    parse_constraint,
    parse_constraints,
)

DIFFERENCE = MeanDifference(Group("f71", "1"), Group("job title", "night shift"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(covariance(f71)) <= 0.01", Constraint(Covariance("f71"), -0.01, 0.01)),
        ("covariance('a (b)')>=-1e-3", Constraint(Covariance("a (b)"), low=-1e-3)),
        ("mean(sex=Male) <= .2", Constraint(GroupMean(Group("sex", "Male")), high=0.2)),
        ('-1 <= difference(f71=1, "job title"="night shift") <= 2', Constraint(DIFFERENCE, -1.0, 2.0)),
        (" norm<=10 ", NormBound(10.0)),
    ],
)
def test_text_means_its_constraint_and_back(text: str, expected: Constraint | NormBound) -> None:
    assert parse_constraint(text) == expected
    assert parse_constraint(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no quantity"),
        ("covariance(f71)", "'<=' or '>=' is expected"),
        ("covariance(f71) <= ten", "'ten' is no finite number"),
        ("abs(covariance(f71)) <= -1", "never at most -1"),
        ("rate(f71=1) <= 0.1", "no quantity"),
        ("mean(f71) <= 0.1", "'=' is expected where ')' stands"),
        ("abs(mean(f71=1)) >= 0.1", "'<=' is expected"),
        ("norm <= 0", "norm = 0.0"),
        ("mean(f71=1) <= 0.1 0.2", "'0.2' is left over"),
        ('mean("f71=1) <= 1', "cannot be read"),
        ("3 <= mean(f71=1) <= 1", "not below it"),
    ],
)
def test_bad_grammar_is_told_where_it_goes_wrong(text: str, part: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_constraint(text)
    assert part in str(error.value)


def test_smallest_norm_bound_counts_and_a_constraint_comes_once() -> None:
    constraints, radius = parse_constraints(["norm <= 10", "mean(a=1) <= 1", "norm <= 3"])
    assert (len(constraints), radius) == (1, 3.0)
    assert parse_constraints(["mean(a=1) <= 1"])[1] is None
    with pytest.raises(ConfigError, match="twice"):
        parse_constraints(["mean(a=1) <= 1", "mean(a=1)<=1.0"])


def test_a_constraint_has_a_limit() -> None:
    with pytest.raises(ConfigError, match="takes a lower limit"):
        Constraint(Covariance("a"))
    with pytest.raises(ConfigError, match="takes a lower limit"):
        Constraint(Covariance("a"), low=math.nan)
