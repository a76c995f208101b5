"""Constraints on scores that a learner keeps to: what they are, their grammar, their rows, what they come to."""

from __future__ import annotations

from okl.online.constraints.grammar import parse_constraint, parse_constraints
from okl.online.constraints.quantities import (
    Constraint,
    Covariance,
    Group,
    GroupMean,
    MeanDifference,
    NormBound,
)

__all__ = [
    "Constraint",
    "Covariance",
    "Group",
    "GroupMean",
    "MeanDifference",
    "NormBound",
    "parse_constraint",
    "parse_constraints",
]
