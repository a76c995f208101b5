"""Online convex optimisation with constraints that are to hold in the long run, for any convex loss and set.

A `Problem` is a set with constraints; a method chooses a point in each round and receives a subgradient.
`default_method`, for constraints that do not change, is RECOO; its docstring gives the figures.
"""

from okl.solvers.oco.methods import Algorithm1, Algorithm2
from okl.solvers.oco.problem import ConvexConstraints, ConvexLosses, LinearConstraints, Problem, QuadraticLosses
from okl.solvers.oco.rivals import (
    ImprovedAder,
    Jenatton,
    Mahdavi,
    Recoo,
    SinhaVaze,
    YuanLamperski,
    YuNeely,
    default_method,
)
from okl.solvers.oco.runs import (
    Traces,
    constraint_values,
    dynamic_optima,
    dynamic_regret,
    growth_exponent,
    path_length,
    play_rounds,
    regret,
    run_many,
    static_optimum,
    static_regret,
    trace,
    violation_of,
)
from okl.solvers.oco.schedules import (
    Anytime,
    Bounds,
    KnownHorizon,
    KnownPathLength,
    StronglyConvex,
    bounds_of,
    constants_of,
    covered,
    expert_bounds,
)
from okl.solvers.oco.sets import Ball, Box, Simplex

__all__ = [
    "Algorithm1",
    "Algorithm2",
    "Anytime",
    "Ball",
    "Bounds",
    "Box",
    "ConvexConstraints",
    "ConvexLosses",
    "ImprovedAder",
    "Jenatton",
    "KnownHorizon",
    "KnownPathLength",
    "LinearConstraints",
    "Mahdavi",
    "Problem",
    "QuadraticLosses",
    "Recoo",
    "Simplex",
    "SinhaVaze",
    "StronglyConvex",
    "Traces",
    "YuNeely",
    "YuanLamperski",
    "bounds_of",
    "constants_of",
    "constraint_values",
    "covered",
    "default_method",
    "dynamic_optima",
    "dynamic_regret",
    "expert_bounds",
    "growth_exponent",
    "path_length",
    "play_rounds",
    "regret",
    "run_many",
    "static_optimum",
    "static_regret",
    "trace",
    "violation_of",
]
