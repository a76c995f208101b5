"""Online convex optimisation with constraints that are to hold in the long run, for any convex loss and set.

A `Problem` is a set with constraints; a method (`okl.oco.methods`) chooses a point a round and learns a subgradient.
"""

from okl.oco.constraints import ConvexConstraints, LinearConstraints
from okl.oco.losses import ConvexLosses, QuadraticLosses
from okl.oco.methods.algorithm1 import Algorithm1
from okl.oco.methods.algorithm2 import Algorithm2
from okl.oco.problem import Problem
from okl.oco.runs import Traces, play_rounds, run_many, trace
from okl.oco.schedules import Anytime, KnownHorizon, KnownPathLength, StronglyConvex, covered
from okl.oco.sets import Ball, Box, Simplex

__all__ = [
    "Algorithm1",
    "Algorithm2",
    "Anytime",
    "Ball",
    "Box",
    "ConvexConstraints",
    "ConvexLosses",
    "KnownHorizon",
    "KnownPathLength",
    "LinearConstraints",
    "Problem",
    "QuadraticLosses",
    "Simplex",
    "StronglyConvex",
    "Traces",
    "covered",
    "play_rounds",
    "run_many",
    "trace",
]
