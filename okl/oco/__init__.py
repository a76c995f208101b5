"""Online convex optimisation with constraints that are to hold in the long run, for any convex loss and set.

A `Problem` is a set with constraints; a method (`okl.oco.methods`) chooses a point a round and learns a subgradient.
`default_method` is the one to take where constraints stay, RECOO, and says by which figures.
"""

from okl.oco.bounds import Bounds, bounds_of, constants_of, expert_bounds
from okl.oco.constraints import ConvexConstraints, LinearConstraints
from okl.oco.losses import ConvexLosses, QuadraticLosses
from okl.oco.methods.ader import ImprovedAder
from okl.oco.methods.algorithm1 import Algorithm1
from okl.oco.methods.algorithm2 import Algorithm2
from okl.oco.methods.default import default_method
from okl.oco.methods.jenatton import Jenatton
from okl.oco.methods.mahdavi import Mahdavi
from okl.oco.methods.recoo import Recoo
from okl.oco.methods.sinhavaze import SinhaVaze
from okl.oco.methods.yuanlamperski import YuanLamperski
from okl.oco.methods.yuneely import YuNeely
from okl.oco.metrics import constraint_values, growth_exponent, path_length, regret, violation_of
from okl.oco.optima import dynamic_optima, dynamic_regret, static_optimum, static_regret
from okl.oco.problem import Problem
from okl.oco.runs import Traces, play_rounds, run_many, trace
from okl.oco.schedules import Anytime, KnownHorizon, KnownPathLength, StronglyConvex, covered
from okl.oco.sets import Ball, Box, Simplex

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
